// Checks whether this shard owns the partitions of a request under its epoch.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/rows/place.h"

#include "base/buf.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// Returns the first run whose partition this shard does not own; n_runs if it owns all.
static uint32_t first_foreign(const struct shard *s, const struct roster *r,
                              enum wire_space space, const struct keys *k)
{
    uint32_t me = member_id(s->member);
    const uint32_t *owners = r->owners[space];
    for (uint32_t i = 0; i < k->n_runs; i++) {
        // keys_read has checked the partitions
        assert(k->runs[i].partition >> s->bits == 0);
        if (owners == NULL || owners[k->runs[i].partition] != me)
            return i;
    }
    return k->n_runs;
}

void place_send_roster(struct shard *s, van_link link, uint64_t request,
                       const struct roster *r)
{
    struct buf nodes = BUF_INIT(WIRE_SPAN_MAX), owners = BUF_INIT(WIRE_SPAN_MAX);
    struct msg_roster m;
    // If memory is out, no answer is sent, and the sender repeats its request.
    if (roster_encode(r, &nodes, &owners, &m) == 0)
        van_send(s->van, link, MSG_ROSTER, request, &m, NULL);
    buf_free(&nodes);
    buf_free(&owners);
}

static void send_roster(struct shard *s, const struct shard_request *q,
                        const struct roster *r)
{
    place_send_roster(s, q->peer->link, q->id, r);
}

enum outcome place_check_all(struct shard *s, const struct shard_request *q,
                             uint64_t epoch)
{
    const struct roster *r = member_roster(s->member);
    assert(s->ready);
    if (bug_in(s->o.member.bugs, WITHOUT_EPOCH_CHECK))
        return GOES_ON;
    if (epoch > r->epoch) {
        member_want_roster(s->member, epoch);
        return WANTS_ROSTER;
    }
    if (epoch < r->epoch && !bug_in(s->o.member.bugs, WITHOUT_EXACT_EPOCHS)) {
        send_roster(s, q, r);
        return ANSWERED;
    }
    if (s->roles.n_unsettled > 0 && !bug_in(s->o.member.bugs, WITHOUT_STOPS))
        return WANTS_MOVE;
    return GOES_ON;
}

enum outcome place_check_admin(struct shard *s, const struct shard_request *q,
                               uint64_t epoch)
{
    if (s->chain == NULL)
        return s->roles.n_unsettled > 0 ? WANTS_MOVE : GOES_ON;
    enum outcome outcome = place_check_all(s, q, epoch);
    return outcome == GOES_ON ? chain_is_about_all(s) : outcome;
}

enum outcome place_check(struct shard *s, const struct shard_request *q, uint64_t epoch,
                         const struct shard_table *t, const struct keys *k, bool whole,
                         struct err *e)
{
    const struct roster *r = member_roster(s->member);
    assert(s->ready);
    if (bug_in(s->o.member.bugs, WITHOUT_EPOCH_CHECK))
        return GOES_ON;
    if (epoch > r->epoch) {
        member_want_roster(s->member, epoch);
        return WANTS_ROSTER;
    }
    if (whole && epoch < r->epoch && !bug_in(s->o.member.bugs, WITHOUT_EXACT_EPOCHS)) {
        send_roster(s, q, r);
        return ANSWERED;
    }
    if (epoch < q->peer->stale) {
        send_roster(s, q, r);
        return ANSWERED;
    }
    uint32_t foreign = first_foreign(s, r, t->spec.space, k);
    if (foreign == k->n_runs && s->roles.n_unsettled > 0 &&
        roles_stop(&s->roles, t->spec.space, k, whole) &&
        !bug_in(s->o.member.bugs, WITHOUT_STOPS))
        return WANTS_MOVE;
    if (foreign == k->n_runs) {
        if (__builtin_expect(s->chain != NULL, false))
            chain_is_about(s, ABOUT_KEYS, t->spec.space, k);
        return GOES_ON;
    }
    if (epoch < r->epoch) {
        send_roster(s, q, r);
        if (q->type == MSG_PUSH)
            q->peer->stale = r->epoch;
    } else {
        err_set(e, TUG_EUSAGE,
                "partition %u does not belong to node %u in epoch %llu, which both sides "
                "know",
                k->runs[foreign].partition, member_id(s->member),
                (unsigned long long)epoch);
        shard_refuse(s, q, e);
    }
    return ANSWERED;
}
