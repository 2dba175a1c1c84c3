// Comparisons of numbers, also for qsort and bsearch.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_COMPARE_H
#define TUG_BASE_COMPARE_H

#include <stdint.h>

// Orders two uint64_t, for example keys, ascending.
static inline int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
