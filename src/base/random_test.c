// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"
#include "kit/test.h"

// Golden values: initial values of rows depend on them, so they never change. They were
// computed independently, in Python.
static void test_golden(void **state)
{
    (void)state;
    const uint64_t top = UINT64_MAX;
    assert_int_equal(random_u64(0, 0, 0), 0xf53673d646f5b4fb);
    assert_int_equal(random_u64(1, 0, 0), 0xf236ec8719d7b003);
    assert_int_equal(random_u64(0, 1, 0), 0x1045d7d43f754f96);
    assert_int_equal(random_u64(0, 0, 1), 0xd37690236f2cbf70);
    assert_int_equal(random_u64(42, 7, top), 0xb74ac7699de2cf98);
    assert_int_equal(random_u64(top, top, top), 0xb570b3ae694590cb);
    assert_true(random_f32(0, 0, 0) == 0.9578620791435242f);
    assert_true(random_f32(0, 1, 0) == 0.06356567144393921f);
    assert_int_equal(random_below(0, 0, 0, 10), 9);
    assert_int_equal(random_below(0, 1, 0, 10), 0);
}

// Returns a random number below n. One of the three inputs of the generator (`which`)
// counts up with i; each input alone must give a uniform distribution.
static uint64_t number(int which, uint64_t i, uint64_t n)
{
    return random_below(which == 0 ? i : 9, which == 1 ? i : 9, which == 2 ? i : 9, n);
}

static void test_uniform(void **state)
{
    (void)state;
    enum { CELLS = 64, EACH = 1000 };
    for (int which = 0; which < 3; which++) {
        int count[CELLS] = {0};
        for (uint64_t i = 0; i < CELLS * EACH; i++)
            count[number(which, i, CELLS)]++;
        double chi2 = 0;
        for (int c = 0; c < CELLS; c++)
            chi2 += (double)(count[c] - EACH) * (count[c] - EACH) / EACH;
        assert_true(chi2 < 130); // 63 degrees of freedom: exceeded with probability 1e-6
    }
}

static void test_ranges(void **state)
{
    (void)state;
    float low32 = 1, high32 = 0;
    double low64 = 1, high64 = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        float x = random_f32(1, 2, i);
        double y = random_f64(1, 2, i);
        low32 = x < low32 ? x : low32;
        high32 = x > high32 ? x : high32;
        low64 = y < low64 ? y : low64;
        high64 = y > high64 ? y : high64;
        assert_int_equal(random_below(1, 2, i, 1), 0);
        assert_true(random_below(1, 2, i, UINT64_MAX) < UINT64_MAX);
    }
    assert_true(low32 >= 0 && low32 < 1e-3f && high32 < 1 && high32 > 0.999f);
    assert_true(low64 >= 0 && low64 < 1e-3 && high64 < 1 && high64 > 0.999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
