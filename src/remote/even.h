// Cuts a number of examples into the fewest batches that hold them all, whose sizes
// differ by at most one. A few examples that are left over would step layers, whose
// gradient is a batch's mean, as far as a whole batch does.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REMOTE_EVEN_H
#define TUG_REMOTE_EVEN_H

#include <stdint.h>

// Batches of at most `most` examples.
static inline uint64_t even_parts(uint64_t examples, uint64_t most)
{
    return examples / most + (examples % most != 0);
}

// Returns the start of batch b of so many; batch `batches` would start at the end of the
// last one.
static inline uint64_t even_begin(uint64_t examples, uint64_t batches, uint64_t b)
{
    return examples / batches * b + examples % batches * b / batches;
}

#endif
