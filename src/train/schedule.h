// Learning-rate schedules: the factor by which every rule's rate is multiplied after n
// examples. Names and formulas are those of Paddle v0
// (paddle/parameter/LearningRateScheduler), but relative to the examples N of a pass.
//
//   constant   1
//   poly       (1 + a n / N)^-b        N: examples in a pass
//   exp        a^(n / (b N))
//   discexp    a^floor(n / (b N))
//   linear     max(1 - a n / N, b)
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_SCHEDULE_H
#define TUG_TRAIN_SCHEDULE_H

#include <stdint.h>

#include "base/err.h"

enum schedule_kind {
    SCHEDULE_CONSTANT,
    SCHEDULE_POLY,
    SCHEDULE_EXP,
    SCHEDULE_DISCEXP,
    SCHEDULE_LINEAR,
};

struct schedule {
    enum schedule_kind kind;
    double a, b;
};

// The names of the kinds, in the order of the enum, as the user types them.
#define SCHEDULE_NAMES "constant poly exp discexp linear"

// Returns the factor after `passes` passes, which may be a fraction. It has the same bits
// on every machine.
double schedule_factor(const struct schedule *s, double passes);

// Returns the number of batches between two changes of the learning rate, a hundredth of
// a pass. The rate changes only at these steps, so it does not depend on where a stretch
// of batches ends (at a save, a line of progress, a signal).
static inline uint64_t schedule_step(uint64_t batches)
{
    return batches / 100 + 1;
}

// Returns the passes done before batch b of a pass of `batches` batches, for
// schedule_factor. A batch has `size` of the `examples` of the pass (0: unknown).
static inline double schedule_passes(uint32_t epoch, uint64_t b, uint64_t batches,
                                     uint64_t size, uint64_t examples)
{
    b -= b % schedule_step(batches);
    double share = examples > 0 ? (double)(b * size) / (double)examples : 0;
    return epoch + (share < 1 ? share : 1);
}

#endif
