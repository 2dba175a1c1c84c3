// Selects examples of the training data for validation. Each position gets a random
// number between 0 and 1; a part consists of the positions whose number is in [from, from
// + share). So K parts of 1/K are disjoint and contain all examples.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_HELD_OUT_H
#define TUG_TRAIN_HELD_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

struct held_out {
    double from, share; // share 0: no example
    uint32_t folds;     // the number of parts of --cv; 0: the share comes from --valid
};

// Returns part i (from 0) of n. The parts meet exactly: (i + 1) / n - i / n is exact for
// i > 0.
static inline struct held_out held_out_part(uint32_t i, uint32_t n)
{
    double from = (double)i / n;
    return (struct held_out){.from = from, .share = (double)(i + 1) / n - from};
}

// Returns whether the part contains the example at this position of the text.
static inline bool held_out_has(struct held_out h, uint64_t seed, uint64_t position)
{
    if (!(h.share > 0))
        return false;
    double at = random_f64(seed, 0x76616c6964, position);
    return at >= h.from && at < h.from + h.share;
}

#endif
