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
#include "cluster/session.h"

#define SILENCE (5000 * MS)

void silence_begin(struct peer *p)
{
    struct client *c = p->client;
    p->alive_at = van_now(c->van);
    c->next_due = min_u64(c->next_due, p->alive_at + SILENCE);
}

void silence_end(struct peer *p)
{
    van_close_link(p->client->van, p->another);
    p->another = 0;
}

static void look_for_signs(struct peer *p, uint64_t now)
{
    const struct van *v = p->client->van;
    uint64_t heard = van_heard(v, p->link), queued = van_queued(v, p->link);
    if (queued < p->queued)
        p->alive_at = now;
    if (heard > p->alive_at)
        p->alive_at = heard;
    p->queued = queued;
}

static void ping(struct peer *p, uint64_t now)
{
    p->pinged_at = now;
    (void)van_send(p->client->van, p->link, MSG_PING, 0, &(struct msg_ping){}, NULL);
}

static void try_another(struct peer *p, uint64_t now)
{
    struct client *c = p->client;
    const struct roster_node *n = roster_find(member_roster(c->member), p->node);
    silence_end(p); // one that has not got through
    p->tried_at = now;
    if (n != NULL && n->alive)
        p->another = van_connect(c->van, n->address, SILENCE);
}

uint64_t silence_watch(struct peer *p, uint64_t now)
{
    if (p->client->o.without_silence_watch)
        return VAN_NEVER;
    look_for_signs(p, now);
    uint64_t ping_at = p->alive_at + SILENCE, try_at = ping_at + SILENCE;
    if (now < ping_at) {
        silence_end(p);
        return ping_at;
    }
    if (p->pinged_at < p->alive_at)
        ping(p, now);
    if (now < try_at)
        return try_at;
    if (p->tried_at < try_at || now >= p->tried_at + SILENCE)
        try_another(p, now);
    return p->tried_at + SILENCE;
}

static struct peer *peer_trying(struct client *c, van_link link)
{
    for (size_t i = 0; i < c->n_peers; i++)
        if (c->peers[i]->another == link && link != 0)
            return c->peers[i];
    return NULL;
}

bool silence_opened(struct client *c, van_link link)
{
    if (peer_trying(c, link) == NULL)
        return false;
    session_greet(c->van, link, member_who(c->member));
    return true;
}

// The next one is tried in time.
bool silence_closed(struct client *c, van_link link)
{
    struct peer *p = peer_trying(c, link);
    if (p != NULL)
        p->another = 0;
    return p != NULL;
}

bool silence_message(struct client *c, van_link link, const struct van_message *m,
                     uint64_t now)
{
    struct peer *p = peer_trying(c, link);
    struct err why;
    if (p == NULL)
        return false;
    if (m->type != MSG_WELCOME)
        return true; // it refuses: what it says will be heard of the old link, too
    if (!session_believes(c->van, link, member_who(c->member), WIRE_SERVER,
                          &m->m->welcome, &why)) {
        silence_end(p); // the next one is tried in time
        return true;
    }
    err_set(&why, TUG_EIO, "the link was silent for %.1f s",
            (double)(now - p->alive_at) * 1e-9);
    c->stats.silent++;
    peer_adopt(p, link, &why, now);
    return true;
}
