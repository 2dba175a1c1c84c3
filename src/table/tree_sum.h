// Adds values in the order of a fixed tree, so that sums have the same bits whichever
// process computes them.
//
// A sum of floats depends on the order of the additions. A synchronous batch is cut into
// TREE_LEAVES parts (train/rows/micro.h) that threads, workers and servers share in any
// way; their values for a key are added along the balanced binary tree over the parts:
// (0..7) + (8..15), and so on down. A half without the key adds nothing. A process that
// has all values of a half can therefore add them up beforehand: one contribution for
// parts 4..7 gives the same bits as four.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TABLE_TREE_SUM_H
#define TUG_TABLE_TREE_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum { TREE_LEAVES = 16 };

// Adds n arrays of `width` floats up into values[0], and overwrites the other arrays.
// first[i] is the first part of contribution i, and ascends. Contributions of the same
// part are added from first to last.
void tree_sum(const struct kernels *k, const uint8_t *first, float *const *values,
              size_t n, size_t width);

// For sums in the order of the same tree of contributions that come one at a
// time, by ascending part. For parts a < b < next, returns whether the sums of a
// and b must be added before `next` is, because `next` is outside the smallest
// subtree with both a and b.
static inline bool tree_joins(uint32_t a, uint32_t b, uint32_t next)
{
    return (a ^ b) < (b ^ next);
}

#endif
