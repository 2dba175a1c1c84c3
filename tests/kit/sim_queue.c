// Events of the simulated world in the order of virtual time.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "base/alloc.h"
#include "kit/sim_internal.h"

int sim_queue_reserve(struct sim_queue *q, uint32_t more)
{
    uint32_t need = q->n_heap + q->n_held + more;
    if (need <= q->cap)
        return 0;
    uint32_t cap = need * 2;
    struct sim_event *heap = mem_realloc_array(q->heap, cap, sizeof(*heap));
    if (heap == NULL)
        return TUG_ENOMEM;
    q->heap = heap;
    struct sim_event *held = mem_realloc_array(q->held, cap, sizeof(*held));
    if (held == NULL)
        return TUG_ENOMEM;
    q->held = held;
    q->cap = cap;
    return 0;
}

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

void sim_queue_put(struct sim_queue *q, struct sim_event e)
{
    assert(q->n_heap < q->cap);
    e.number = q->numbers++;
    uint32_t at = q->n_heap++;
    while (at > 0 && before(&e, &q->heap[(at - 1) / 2])) {
        q->heap[at] = q->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    q->heap[at] = e;
}

struct sim_event sim_queue_take(struct sim_queue *q)
{
    struct sim_event first = q->heap[0], last = q->heap[--q->n_heap];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < q->n_heap && before(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (child >= q->n_heap || !before(&q->heap[child], &last))
            break;
        q->heap[at] = q->heap[child];
        at = child;
    }
    q->heap[at] = last;
    return first;
}

void sim_queue_hold(struct sim_queue *q, const struct sim_event *e)
{
    assert(q->n_held < q->cap);
    q->held[q->n_held++] = *e;
}

static void forget(struct sim_event *list, uint32_t n, const struct sim_van *v)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].from == v)
            list[i].from = NULL;
        if (list[i].to != v)
            continue;
        parcel_free(list[i].parcel);
        list[i].parcel = NULL;
        list[i].to = NULL;
    }
}

void sim_queue_forget(struct sim_queue *q, const struct sim_van *v)
{
    forget(q->heap, q->n_heap, v);
    forget(q->held, q->n_held, v);
}

void sim_queue_free(struct sim_queue *q)
{
    for (uint32_t i = 0; i < q->n_heap; i++)
        parcel_free(q->heap[i].parcel);
    for (uint32_t i = 0; i < q->n_held; i++)
        parcel_free(q->held[i].parcel);
    mem_free(q->heap);
    mem_free(q->held);
    *q = (struct sim_queue){.heap = NULL};
}
