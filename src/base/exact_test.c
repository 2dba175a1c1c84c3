// Compares exact sums with integer sums, and checks that the bits are the same in any
// order and division.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/exact.h"

#include <float.h>
#include <math.h>

#include "base/random.h"
#include "kit/test.h"

static double sum_of(const double *x, size_t n)
{
    struct exact s = {0};
    for (size_t i = 0; i < n; i++)
        exact_add(&s, x[i]);
    return exact_value(&s);
}

static void test_values(void **state)
{
    (void)state;
    const double one[] = {0,     -0.0,     1,       -1,        0.1,        -0.1,
                          1e300, -DBL_MAX, DBL_MIN, 0x1p-1074, -0x1p-1074, 3 * 0x1p-1060};
    for (size_t i = 0; i < sizeof(one) / sizeof(*one); i++)
        assert_true(sum_of(&one[i], 1) == one[i]);
    assert_true(sum_of((double[]){1e300, 1, -1e300}, 3) == 1);
    assert_true(sum_of((double[]){1, 0x1p-1074, -1}, 3) == 0x1p-1074);
    assert_true(sum_of((double[]){-1, -0x1p60, 0x1p60}, 3) == -1);
    assert_true(sum_of((double[]){DBL_MAX, DBL_MAX, -DBL_MAX}, 3) == DBL_MAX);
    assert_true(isinf(sum_of((double[]){1, (double)INFINITY}, 2)));
    assert_true(isnan(sum_of((double[]){1, (double)NAN, 1}, 3)));
    assert_true(isnan(sum_of((double[]){(double)INFINITY, -(double)INFINITY}, 2)));
}

// Integers and halves have a sum without rounding.
static void test_whole_numbers(void **state)
{
    (void)state;
    struct exact s = {0};
    int64_t want = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        int64_t x = (int64_t)random_below(1, 1, i, 2000001) - 1000000;
        want += x;
        exact_add(&s, (double)x / 2);
    }
    assert_true(exact_value(&s) == (double)want / 2);
}

enum { N = 3000 };

static double random_double(uint64_t i)
{
    double x = random_f64(2, 1, i) - 0.5;
    return ldexp(x, (int)random_below(2, 2, i, 200) - 100);
}

static void test_any_order(void **state)
{
    (void)state;
    struct exact there = {0}, back = {0}, parts[7] = {0}, all = {0};
    for (uint64_t i = 0; i < N; i++) {
        exact_add(&there, random_double(i));
        exact_add(&back, random_double(N - 1 - i));
        exact_add(&parts[i * i % 7], random_double(i));
    }
    for (int p = 7; p-- > 0;)
        exact_merge(&all, &parts[p]);
    assert_true(exact_value(&there) == exact_value(&back));
    assert_true(exact_value(&there) == exact_value(&all));
}

// The limbs are as full as after EXACT_ADDS additions.
static void test_carries(void **state)
{
    (void)state;
    struct exact s = {0};
    for (int sign = 1; sign >= -1; sign -= 2) {
        memset(&s, 0, sizeof(s));
        for (int i = 0; i < 10; i++)
            exact_add(&s, sign * 0x1.fffffffffffffp52);
        s.adds = EXACT_ADDS - 1;
        exact_add(&s, sign * 1.0);
        assert_true(s.adds == 0);
        assert_true(exact_value(&s) == sign * (10 * 0x1.fffffffffffffp52 + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_carries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
