// Watches sessions for dead links. See silence.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/silence.h"

#include <assert.h>

uint64_t silence_begin(struct session *s, uint64_t now)
{
    s->heard_at = now;
    return now + SILENCE_NS;
}

// Notes signs of life. Bytes that leave the van's queue count as a sign if they were queued
// before the PING: they delay the PING, so its answer can arrive only later. Bytes queued
// after the PING do not count: they can still be sent over a link whose other direction
// is dead.
static void look_for_signs(struct silence *x, struct session *s, uint64_t now)
{
    const struct van *v = s->side->van;
    uint64_t heard = van_heard(v, s->link), queued = van_queued(v, s->link);
    uint64_t left = x->queued > queued ? x->queued - queued : 0;
    if (heard > x->heard) {
        x->heard = heard;
        x->asked = false;
        s->heard_at = heard > s->heard_at ? heard : s->heard_at;
    }
    x->ahead = x->ahead > left ? x->ahead - left : 0;
    x->ahead = x->ahead < queued ? x->ahead : queued;
    if (x->asked && left > 0 && x->ahead > 0)
        s->heard_at = now;
    x->queued = queued;
}

// If a PING was just sent, the first since the last message arrived, notes how many bytes
// were queued before it.
static void note_ping(struct silence *x, const struct session *s)
{
    if (x->asked || !session_is_asked(s))
        return;
    x->asked = true;
    x->queued = x->ahead = van_queued(s->side->van, s->link);
}

// Returns the time of the next check; it is earlier while bytes are queued, because only
// frequent checks notice when bytes were sent.
static uint64_t look_again(const struct silence *x, uint64_t next, uint64_t now)
{
    return x->queued > 0 ? clock_earlier(next, now + SILENCE_NS / 10) : next;
}

static void try_another(struct silence *x, const struct session *s, const char *address,
                        uint64_t now)
{
    session_end(&x->another); // ends an earlier attempt that has not succeeded
    x->tried_at = now;
    x->another.side = s->side;
    x->another.role = s->role;
    x->another.node = s->node;
    if (address != NULL)
        (void)session_dial(&x->another, address, SILENCE_NS, now);
}

uint64_t silence_watch(struct silence *x, struct session *s, const char *address,
                       uint64_t now)
{
    assert(s->state == SESSION_OPEN);
    look_for_signs(x, s, now);
    uint64_t next = session_tick(s, now);
    note_ping(x, s);
    next = look_again(x, next, now);
    uint64_t try_at = s->heard_at + 2 * SILENCE_NS;
    if (!session_is_asked(s)) {
        silence_end(x);
        return next;
    }
    if (now < try_at)
        return clock_earlier(next, try_at);
    if (x->tried_at < try_at || now >= x->tried_at + SILENCE_NS)
        try_another(x, s, address, now);
    return clock_earlier(next, x->tried_at + SILENCE_NS);
}

void silence_adopt(struct silence *x, struct session *s, uint64_t now)
{
    struct session silent = *s;
    *s = x->another;
    x->another = silent;
    x->queued = x->ahead = 0;
    x->asked = false;
    err_set(&s->why, TUG_EIO, "the link was silent for %.1f s",
            (double)(now - silent.heard_at) * 1e-9);
    silence_end(x);
}

void silence_end(struct silence *x)
{
    session_end(&x->another);
}
