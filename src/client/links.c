// Peers: a link to each server loop, opened with the first slice for it, greeted, and
// opened again with back-off when it breaks. Slices wait in the peer's list, in the order
// of their requests, until they are answered; when a link breaks, those without an answer
// are sent again on the next one.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "client/private.h"
#include "os/clock.h"

static void empty_lists(struct peer *p)
{
    memset(p->lists, 0, sizeof(p->lists));
    p->list_room = KEYS_LISTS_BYTES;
    p->list_misses = 0;
}

struct peer *peer_of(struct client *c, uint32_t node)
{
    for (size_t i = 0; i < c->n_peers; i++)
        if (c->peers[i]->node == node)
            return c->peers[i];
    if (mem_room(&c->peers, &c->max_peers, c->n_peers + 1) != 0)
        return NULL;
    struct peer *p = mem_zalloc(sizeof(*p));
    if (p == NULL)
        return NULL;
    p->client = c;
    p->node = node;
    p->s = (struct session){.side = &c->side, .role = WIRE_SERVER, .node = node};
    empty_lists(p);
    c->peers[c->n_peers++] = p;
    return p;
}

const char *peer_name(const struct peer *p, char to[ROSTER_NAME_MAX])
{
    return roster_name_of(member_roster(p->client->member), p->node, to);
}

// Marks the slices of a link that has ended as not sent.
static void lost(struct peer *p)
{
    silence_end(&p->silence);
    p->client->next_due = min_u64(p->client->next_due, p->s.due);
    empty_lists(p);
    for (struct slice *s = p->first; s != NULL; s = s->behind) {
        s->sent = false;
        s->due = 0;
        if (s->placing) {
            s->placing = false;
            s->request->pins--; // not the last pin, because the request still has a slice
        }
    }
}

void peer_break(struct peer *p, const struct err *why, uint64_t now)
{
    if (p->s.link == 0)
        return;
    session_break(&p->s, why, now);
    lost(p);
}

// On a new link, slices for which the loop had no room still wait for their pause. The
// other slices are sent first. Serving them may make room. Also, if links break after a
// few messages, the other slices would never arrive behind many slices that are refused
// again.
static void greeted(struct peer *p, uint64_t now)
{
    for (struct slice *s = p->first; s != NULL; s = s->behind)
        if (s->no_room && s->due < now + slice_pause(s))
            s->due = now + slice_pause(s);
}

// Switches to the second link, which was greeted, and closes the silent one.
static void adopt(struct peer *p, uint64_t now)
{
    silence_adopt(&p->silence, &p->s, now);
    p->client->stats.silent++;
    lost(p);
    greeted(p, now);
}

void peers_opened(struct client *c, van_link link, uint64_t now)
{
    bool known = false;
    for (size_t i = 0; i < c->n_peers && !known; i++)
        known = session_opened(&c->peers[i]->s, link, now) ||
                session_opened(&c->peers[i]->silence.another, link, now);
    if (!known)
        van_close_link(c->van, link);
    c->next_due = now;
}

void peers_closed(struct client *c, van_link link, const struct err *why, uint64_t now)
{
    for (size_t i = 0; i < c->n_peers; i++) {
        if (session_closed(&c->peers[i]->s, link, why, now))
            lost(c->peers[i]);
        else // peer_tick dials when the pause has passed
            (void)session_closed(&c->peers[i]->silence.another, link, why, now);
    }
}

void peers_message(struct client *c, van_link link, const struct van_message *m,
                   uint64_t now)
{
    for (size_t i = 0; i < c->n_peers; i++) {
        struct peer *p = c->peers[i];
        enum session_news news = session_message(&p->s, link, m, now);
        if (news == SESSION_REFUSED)
            lost(p);
        else if (session_message(&p->silence.another, link, m, now) == SESSION_GREETED)
            adopt(p, now);
        else if (news == SESSION_GREETED)
            greeted(p, now);
        else
            continue;
        if (p->s.state == SESSION_OPEN) // the server's WELCOME may name a newer scheduler
            member_heard_of(c->member, p->s.generation, now);
        c->next_due = now;
    }
}

static void open_link(struct peer *p, uint64_t now)
{
    struct client *c = p->client;
    const struct roster_node *n = roster_find(member_roster(c->member), p->node);
    if (n != NULL && session_dial(&p->s, n->address, c->o.connect_timeout_ns, now))
        return;
    err_set(&p->s.why, TUG_EIO, n != NULL ? "out of memory" : "it has left");
    p->s.due = now + c->side.retry_max_ns;
}

// Watches whether a loop from which answers are missing is silent. Returns when to check
// again.
static uint64_t watch(struct peer *p, uint64_t now)
{
    const struct roster_node *n = roster_find(member_roster(p->client->member), p->node);
    return silence_watch(&p->silence, &p->s, n != NULL && n->alive ? n->address : NULL,
                         now);
}

