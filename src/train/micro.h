// Micro-batches: the sixteen parts of a synchronous batch, whose sums are added as a
// fixed tree (table/tree_sum.h). The position of examples in the pass's order alone
// assigns them, not the thread that computes them: so one thread, many, or several
// workers of a cluster get the same bits.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_MICRO_H
#define TUG_TRAIN_MICRO_H

#include <stdint.h>

#include "table/tree_sum.h"

enum { SYNC_MICROS = TREE_LEAVES };

// Positions [first, end) of the order.
struct micro {
    uint64_t first, end;
};

// Micro-batch m of batch b, of batches of `size` examples. It is empty when there are
// fewer examples than micro-batches, and it may end behind the order's last position.
static inline struct micro micro_of(uint64_t b, uint64_t size, uint32_t m)
{
    return (struct micro){.first = b * size + m * size / SYNC_MICROS,
                          .end = b * size + (m + 1) * size / SYNC_MICROS};
}

#endif
