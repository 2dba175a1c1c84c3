// Invariants of a node between two events, asserted after each event in builds with
// assertions: requests and their parts, the peers that parts wait at, requests of other
// nodes.
//
// No assertion depends on what another node sends.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvapp/node.h"

#ifndef NDEBUG

#include <assert.h>

#include "base/sampled.h"

// A request in flight is found by its id and by its timestamp.
static void request_is_found(struct tug_node *n, struct kv_request *r)
{
    assert(r->app->node == n && kv_request_find(r->app, r->timestamp) == r);
    assert(r->state == KV_OPEN || r->state == KV_ENDING);
    assert((kv_request_by_id(n, r->id) == r) == (r->state == KV_OPEN));
}

// A request ends when all its parts are answered and the van no longer uses its memory.
// `open` is the number of parts without an answer, and one more until the last part was
// sent.
static void answers_are_counted(const struct kv_request *r)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < r->n_parts; i++)
        open += !r->parts[i].answered;
    assert(r->open == open || r->open == open + 1);
    assert((r->open == 0 && r->pins == 0) == (r->state == KV_ENDING));
}

// A part that was sent went to the node for which it is meant, and its number lies in the
// peer's window.
static void part_is_in_the_window(const struct kv_part *p)
{
    const struct kv_peer *peer = p->peer;
    if (peer == NULL || p->answered)
        return;
    assert(p->sent && peer->node == p->node);
    assert(p->queued || p->number != 0);
    assert(p->number == 0 ||
           (p->number >= peer->acked && p->number <= peer->last_number));
}

// The counts of requests in flight, in total and of each customer, are those of the list.
static void requests_hold(struct tug_node *n)
{
    uint32_t in_flight = 0;
    uint32_t of_apps = n->barriers != NULL ? n->barriers->n_open_requests : 0;
    const struct kv_request *last = NULL;
    for (struct kv_request *r = n->first; r != NULL; last = r, r = r->behind) {
        assert(r->before == last);
        request_is_found(n, r);
        answers_are_counted(r);
        for (uint32_t i = 0; i < r->n_parts; i++)
            part_is_in_the_window(&r->parts[i]);
        in_flight++;
    }
    for (const struct tug_app *a = n->apps; a != NULL; a = a->next)
        of_apps += a->n_open_requests;
    assert(n->last == last && n->n_in_flight == in_flight && of_apps == in_flight);
}

// Each open part that has a peer either was sent to the peer or waits in the peer's line.
static void parts_wait_at_peers(const struct tug_node *n, const struct kv_peer *peer)
{
    uint64_t waiting = 0, queued = 0;
    for (const struct kv_request *r = n->first; r != NULL; r = r->behind)
        for (uint32_t i = 0; i < r->n_parts; i++) {
            const struct kv_part *p = &r->parts[i];
            bool here = p->peer == peer && !p->answered;
            waiting += here;
            queued += here && p->queued;
        }
    assert(peer->waiting == waiting && peer->line.n == queued);
}

// The numbers of a peer's open parts lie within one window, in which each number has a bit
// of its own.
static void window_holds(const struct kv_peer *p)
{
    uint64_t word = p->answered[p->acked % KV_WINDOW / 64];
    assert(p->acked >= 1 && p->last_number + 1 - p->acked <= KV_WINDOW);
    assert(p->acked > p->last_number || (word >> (p->acked % 64) & 1) == 0);
}

// A peer is found by each of its two links, and no node has two peers.
static void peer_is_found(struct tug_node *n, struct kv_peer *p)
{
    assert(chains_find(&n->peers_by_node, p->node) == &p->by_node);
    assert(p->s.link == 0 || kv_peer_find(n, p->s.link) == p);
    assert(p->silence.another.link == 0 || kv_peer_find(n, p->silence.another.link) == p);
}

// A request of another node is found by its ticket, and is counted in the budget until it
// is answered.
static void received_are_found(struct tug_node *n)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < n->cap_received; i++) {
        const struct received *q = n->received[i];
        if (q == NULL)
            continue;
        assert(q->node == n && kv_received_by_ticket(n, q->ticket) == q);
        assert(q->answered || q->counted >= sizeof(*q));
        used++;
    }
    assert(used + n->n_free_received == n->cap_received);
}

// Requests without a customer are given up in the order in which they came.
static void held_are_in_order(const struct tug_node *n)
{
    const struct received *last = NULL;
    for (const struct received *q = n->held; q != NULL; last = q, q = q->behind) {
        assert(q->before == last && q->app == NULL && !q->answered);
        assert(last == NULL || last->give_up <= q->give_up);
    }
    assert(n->last_held == last);
}

void kv_node_check(struct tug_node *n, uint64_t now)
{
    if (!sampled_now(now, (uint64_t)n->n_in_flight + n->cap_received))
        return;
    requests_hold(n);
    for (struct kv_peer *p = n->peers; p != NULL; p = p->next) {
        parts_wait_at_peers(n, p);
        window_holds(p);
        peer_is_found(n, p);
    }
    received_are_found(n);
    held_are_in_order(n);
}

#endif
