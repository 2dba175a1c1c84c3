// Micro-batches: the sixteen parts of a synchronous batch, whose sums are added as a
// fixed tree (table/tree_sum.h). An example's micro-batch depends only on its position in
// the pass's order, not on the thread that computes it. So one thread, many threads, or
// several workers of a cluster give the same bits.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_MICRO_H
#define TUG_TRAIN_ROWS_MICRO_H

#include <stdint.h>

#include "table/tree_sum.h"

enum { SYNC_MICROS = TREE_LEAVES };

// The positions [first, end) in the order of a pass.
struct micro {
    uint64_t first, end;
};

// Returns micro-batch m of batch b, for batches of `size` examples. It is empty if the
// batch has fewer examples than micro-batches, and it may end behind the order's last
// position.
static inline struct micro micro_of(uint64_t b, uint64_t size, uint32_t m)
{
    return (struct micro){.first = b * size + m * size / SYNC_MICROS,
                          .end = b * size + (m + 1) * size / SYNC_MICROS};
}

#endif
