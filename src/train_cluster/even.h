// Divides examples into the fewest batches possible, whose sizes differ by at most one.
// Otherwise a small last batch would change layers, whose gradient is the mean over a
// batch, as much as a full batch does.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_EVEN_H
#define TUG_TRAIN_CLUSTER_EVEN_H

#include <stdint.h>

// Returns the number of batches of at most `most` examples.
static inline uint64_t even_parts(uint64_t examples, uint64_t most)
{
    return examples / most + (examples % most != 0);
}

// Returns the index of the first example of batch b; for b = batches, the end of the last
// batch.
static inline uint64_t even_begin(uint64_t examples, uint64_t batches, uint64_t b)
{
    return examples / batches * b + examples % batches * b / batches;
}

#endif
