// Defines which state of a link may follow another one. In builds with assertions, also
// asserts the invariants of a van after each round.
//
// No assertion depends on what a peer sends.
//
// SPDX-License-Identifier: Apache-2.0
#include "van/tcp_internal.h"

bool tcp_may_follow(enum tcp_state from, enum tcp_state to)
{
    enum {
        ENDS = 1 << LINK_FAILED | 1 << LINK_DEAD,
        // AGAIN: after a failed attempt to connect, the link waits for the next attempt.
        AGAIN = 1 << LINK_WAITING | ENDS
    };
    static const uint16_t next[] = {
        [LINK_WAITING] = 1 << LINK_RESOLVING | 1 << LINK_CONNECTING | AGAIN,
        [LINK_RESOLVING] = 1 << LINK_CONNECTING | AGAIN,
        [LINK_CONNECTING] = 1 << LINK_SHAKING | 1 << LINK_PROVING | 1 << LINK_OPEN |
                            AGAIN,
        [LINK_SHAKING] = 1 << LINK_PROVING | 1 << LINK_OPEN | AGAIN,
        [LINK_PROVING] = 1 << LINK_OPEN | 1 << LINK_CLOSING | AGAIN,
        [LINK_OPEN] = 1 << LINK_CLOSING | ENDS,
        [LINK_CLOSING] = 1 << LINK_DEAD,
        [LINK_FAILED] =
            // The owner has closed the link before `closed` was called for it.
        1 << LINK_DEAD,
        [LINK_DEAD] = 0,
    };
    return (next[from] >> to & 1) != 0;
}

#ifndef NDEBUG

#include "base/sampled.h"

// Counts over all links, to compare with what the van has counted.
struct counted {
    uint32_t accepted, strangers, trials, ended, dirty;
};

// A bisection of the list finds a link by its number.
static void link_is_found(const struct tcp_van *v, uint32_t i)
{
    const struct tcp_link *l = v->links.list[i].link;
    assert(l->van == v && l->number == v->links.list[i].number);
    assert(i == 0 || v->links.list[i - 1].number < l->number);
}

// A link that connects has a dial until it is open; a link with a socket is the one that
// the socket calls back.
static void state_has_its_parts(const struct tcp_link *l)
{
    bool looks_up = l->dial != NULL && l->dial->lookup;
    bool connected = l->state >= LINK_CONNECTING && l->state <= LINK_CLOSING;
    assert((l->dial != NULL) == (!l->accepted && l->state < LINK_OPEN));
    assert(looks_up == (l->state == LINK_RESOLVING));
    assert((l->stream != NULL) == connected);
    assert(l->stream == NULL || l->stream->link == l);
    assert(l->state != LINK_SHAKING || l->tls != NULL);
    assert(l->state != LINK_PROVING || l->handshake != NULL);
}

// An accepted link is past the first states when the call that accepts it returns.
static void accepted_link_is_connected(const struct tcp_link *l)
{
    assert(!l->accepted || l->state > LINK_CONNECTING);
}

// The van frees an ended link after the next round; until then the link is in its list.
static void ended_link_is_listed(const struct tcp_link *l, struct counted *all)
{
    assert(l->ended == (l->state == LINK_FAILED || l->state == LINK_DEAD));
    assert(!l->ended || (l->due == VAN_NEVER && l->counted == 0));
    all->ended += l->ended;
}

// The queued bytes are those of the segments, and those of the encrypted block that libuv
// is sending.
static void queue_adds_up(const struct tcp_link *l)
{
    uint64_t bytes = l->cipher != NULL ? l->in_flight : 0;
    const struct tcp_segment *last = NULL;
    for (const struct tcp_segment *s = l->first; s != NULL; s = s->next) {
        bytes += s->n;
        last = s;
    }
    assert(l->last == last && l->queued == bytes);
    assert(l->writing == (l->in_flight > 0) && l->in_flight <= l->queued);
}

// Checks that the van looks at its links again before the deadline of this link.
static void due_is_seen(const struct tcp_link *l)
{
    assert(l->van->next_due <= l->due);
}

// Strangers are listed by age.
static void strangers_hold(const struct tcp_van *v, const struct counted *all)
{
    uint32_t n = 0;
    const struct tcp_link *last = NULL;
    for (const struct tcp_link *l = v->oldest; l != NULL; last = l, l = l->newer, n++)
        assert(l->stranger && l->older == last);
    assert(v->newest == last && n == all->strangers);
    assert(v->n_strangers == n && v->n_trials == all->trials);
}

// Each link is exactly once in each list in which its flags say it is. At the end of a
// round all small messages have been sent.
static void lists_hold(const struct tcp_van *v, const struct counted *all)
{
    uint32_t ended = 0;
    for (const struct tcp_link *l = v->ended; l != NULL; l = l->next_ended, ended++)
        assert(l->ended);
    assert(ended == all->ended && v->n_accepted == all->accepted);
    assert(v->dirty == NULL && all->dirty == 0);
}

void tcp_check(const struct tcp_van *v)
{
    struct counted all = {0};
    if (!sampled_now(v->rounds, v->links.n))
        return;
    for (uint32_t i = 0; i < v->links.n; i++) {
        const struct tcp_link *l = v->links.list[i].link;
        link_is_found(v, i);
        state_has_its_parts(l);
        accepted_link_is_connected(l);
        ended_link_is_listed(l, &all);
        queue_adds_up(l);
        due_is_seen(l);
        all.accepted += l->accepted;
        all.strangers += l->stranger;
        all.trials += l->stranger && l->trial;
        all.dirty += l->dirty;
    }
    strangers_hold(v, &all);
    lists_hold(v, &all);
}

#endif
