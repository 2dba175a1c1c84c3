// Learning-rate schedules: the factor on every rule's rate after n examples. Names and
// formulas are Paddle v0's (paddle/parameter/LearningRateScheduler), with the run's
// length in place of a where that helps.
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

// In the order of the kinds, as they are typed.
#define SCHEDULE_NAMES "constant poly exp discexp linear"

// The factor after `passes` passes (a fraction within a pass). The same
// bits on every machine.
double schedule_factor(const struct schedule *s, double passes);

// A rate changes in steps of a hundredth of a pass, so that it does not depend
// on where stretches of batches happen to end (at a save, a line, a signal):
// the batches of a step.
static inline uint64_t schedule_step(uint64_t batches)
{
    return batches / 100 + 1;
}

// The passes done at batch b of a pass of so many, each of `size` of the `examples`
// (0: not known), for schedule_factor.
static inline double schedule_passes(uint32_t epoch, uint64_t b, uint64_t batches,
                                     uint64_t size, uint64_t examples)
{
    b -= b % schedule_step(batches);
    double share = examples > 0 ? (double)(b * size) / (double)examples : 0;
    return epoch + (share < 1 ? share : 1);
}

#endif
