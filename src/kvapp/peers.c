// Links to other nodes, one to each that was ever asked for something; opened when they
// are wanted, and again when one broke. What is asked meanwhile waits behind the link, and
// what was asked before is asked again.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "kvapp/node.h"

#define CONNECT_NS (10 * SECOND)
#define REDIAL_NS SECOND // of a link that was there: a process that is gone has no more
#define GONE_NS (2 * SECOND) // longer than a van sends what is queued on a closed link

enum { REDIALS_MAX = 100 }; // without an answer in between

static struct kv_peer *peer_of(struct tug_node *n, uint32_t node)
{
    struct kv_peer *p = n->peers;
    while (p != NULL && p->node != node)
        p = p->next;
    if (p == NULL && (p = mem_zalloc(sizeof(*p))) != NULL) {
        p->node = node;
        p->s.side = &n->side;
        p->acked = 1;
        p->next = n->peers;
        n->peers = p;
    }
    return p;
}

struct kv_peer *kv_peer_find(struct tug_node *n, van_link link)
{
    struct kv_peer *p = n->peers;
    while (p != NULL && (p->s.link != link || link == 0))
        p = p->next;
    return p;
}

static int open_link(struct tug_node *n, struct kv_peer *p, uint64_t timeout_ns,
                     struct err *e)
{
    char name[ROSTER_NAME_MAX];
    const struct roster_node *r = roster_find(member_roster(n->member), p->node);
    if (r == NULL || !r->alive)
        return err_set(e, TUG_EIO, "%s is not there%s", kv_node_name(n, p->node, name),
                       r != NULL ? " any more" : "");
    if (r->address[0] == 0)
        return err_set(e, TUG_EUSAGE, "%s does not listen",
                       kv_node_name(n, p->node, name));
    p->s.role = r->role;
    if (!session_dial(&p->s, r->address, timeout_ns, van_now(n->van)))
        return err_nomem(e, "a link");
    return 0;
}

void kv_peer_reach(struct tug_node *n, uint32_t node)
{
    struct err e;
    struct kv_peer *p = peer_of(n, node);
    if (p != NULL && p->s.state == SESSION_CLOSED)
        (void)open_link(n, p, CONNECT_NS, &e); // whoever sends gets to know
}

// What waits to be sent.

static int32_t priority_of(const struct kv_part *p)
{
    return p->copy != NULL ? p->copy->priority : p->request->kv.priority;
}

static void line_up(struct kv_peer *p, struct kv_part *part)
{
    part->queued = true;
    if (part->number != 0) // again: it goes first, as it went before
        kv_line_put_at_once(&p->line, &part->in_line, part->number);
    else
        kv_line_put(&p->line, &part->in_line, priority_of(part));
}

bool kv_peer_is_full(const struct kv_peer *p)
{
    return p->last_number + 1 - p->acked >= KV_WINDOW;
}

// The van takes what it is given and sends it in this order: whatever is to go before it
// has to come here first. So it is given a little only.
enum { IN_VAN = 1 << 20 };

static bool may_go(const struct kv_peer *p)
{
    const struct kv_lined *first = p->line.first;
    return first != NULL && p->s.state == SESSION_OPEN && p->in_van < IN_VAN &&
           (first->priority == KV_AT_ONCE || !kv_peer_is_full(p));
}

static void flush(struct tug_node *n, struct kv_peer *p)
{
    while (may_go(p)) {
        struct kv_part *part = (struct kv_part *)kv_line_take(&p->line);
        part->queued = false;
        if (part->number == 0)
            part->number = ++p->last_number;
        kv_part_transmit(n, p, part);
    }
}

void kv_peers_flush(struct tug_node *n)
{
    for (struct kv_peer *p = n->peers; p != NULL; p = p->next)
        flush(n, p);
}

void kv_peer_send(struct tug_node *n, struct kv_part *part)
{
    struct err e = {0};
    struct kv_peer *p = peer_of(n, part->node);
    if (p == NULL)
        err_nomem(&e, "a link");
    else if (p->s.state == SESSION_CLOSED)
        (void)open_link(n, p, CONNECT_NS, &e);
    if (e.code != 0) {
        kv_part_answered(part, &e);
        return;
    }
    part->peer = p;
    part->sent = true;
    line_up(p, part);
    flush(n, p);
}

void kv_peer_ready(struct tug_node *n, struct kv_peer *p)
{
    flush(n, p);
}

static uint64_t bit_of(uint64_t number)
{
    return (uint64_t)1 << (number % 64);
}

