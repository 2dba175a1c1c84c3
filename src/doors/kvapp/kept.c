// Memory of requests that a program keeps (tug_app_keep). The program may release it on
// any thread, also in a callback, and after the node was closed: see struct kv_home.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "doors/kvapp/node.h"

static struct kept_request
    home_closed; // kv_home.released points to this after the node was closed

static void home_let_go(struct kv_home *h)
{
    if (atomic_fetch_sub(&h->refs, 1) == 1)
        mem_free(h);
}

int kv_kept_init(struct tug_node *n, struct err *e)
{
    n->home = mem_zalloc(sizeof(*n->home));
    if (n->home == NULL)
        return err_nomem(e, "the requests that a program keeps");
    atomic_init(&n->home->refs, 1);
    return 0;
}

static struct kept_request *kept_keep(struct received *q)
{
    struct kept_request *k = &q->first;
    if (atomic_exchange(&q->first_used, true))
        k = mem_alloc(sizeof(*k));
    if (k == NULL)
        return NULL;
    k->q = q;
    atomic_fetch_add(&q->refs, 1);
    atomic_fetch_add(&q->keeps, 1);
    atomic_fetch_add(&q->home->refs, 1);
    return k;
}

void *tug_app_keep(struct tug_app *a, uint64_t ticket)
{
    struct received *mine = kv_handled();
    if (mine != NULL && mine->node == a->node && mine->ticket == ticket)
        // The van's lock is not needed: the request exists while its handler runs.
        return kept_keep(mine);
    pump_enter(a->node->pump);
    struct received *q = kv_received_by_ticket(a->node, ticket);
    struct kept_request *k = q != NULL ? kept_keep(q) : NULL;
    pump_leave(a->node->pump);
    return k;
}

// Releases a request's memory after the node was closed. The last release frees the
// request.
static void release_alone(struct received *q, struct kv_home *h)
{
    if (atomic_fetch_sub(&q->keeps, 1) > 1)
        return;
    if (q->body != NULL)
        h->drop(q->body);
    mem_free(q);
}

void tug_app_release(void *kept)
{
    struct kept_request *k = kept;
    if (k == NULL)
        return;
    struct received *q = k->q;
    struct kv_home *h = q->home;
    struct kept_request *head = atomic_load(&h->released);
    do {
        k->next = head;
    } while (head != &home_closed &&
             !atomic_compare_exchange_weak(&h->released, &head, k));
    if (head == &home_closed) {
        if (k != &q->first)
            mem_free(k);
        release_alone(q, h);
    }
    home_let_go(h);
}

static void take_back(struct kept_request *list)
{
    for (struct kept_request *k = list, *next; k != NULL; k = next) {
        struct received *q = k->q;
        next = k->next;
        if (k != &q->first)
            mem_free(k);
        atomic_fetch_sub(&q->keeps, 1);
        kv_received_let_go(q);
    }
}

void kv_kept_drain(struct tug_node *n)
{
    if (atomic_load_explicit(&n->home->released, memory_order_relaxed) != NULL)
        take_back(atomic_exchange(&n->home->released, NULL));
}

void kv_kept_close(struct tug_node *n)
{
    struct kv_home *h = n->home;
    if (h == NULL)
        return;
    h->drop = n->van != NULL ? van_dropper(n->van) : NULL;
    take_back(atomic_exchange(&h->released, &home_closed));
    n->home = NULL;
    home_let_go(h);
}
