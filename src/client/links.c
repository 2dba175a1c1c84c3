// Peers: a link to each server loop, opened when the first slice for it is there,
// greeted, and opened again with back-off when it breaks. Slices wait in the peer's list,
// in the order of their requests, until they are answered; all that had no answer when a
// link broke is sent again on the next one.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "client/private.h"
#include "cluster/session.h"

#define BACKOFF_MIN (10 * MS)
#define BACKOFF_MAX (1000 * MS)

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
    if (c->n_peers == c->max_peers) {
        size_t more = c->max_peers == 0 ? 8 : c->max_peers * 2;
        void *p = mem_realloc_array(c->peers, more, sizeof(struct peer *));
        if (p == NULL)
            return NULL;
        c->peers = p;
        c->max_peers = more;
    }
    struct peer *p = mem_zalloc(sizeof(*p));
    if (p == NULL)
        return NULL;
    p->client = c;
    p->node = node;
    empty_lists(p);
    c->peers[c->n_peers++] = p;
    return p;
}

struct peer *peer_by_link(struct client *c, van_link link)
{
    for (size_t i = 0; i < c->n_peers; i++)
        if (c->peers[i]->link == link && link != 0)
            return c->peers[i];
    return NULL;
}

const char *peer_name(const struct peer *p, char to[ROSTER_NAME_MAX])
{
    const struct roster_node *n = roster_find(member_roster(p->client->member), p->node);
    if (n != NULL)
        return roster_name(n, to);
    snprintf(to, ROSTER_NAME_MAX, "node %u", p->node);
    return to;
}

// The link is no more: its slices have not been sent.
static void reset(struct peer *p, const struct err *why, uint64_t now)
{
    silence_end(p);
    p->state = PEER_CLOSED;
    p->link = 0;
    p->why = *why;
    p->backoff = p->backoff == 0 ? BACKOFF_MIN : min_u64(p->backoff * 2, BACKOFF_MAX);
    p->due = now + p->backoff;
    p->client->next_due = min_u64(p->client->next_due, p->due);
    empty_lists(p);
    for (struct slice *s = p->first; s != NULL; s = s->behind) {
        s->sent = false;
        s->due = 0;
        if (s->placing) {
            s->placing = false;
            s->request->pins--; // it has a slice, so it is not waiting for the last pin
        }
    }
}

void peer_closed(struct peer *p, const struct err *why, uint64_t now)
{
    reset(p, why, now);
}

void peer_break(struct peer *p, const struct err *why, uint64_t now)
{
    if (p->link == 0)
        return;
    van_close_link(p->client->van, p->link);
    reset(p, why, now);
}

// Goes on over another link, which has been greeted.
void peer_adopt(struct peer *p, van_link link, const struct err *why, uint64_t now)
{
    assert(link != 0 && link != p->link);
    p->another = 0; // it is not one that is tried any more
    peer_break(p, why, now);
    p->link = link;
    p->state = PEER_READY;
    p->backoff = 0;
    p->client->next_due = now;
    silence_begin(p);
}

static void open_link(struct peer *p, uint64_t now)
{
    struct client *c = p->client;
    const struct roster_node *n = roster_find(member_roster(c->member), p->node);
    if (n != NULL)
        p->link = van_connect(c->van, n->address, c->o.connect_timeout_ns);
    if (p->link != 0) {
        p->state = PEER_CONNECTING;
    } else {
        err_set(&p->why, TUG_EIO, n != NULL ? "out of memory" : "it has gone");
        p->due = now + BACKOFF_MAX;
    }
}

static void greet(struct peer *p, uint64_t now)
{
    struct client *c = p->client;
    session_greet(c->van, p->link, member_who(c->member));
    p->due = c->o.resend_ns != 0 ? now + c->o.resend_ns : VAN_NEVER;
}

void peer_opened(struct peer *p, uint64_t now)
{
    assert(p->state == PEER_CONNECTING);
    p->state = PEER_GREETING;
    p->give_up = now + p->client->o.connect_timeout_ns;
    greet(p, now);
    p->client->next_due = now;
}

void peer_greeted(struct peer *p, uint64_t now)
{
    if (p->state != PEER_GREETING)
        return;
    p->state = PEER_READY;
    p->backoff = 0;
    p->client->next_due = now;
    silence_begin(p);
}

static uint64_t tick_greeting(struct peer *p, uint64_t now)
{
    if (p->give_up <= now) {
        struct err why;
        err_set(&why, TUG_EIO, "it does not identify itself");
        peer_break(p, &why, now);
        return p->due;
    }
    if (p->due <= now)
        greet(p, now);
    return min_u64(p->due, p->give_up);
}

static uint64_t tick_slices(struct peer *p, uint64_t now)
{
    uint64_t next = VAN_NEVER;
    for (struct slice *s = p->first, *behind; s != NULL; s = behind) {
        if (s->due <= now)
            encode_send(s, now);
        // Sending may end the request, or break the link: then what follows is looked
        // at in the next round.
        if (p->state != PEER_READY || s->id == 0)
            return now;
        behind = s->behind;
        next = min_u64(next, s->due);
    }
    return p->first != NULL ? min_u64(next, silence_watch(p, now)) : next;
}

// Since when requests wait for a loop that is not reached, or does not answer a PING (see
// silence.c); `now` when they do not.
static uint64_t away_since(struct peer *p, uint64_t now)
{
    if (p->state == PEER_READY || p->first == NULL)
        p->away_since = 0;
    else if (p->away_since == 0)
        p->away_since = now;
    if (p->first != NULL && p->state == PEER_READY && p->pinged_at > p->alive_at)
        return p->pinged_at;
    return p->away_since != 0 ? p->away_since : now;
}

// Requests that may take long have deadlines to match. They are not spent on a loop that
// can't be reached. A load is all that a loop does meanwhile: then silence is no sign.
static bool is_in_vain(const struct slice *s)
{
    enum request_kind kind = s->request->kind;
    return request_takes_long(kind) &&
           (s->peer->state != PEER_READY || kind != REQUEST_LOAD);
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
                p->why.text[0] != 0 ? ": " : "", p->why.text);
        request_end(s->request, e.code, &e);
        s = p->first;
    }
}

uint64_t peer_tick(struct peer *p, uint64_t now)
{
    give_up_long_ones(p, now);
    switch (p->state) {
    case PEER_CLOSED:
        if (p->first == NULL)
            return VAN_NEVER;
        if (p->due <= now)
            open_link(p, now);
        return p->state == PEER_CLOSED ? p->due : VAN_NEVER;
    case PEER_CONNECTING:
        return VAN_NEVER;
    case PEER_GREETING:
        return tick_greeting(p, now);
    case PEER_READY:
        return tick_slices(p, now);
    }
    return VAN_NEVER;
}

// A loop remembers the lists of keys that it met last on a link, as far as it has room
// for them; messages come in order, so who sends can tell which. Should it be wrong, the
// loop says so: when it does so again, it has less room than was thought.

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
        if (sum > p->list_room) // it has dropped the oldest ones
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