// Of all that was numbered, once.
void kv_peer_answered(struct kv_part *part)
{
    struct kv_peer *p = part->peer;
    uint64_t *words = p->answered;
    assert(part->number >= p->acked && part->number <= p->last_number);
    p->redials = 0;
    words[part->number % KV_WINDOW / 64] |= bit_of(part->number);
    while (p->acked <= p->last_number &&
           (words[p->acked % KV_WINDOW / 64] & bit_of(p->acked))) {
        words[p->acked % KV_WINDOW / 64] &= ~bit_of(p->acked);
        p->acked++;
    }
}

// Links that break.

void kv_peer_failed(struct tug_node *n, struct kv_peer *p)
{
    char name[ROSTER_NAME_MAX];
    struct err e;
    err_set(&e, TUG_EIO, "%s does not answer: %s", kv_node_name(n, p->node, name),
            p->s.why.text[0] != 0 ? p->s.why.text : "it has closed the link");
    p->reached = false;
    p->lost_at = 0;
    kv_line_clear(&p->line);
    kv_requests_of_node_fail(n, p->node, &e);
}

// What was sent and has no answer goes again, with its number: the node knows what it has
// handled.
static void send_again(struct tug_node *n, struct kv_peer *p)
{
    for (struct kv_request *r = n->first; r != NULL; r = r->behind)
        for (uint32_t i = 0; i < r->n_parts && r->state == KV_OPEN; i++) {
            struct kv_part *part = &r->parts[i];
            if (part->peer == p && part->number != 0 && !part->answered && !part->queued)
                line_up(p, part);
        }
}

// A node that is gone, or that talks nonsense, is not asked again. One that breaks links
// before they are open may be in trouble for a moment.
static bool dial_again(struct tug_node *n, struct kv_peer *p)
{
    struct err e;
    uint64_t now = van_now(n->van);
    if (p->reached)
        p->lost_at = now;
    p->reached = false;
    if (p->lost_at == 0 || now - p->lost_at >= REDIAL_NS || p->redials >= REDIALS_MAX ||
        p->s.why.code == TUG_EDATA || n->over)
        return false;
    p->redials++;
    return open_link(n, p, REDIAL_NS, &e) == 0;
}

void kv_peer_lost(struct tug_node *n, struct kv_peer *p)
{
    if (dial_again(n, p))
        send_again(n, p);
    else
        kv_peer_failed(n, p);
}

void kv_peer_break(struct tug_node *n, uint32_t node, const struct err *why)
{
    struct kv_peer *p = n->peers;
    while (p != NULL && p->node != node)
        p = p->next;
    if (p == NULL || p->s.state == SESSION_CLOSED) {
        kv_requests_of_node_fail(n, node, why);
        return;
    }
    session_break(&p->s, why, van_now(n->van));
    kv_peer_failed(n, p);
}

// Nodes that the cluster goes on without. One that has died closes its link, but one that is
// stopped, or that nothing comes from any more, does not; one that has left may still be
// sending what it was asked for.

static bool is_gone(const struct tug_node *n, const struct kv_peer *p)
{
    const struct roster_node *r = roster_find(member_roster(n->member), p->node);
    return p->s.state != SESSION_CLOSED && r != NULL && !r->alive;
}

void kv_peers_gone(struct tug_node *n)
{
    uint64_t now = van_now(n->van);
    for (struct kv_peer *p = n->peers; p != NULL; p = p->next)
        if (p->gone_at == 0 && is_gone(n, p))
            p->gone_at = n->gone_look = now;
}

uint64_t kv_peers_look(struct tug_node *n, uint64_t now)
{
    struct err why;
    uint64_t next = VAN_NEVER;
    if (n->gone_look == 0 || now < n->gone_look)
        return n->gone_look == 0 ? VAN_NEVER : n->gone_look;
    err_set(&why, TUG_EIO, "the cluster goes on without it");
    for (struct kv_peer *p = n->peers; p != NULL; p = p->next) {
        if (p->gone_at == 0 || !is_gone(n, p))
            continue;
        if (now < p->gone_at + GONE_NS) {
            next = clock_earlier(next, p->gone_at + GONE_NS);
            continue;
        }
        session_break(&p->s, &why, now);
        kv_peer_failed(n, p);
    }
    n->gone_look = next == VAN_NEVER ? 0 : next;
    return next;
}

void kv_peers_free(struct tug_node *n)
{
    for (struct kv_peer *p = n->peers, *next; p != NULL; p = next) {
        next = p->next;
        mem_free(p);
    }
    for (struct guest *g = n->guests, *next; g != NULL; g = next) {
        next = g->next;
        mem_free(g);
    }
}
