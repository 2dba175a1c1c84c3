// Compares exp and log with libm, also at the ends of their ranges.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/maths.h"

#include <math.h>

#include "base/random.h"
#include "kit/test.h"

static void test_exp(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        double x = (random_f64(1, 2, i) - 0.5) * (i % 2 ? 1400 : 8);
        double want = exp(x);
        if (!(fabs(maths_exp(x) - want) <= 1e-14 * want))
            fail_msg("exp(%.17g) is %.17g, not %.17g", x, want, maths_exp(x));
    }
    assert_true(maths_exp(0) == 1);
    assert_true(maths_exp(-1e9) == 0);
    assert_true(isfinite(maths_exp(1e9)));
    assert_true(isnan(maths_exp(NAN)));
    assert_true(maths_sigmoid(0) == 0.5);
}

static void test_log(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        double x = maths_exp((random_f64(1, 3, i) - 0.5) * (i % 2 ? 1400 : 0.1));
        double want = log(x);
        if (!(fabs(maths_log(x) - want) <= 1e-14 * fabs(want) + 1e-16))
            fail_msg("log(%.17g) is %.17g, not %.17g", x, want, maths_log(x));
    }
    assert_true(maths_log(1) == 0);
    assert_true(isfinite(maths_log(0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
