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

#define SCHEDULE_NAMES "constant poly exp discexp linear" // in the order of the kinds

// The factor after `passes` passes (a fraction within a pass). The same
// bits on every machine.
double schedule_factor(const struct schedule *s, double passes);

#endif
