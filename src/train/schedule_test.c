// Compares each schedule with its formula.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kit/test.h"
#include "train/schedule.h"

static double naive(const struct schedule *s, double p)
{
    switch (s->kind) {
    case SCHEDULE_CONSTANT:
        return 1;
    case SCHEDULE_POLY:
        return pow(1 + s->a * p, -s->b);
    case SCHEDULE_EXP:
        return pow(s->a, p / s->b);
    case SCHEDULE_DISCEXP:
        return pow(s->a, floor(p / s->b));
    default:
        return fmax(1 - s->a * p, s->b);
    }
}

static void formulas(void **state)
{
    (void)state;
    for (int kind = SCHEDULE_CONSTANT; kind <= SCHEDULE_LINEAR; kind++)
        for (double a = 0.1; a < 2; a += 0.3)
            for (double b = 0.25; b < 3; b += 0.5)
                for (double p = 0; p < 20; p += 0.37) {
                    struct schedule s = {(enum schedule_kind)kind, a, b};
                    double got = schedule_factor(&s, p), want = naive(&s, p);
                    assert_true(fabs(got - want) <= 1e-12 * fabs(want));
                }
}

static void edges(void **state)
{
    (void)state;
    for (int kind = SCHEDULE_CONSTANT; kind <= SCHEDULE_EXP; kind++) {
        struct schedule s = {(enum schedule_kind)kind, 0.5, 0.5};
        assert_true(schedule_factor(&s, 0) == 1);
    }
    struct schedule none = {SCHEDULE_EXP, 0, 1};
    assert_true(schedule_factor(&none, 3) == 0);
    // A pass has more steps than an integer can count.
    struct schedule short_steps = {SCHEDULE_DISCEXP, 0.5, 1e-300};
    assert_true(schedule_factor(&short_steps, 0) == 1);
    assert_true(schedule_factor(&short_steps, 1) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(formulas),
                                       cmocka_unit_test(edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
