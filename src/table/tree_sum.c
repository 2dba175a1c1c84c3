// Sums by the tree. The walk visits the contributions, not all leaves.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/tree_sum.h"

struct walk {
    const struct kernels *kernels;
    const uint8_t *first;
    float *const *values;
    size_t width;
};

static void tree_sum_add(const struct walk *w, size_t to, size_t from)
{
    w->kernels->axpy(w->values[to], 1, w->values[from], w->width);
}

// Adds up the contributions [begin, end), which all belong to the parts
// [part, part + parts).
static void sum(const struct walk *w, size_t begin, size_t end, unsigned part,
                unsigned parts)
{
    if (end - begin < 2)
        return;
    if (parts == 1) {
        for (size_t i = begin + 1; i < end; i++)
            tree_sum_add(w, begin, i);
        return;
    }
    unsigned half = parts / 2;
    size_t right = begin;
    while (right < end && w->first[right] < part + half)
        right++;
    sum(w, begin, right, part, half);
    sum(w, right, end, part + half, half);
    if (begin < right && right < end)
        tree_sum_add(w, begin, right);
}

void tree_sum(const struct kernels *k, const uint8_t *first, float *const *values,
              size_t n, size_t width)
{
    struct walk w = {.kernels = k, .first = first, .values = values, .width = width};
    sum(&w, 0, n, 0, TREE_LEAVES);
}
