// Learning-rate schedules; see schedule.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/schedule.h"

#include <math.h>

#include "base/maths.h"

static double power(double base, double exponent)
{
    return base > 0 ? maths_exp(exponent * maths_log(base)) : 0;
}

double schedule_factor(const struct schedule *s, double passes)
{
    switch (s->kind) {
    case SCHEDULE_CONSTANT:
        return 1;
    case SCHEDULE_POLY:
        return power(1 + s->a * passes, -s->b);
    case SCHEDULE_EXP:
        return power(s->a, passes / s->b);
    case SCHEDULE_DISCEXP:
        return power(s->a, floor(passes / s->b));
    case SCHEDULE_LINEAR:
        return 1 - s->a * passes > s->b ? 1 - s->a * passes : s->b;
    }
    return 1;
}
