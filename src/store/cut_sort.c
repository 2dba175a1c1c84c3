// Sorts the rows of a partition by key, in one pass if keys are spread evenly. This takes
// half the time of sorting in place, which had been a third of the time of reading a cut
// out.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "store/cut_internal.h"

enum {
    PLACE_ENTRIES = 4, // the number of entries that a bucket has on average
    PLACE_MANY = 32,
};

// A bucket sort: entries are distributed to n buckets by the highest bits in
// which their keys differ.
struct places {
    uint64_t low; // the smallest key
    uint32_t shift;
    uint32_t n;
};

static struct places places_of(const struct table_entry *x, size_t n)
{
    uint64_t low = UINT64_MAX, high = 0;
    assert(n > 0);
    for (size_t i = 0; i < n; i++) {
        low = x[i].key < low ? x[i].key : low;
        high = x[i].key > high ? x[i].key : high;
    }
    uint32_t bits = 64 - (uint32_t)__builtin_clzll((high - low) | 1), wide = 1;
    while (wide < bits && ((size_t)PLACE_ENTRIES << wide) < n)
        wide++;
    uint32_t shift = bits - wide;
    return (struct places){low, shift, (uint32_t)((high - low) >> shift) + 1};
}

static uint32_t cut_sort_place(const struct places *p, const struct table_entry *x)
{
    return (uint32_t)((x->key - p->low) >> p->shift);
}

static void sort_place(struct table_entry *x, size_t n)
{
    if (n > PLACE_MANY) { // the bucket is large because the keys are not spread evenly
        table_sort_by_key(x, n);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        struct table_entry v = x[i];
        size_t at = i;
        for (; at > 0 && x[at - 1].key > v.key; at--)
            x[at] = x[at - 1];
        x[at] = v;
    }
}

// Sorts x by way of `to`, which has room for n entries. `at` has p->n + 1 elements, all
// 0.
static void sort_by_place(const struct places *p, struct table_entry *x, size_t n,
                          uint32_t *at, struct table_entry *to)
{
    for (size_t i = 0; i < n; i++)
        at[cut_sort_place(p, &x[i]) + 1]++;
    for (uint32_t i = 0; i < p->n; i++)
        at[i + 1] += at[i];
    assert(at[p->n] == n); // no entry went beyond the last bucket
    for (size_t i = 0; i < n; i++)
        to[at[cut_sort_place(p, &x[i])]++] = x[i];
    memcpy(x, to, n * sizeof(*x));
    for (uint32_t i = 0, begin = 0; i < p->n; begin = at[i++])
        sort_place(x + begin, at[i] - begin);
}

void cut_sort(struct table_entry *x, size_t n)
{
    struct table_entry *to = NULL;
    uint32_t *at = NULL;
    struct places p = {0};
    if (n > PLACE_MANY && n <= UINT32_MAX) {
        p = places_of(x, n);
        to = mem_array(n, sizeof(*to));
        at = mem_zalloc(((size_t)p.n + 1) * sizeof(*at));
    }
    if (to != NULL && at != NULL)
        sort_by_place(&p, x, n, at, to);
    else // sorts in place, because there are few entries or memory is out
        table_sort_by_key(x, n);
    mem_free(to);
    mem_free(at);
}
