// Holds the placement: while an admin operation or a save is open, no partition changes
// its owner, so that each partition takes part in it exactly once. The client asks the
// scheduler for that before such a request is sent, and lets go after the last one. The
// scheduler lets go by itself when the session is over.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "client/private.h"

// Pause before asking again, after the answer that partitions are being handed over.
enum { AGAIN_MS = 5 };

void hold_take(struct client *c)
{
    c->hold.users++;
}

void hold_give(struct client *c)
{
    assert(c->hold.users > 0);
    c->hold.users--;
}

void hold_save(struct client *c, uint64_t id)
{
    if (id != 0 && c->hold.save == 0)
        hold_take(c);
    if (id == 0 && c->hold.save != 0)
        hold_give(c);
    c->hold.save = id;
}

bool hold_is_on(const struct client *c)
{
    return c->hold.epoch != 0 && c->epoch >= c->hold.epoch;
}

// Takes the scheduler's answer to a hold. If `m` is NULL, the member has ended.
static void hold_answered(void *ctx, const struct van_message *m)
{
    struct client *c = ctx;
    struct hold *h = &c->hold;
    uint64_t now = van_now(c->van);
    h->asking = false;
    if (m == NULL)
        return;
    h->epoch = m->type == MSG_OK ? m->m->ok.value : 0;
    h->due = h->epoch == 0 ? now + AGAIN_MS * MS : 0;
    if (h->epoch > c->epoch)
        member_want_roster(c->member, h->epoch);
    request_advance(c, now);
}

static void let_go_answered(void *ctx, const struct van_message *m)
{
    struct client *c = ctx;
    (void)m;
    c->hold.asking = false;
    // A request may have been made since the message was sent.
    (void)hold_tick(c, van_now(c->van));
}

uint64_t hold_tick(struct client *c, uint64_t now)
{
    struct hold *h = &c->hold;
    bool on = h->users > 0;
    if (h->asking || c->over || (on ? h->epoch != 0 : !h->asked))
        return VAN_NEVER;
    if (on && now < h->due)
        return h->due;
    struct msg_hold m = {.on = on};
    if (member_ask(c->member, MSG_HOLD, &m, on ? hold_answered : let_go_answered, c) != 0)
        return now + AGAIN_MS * MS; // memory is out
    h->asking = true;
    h->asked = on;
    h->epoch = 0;
    return VAN_NEVER;
}
