// Room for answers: a pull waits until the unsent answers to its client, and to others,
// leave room for its rows. The requests of one link keep their order.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/room.h"

#include "server/clocks/pending.h"
#include "server/shard_internal.h"

#define LOOK_NS (SECOND_NS / 1000)
enum {
    LOOK_EACH_NS =
        100,        // added to the interval for each waiting request, so that checks take
                    // a small part of the time
    LINK_SHARE = 4, // the answers of one link may use 1/4 of what may be queued
    SMALL_SHARE = 8, // 1/8 of what may be queued is reserved for small answers
};

uint64_t room_most(const struct shard *s)
{
    uint64_t most = s->o.budget != NULL ? budget_most(s->o.budget, BUDGET_QUEUED) : 0;
    return s->o.budget != NULL ? most - most / SMALL_SHARE : UINT64_MAX;
}

enum outcome room_for(struct shard *s, struct shard_request *q, uint64_t bytes,
                      struct err *e)
{
    struct budget *b = s->o.budget;
    struct shard_peer *p = q->peer;
    if (b == NULL || q->silent)
        return GOES_ON;
    uint64_t most = room_most(s);
    if (bytes > most) {
        err_set(
            e, TUG_EUSAGE,
            "the answer has %llu bytes, more than the %llu that this server sends at "
            "once: ask for fewer rows at a time, or start the server with more --memory",
            (unsigned long long)bytes, (unsigned long long)most);
        return GOES_ON;
    }
    q->room = bytes;
    bool behind = q->fresh != NULL ? p->n_draining > 0 : p->blocked == s->retries;
    if (!behind && room_now(s, p, bytes))
        return GOES_ON;
    if (q->fresh != NULL &&
        budget_fits(b, BUDGET_QUEUED,
                    bytes + budget_most(b, BUDGET_QUEUED) / SMALL_SHARE))
        budget_delayed(b); // only this peer has too many unread answers, not the process
    else if (q->fresh != NULL)
        budget_refused(b);
    p->blocked = s->retries;
    return WANTS_DRAIN;
}

bool room_now(const struct shard *s, const struct shard_peer *p, uint64_t bytes)
{
    const struct budget *b = s->o.budget;
    uint64_t most = budget_most(b, BUDGET_QUEUED), queued = van_queued(s->van, p->link);
    if (queued > 0 && (queued > most / LINK_SHARE || bytes > most / LINK_SHARE - queued))
        return false;
    return budget_fits(b, BUDGET_QUEUED, bytes + most / SMALL_SHARE);
}

// Lets waiting requests check for room from time to time, because the van has no event for
// bytes that were sent.
uint64_t room_look(struct shard *s)
{
    if (s->n_draining == 0)
        return VAN_NEVER;
    assert(s->o.budget != NULL); // without a budget no request waits for room
    if (s->now >= s->drain_look) {
        struct budget *b = s->o.budget;
        if (!budget_fits(b, BUDGET_QUEUED, budget_most(b, BUDGET_QUEUED) / SMALL_SHARE))
            budget_pressed(b);
        pending_wake(s, WANTS_DRAIN);
        s->drain_look = s->now + LOOK_NS + (uint64_t)s->n_pending * LOOK_EACH_NS;
    }
    return s->drain_look;
}