static uint64_t tick_slices(struct peer *p, uint64_t now)
{
    uint64_t next = VAN_NEVER;
    for (struct slice *s = p->first, *behind; s != NULL; s = behind) {
        if (s->due <= now)
            slice_send(s, now);
        // Sending may end the request or break the link; in that case the next round does
        // the rest.
        if (p->s.state != SESSION_OPEN || s->id == 0)
            return now;
        behind = s->behind;
        next = min_u64(next, s->due);
    }
    return p->first != NULL ? min_u64(next, watch(p, now)) : next;
}

// Returns since when requests wait for a loop that cannot be reached or does not answer a
// PING (see cluster/silence.h). Returns `now` if no request waits for it.
static uint64_t away_since(struct peer *p, uint64_t now)
{
    if (p->s.state == SESSION_OPEN || p->first == NULL)
        p->away_since = 0;
    else if (p->away_since == 0)
        p->away_since = now;
    if (p->first != NULL && session_is_asked(&p->s))
        return p->s.heard_at + SILENCE_NS;
    return p->away_since != 0 ? p->away_since : now;
}

// Returns whether a request with a long deadline has a slice for a loop that cannot be
// reached. Such a request fails before its deadline. The loop's silence
// during a load does not count, because the loop does nothing else while it loads.
static bool is_in_vain(const struct slice *s)
{
    const struct request_kind *kind = s->request->kind;
    return kind->takes_long && (s->peer->s.state != SESSION_OPEN || !kind->blocks);
}

static void give_up_long_ones(struct peer *p, uint64_t now)
{
    uint64_t timeout = p->client->o.request_timeout_ns, since = away_since(p, now);
    for (struct slice *s = p->first; s != NULL && now >= since + timeout;) {
        struct err e;
        char name[ROSTER_NAME_MAX];
        if (!is_in_vain(s)) {
            s = s->behind;
            continue;
        }
        err_set(&e, TUG_EIO, "%s could not be reached for %llu s%s%s", peer_name(p, name),
                (unsigned long long)(timeout / SECOND_NS),
                p->s.why.text[0] != 0 ? ": " : "", p->s.why.text);
        request_end(s->request, e.code, &e);
        s = p->first;
    }
}

uint64_t peer_tick(struct peer *p, uint64_t now)
{
    give_up_long_ones(p, now);
    session_tell(&p->s);
    if (p->s.state == SESSION_OPEN)
        return tick_slices(p, now);
    bool greets = p->s.state == SESSION_GREETING;
    if (p->s.state == SESSION_CLOSED && p->first == NULL)
        return VAN_NEVER;
    if (p->s.state == SESSION_CLOSED && p->s.due <= now)
        open_link(p, now);
    uint64_t next = session_tick(&p->s, now);
    if (greets && p->s.state == SESSION_CLOSED)
        lost(p);
    return next;
}

// A loop remembers the most recent lists of keys of a link as far as it has room.
// Messages arrive in order, so the sender knows which lists the loop has. If the sender
// is wrong, the loop answers that it lacks the list; if that happens repeatedly, the loop
// has less room than the sender assumes.

bool peer_has_room(const struct peer *p, size_t bytes)
{
    return bytes <= p->list_room;
}

bool peer_knows(struct peer *p, uint64_t list, size_t bytes)
{
    struct peer_list *l = p->lists;
    size_t i = 0, sum = bytes;
    while (i < KEYS_LISTS - 1 && l[i].signature != list)
        i++;
    bool known = l[i].signature == list;
    memmove(l + 1, l, i * sizeof(*l));
    l[0] = (struct peer_list){list, bytes};
    for (i = 1; i < KEYS_LISTS; i++) {
        sum += l[i].bytes;
        if (sum > p->list_room) // the loop has dropped the oldest ones
            l[i] = (struct peer_list){0};
    }
    return known;
}

void peer_forgets(struct peer *p, uint64_t list)
{
    size_t sum = 0, i = 0;
    for (size_t k = 0; k < KEYS_LISTS; k++)
        sum += p->lists[k].bytes;
    while (i < KEYS_LISTS && p->lists[i].signature != list)
        i++;
    if (i == KEYS_LISTS)
        return;
    memmove(p->lists + i, p->lists + i + 1, (KEYS_LISTS - 1 - i) * sizeof(*p->lists));
    p->lists[KEYS_LISTS - 1] = (struct peer_list){0};
    if (++p->list_misses > 1)
        p->list_room = sum / 2;
}

void peers_free(struct client *c)
{
    for (size_t i = 0; i < c->n_peers; i++)
        mem_free(c->peers[i]);
    mem_free(c->peers);
}
