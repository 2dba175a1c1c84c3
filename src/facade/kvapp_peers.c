// Links to other nodes, one to each that was ever asked for something; opened when they
// are wanted, and again when one broke. What is asked meanwhile waits behind the link.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "facade/kvapp_internal.h"

#define CONNECT_NS (10 * SECOND)

static struct peer *peer_of(struct tug_node *n, uint32_t node)
{
    struct peer *p = n->peers;
    while (p != NULL && p->node != node)
        p = p->next;
    if (p == NULL && (p = mem_zalloc(sizeof(*p))) != NULL) {
        p->node = node;
        p->s.side = &n->side;
        p->next = n->peers;
        n->peers = p;
    }
    return p;
}

struct peer *kv_peer_find(struct tug_node *n, van_link link)
{
    struct peer *p = n->peers;
    while (p != NULL && (p->s.link != link || link == 0))
        p = p->next;
    return p;
}

static int open_link(struct tug_node *n, struct peer *p, struct err *e)
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
    if (!session_dial(&p->s, r->address, CONNECT_NS, van_now(n->van)))
        return err_nomem(e, "a link");
    return 0;
}

void kv_peer_reach(struct tug_node *n, uint32_t node)
{
    struct err e;
    struct peer *p = peer_of(n, node);
    if (p != NULL && p->s.state == SESSION_CLOSED)
        (void)open_link(n, p, &e); // whoever sends gets to know
}

void kv_peer_send(struct tug_node *n, struct kv_part *part)
{
    struct err e = {0};
    struct peer *p = peer_of(n, part->node);
    if (p == NULL)
        err_nomem(&e, "a link");
    else if (p->s.state == SESSION_CLOSED)
        (void)open_link(n, p, &e);
    if (e.code != 0) {
        kv_part_answered(part, &e);
        return;
    }
    if (p->s.state == SESSION_OPEN) {
        kv_part_transmit(n, p, part);
        return;
    }
    part->next = NULL;
    if (p->last != NULL)
        p->last->next = part;
    else
        p->first = part;
    p->last = part;
}

void kv_peer_ready(struct tug_node *n, struct peer *p)
{
    while (p->first != NULL) {
        struct kv_part *part = p->first;
        p->first = part->next;
        if (p->first == NULL)
            p->last = NULL;
        kv_part_transmit(n, p, part);
    }
}

void kv_peer_lost(struct tug_node *n, struct peer *p)
{
    char name[ROSTER_NAME_MAX];
    struct err e;
    err_set(&e, TUG_EIO, "%s does not answer: %s", kv_node_name(n, p->node, name),
            p->s.why.text[0] != 0 ? p->s.why.text : "it has closed the link");
    p->first = p->last = NULL;
    kv_requests_of_node_fail(n, p->node, &e);
}

void kv_peer_break(struct tug_node *n, uint32_t node, const struct err *why)
{
    struct peer *p = n->peers;
    while (p != NULL && p->node != node)
        p = p->next;
    if (p == NULL || p->s.state == SESSION_CLOSED) {
        kv_requests_of_node_fail(n, node, why);
        return;
    }
    session_break(&p->s, why, van_now(n->van));
    kv_peer_lost(n, p);
}

void kv_peers_free(struct tug_node *n)
{
    for (struct peer *p = n->peers, *next; p != NULL; p = next) {
        next = p->next;
        mem_free(p);
    }
    for (struct guest *g = n->guests, *next; g != NULL; g = next) {
        next = g->next;
        mem_free(g);
    }
}
