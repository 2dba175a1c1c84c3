// How a number of examples is cut into batches: into as few as hold them all, and all of one
// size, or one more. A few examples that are left over would step layers, whose gradient is a
// batch's mean, as far as a whole batch does.
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

// Where batch b of so many begins; the last one ends where batch `batches` would begin.
static inline uint64_t even_begin(uint64_t examples, uint64_t batches, uint64_t b)
{
    return examples / batches * b + examples % batches * b / batches;
}

#endif
