// See dataset_swap.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/dataset_swap.h"

#include <assert.h>
#include <string.h>

#include "data/dataset/dataset_internal.h"

enum { AT_ONCE = 256 };

void swap_scratch_free(struct swap_scratch *t)
{
    batch_free(&t->own);
    batch_free(&t->others);
}

static void dataset_swap_put(struct batch *to, const struct batch *from, uint32_t j)
{
    to->id[to->nnz] = from->id[j];
    to->slot[to->nnz] = from->slot[j];
    if (to->value != NULL)
        to->value[to->nnz] = from->value[j];
    to->nnz++;
}

// Merges the features of example i and those of its partner by slot; both lists are
// sorted by slot.
static void merge(const struct swap *s, const struct swap_scratch *t, size_t i,
                  struct batch *to)
{
    const struct batch *own = &t->own, *others = &t->others;
    uint32_t k = others->start[i], end = others->start[i + 1];
    for (uint32_t j = own->start[i]; j < own->start[i + 1]; j++) {
        if (s->slots[own->slot[j]])
            continue;
        for (; k < end && others->slot[k] < own->slot[j]; k++)
            if (s->slots[others->slot[k]])
                dataset_swap_put(to, others, k);
        dataset_swap_put(to, own, j);
    }
    for (; k < end; k++)
        if (s->slots[others->slot[k]])
            dataset_swap_put(to, others, k);
    to->start[i + 1] = (uint32_t)to->nnz;
}

int dataset_gather_swapped(const struct dataset *d, const uint64_t *order, size_t n,
                           const struct swap *s, struct swap_scratch *t, struct batch *b)
{
    uint64_t partners[AT_ONCE];
    assert(n <= AT_ONCE);
    for (size_t i = 0; i < n; i++)
        partners[i] = shuffle_at(&s->partners, order[i]);
    TRY(dataset_gather(d, order, n, &t->own));
    TRY(dataset_gather(d, partners, n, &t->others));
    TRY(batch_reserve(d, b, n, t->own.nnz + t->others.nnz));
    memcpy(b->label, t->own.label, n * b->labels * sizeof(*b->label));
    if (b->weight != NULL)
        memcpy(b->weight, t->own.weight, n * sizeof(*b->weight));
    for (size_t i = 0; i < n; i++)
        merge(s, t, i, b);
    b->n = n;
    return 0;
}
