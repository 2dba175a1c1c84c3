// Links that are dead and open, as when a firewall has forgotten them: nothing comes, and
// nothing says so. A link that owes answers and has been silent for a while is asked for
// a sign of life; when none comes, another link is tried beside it. Who greets back there
// is alive, so the old link is dead: it is closed, and all that had no answer is sent
// again, of which servers apply each push once.
//
// A loop that is busy with something long, or stopped, answers neither: then the old link
// stays, and nothing is sent twice. Pulls that are held for a clock do not matter: the
// loop answers PING meanwhile. Bytes that come or leave, be it one large message for a
// minute, are signs of life.
//
// SPDX-License-Identifier: Apache-2.0
#include "client/private.h"

void silence_begin(struct peer *p)
{
    struct client *c = p->client;
    p->s.heard_at = van_now(c->van);
    c->next_due = min_u64(c->next_due, p->s.heard_at + PEER_SILENCE);
}

static void look_for_signs(struct peer *p, uint64_t now)
{
    const struct van *v = p->client->van;
    uint64_t heard = van_heard(v, p->s.link), queued = van_queued(v, p->s.link);
    if (queued < p->queued)
        p->s.heard_at = now;
    if (heard > p->s.heard_at)
        p->s.heard_at = heard;
    p->queued = queued;
}

static void try_another(struct peer *p, uint64_t now)
{
    struct client *c = p->client;
    const struct roster_node *n = roster_find(member_roster(c->member), p->node);
    session_end(&p->another); // one that has not got through
    p->tried_at = now;
    if (n != NULL && n->alive)
        (void)session_dial(&p->another, n->address, PEER_SILENCE, now);
}

uint64_t silence_watch(struct peer *p, uint64_t now)
{
    look_for_signs(p, now);
    uint64_t next = session_tick(&p->s, now);
    uint64_t try_at = p->s.heard_at + 2 * PEER_SILENCE;
    if (!session_is_asked(&p->s)) {
        session_end(&p->another);
        return next;
    }
    if (now < try_at)
        return min_u64(next, try_at);
    if (p->tried_at < try_at || now >= p->tried_at + PEER_SILENCE)
        try_another(p, now);
    return min_u64(next, p->tried_at + PEER_SILENCE);
}
