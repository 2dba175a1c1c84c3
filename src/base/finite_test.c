// Compares with isfinite for all kinds of floats, at all positions and unaligned.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/finite.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kit/test.h"

enum { N = 41 };

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

// Rounds to nearest, ties to even, by arithmetic: nextafterf gives the neighbours.
static bool rounds_to_finite(float x)
{
    // The largest bf16, and the distance to the bf16 below it.
    const float most = float_of(0x7f7f0000), step = float_of(0x7b800000);
    return isfinite(x) && (double)fabsf(x) < (double)most + (double)step / 2 && step > 0;
}

static void kinds(void **state)
{
    (void)state;
    const float all[] = {0,
                         -0.0f,
                         1,
                         -1,
                         FLT_MIN,
                         FLT_TRUE_MIN,
                         FLT_MAX,
                         -FLT_MAX,
                         float_of(0x7f7f0000),
                         float_of(0x7f7f7fff),
                         float_of(0x7f7f8000),
                         float_of(0xff7f8000),
                         INFINITY,
                         -INFINITY,
                         NAN,
                         float_of(0xffc00001),
                         float_of(0x7f800001)};
    char bytes[1 + N * sizeof(float)];
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
        for (size_t at = 0; at < N; at++) {
            float x[N] = {0};
            uint16_t halves[N] = {0};
            uint32_t bits;
            x[at] = all[k];
            memcpy(&bits, &x[at], sizeof(bits));
            halves[at] = (uint16_t)(bits >> 16);
            memcpy(bytes + 1, x, sizeof(x));
            assert_int_equal(finite_floats(bytes + 1, N), isfinite(all[k]) != 0);
            assert_int_equal(finite_when_bf16(bytes + 1, N), rounds_to_finite(all[k]));
            assert_true(finite_floats(bytes + 1, at) && finite_when_bf16(bytes + 1, at));
            memcpy(bytes + 1, halves, sizeof(halves));
            assert_int_equal(finite_bf16(bytes + 1, N),
                             isfinite(float_of(bits & 0xffff0000)) != 0);
        }
    assert_true(finite_floats(NULL, 0) && finite_bf16(NULL, 0));
}

static void halves_and_doubles(void **state)
{
    (void)state;
    const double all[] = {0,       -0.0,     1,   DBL_MAX,      -DBL_MAX,
                          DBL_MIN, INFINITY, NAN, -(double)NAN, DBL_TRUE_MIN};
    char bytes[1 + N * sizeof(double)];
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
        for (size_t at = 0; at < N; at++) {
            double x[N] = {0};
            x[at] = all[k];
            memcpy(bytes + 1, x, sizeof(x));
            assert_int_equal(finite_doubles(bytes + 1, N), isfinite(all[k]) != 0);
            assert_true(finite_doubles(bytes + 1, at));
        }
    for (uint32_t h = 0; h < 1 << 16; h++) { // all exponent bits set: infinite or NaN
        uint16_t x[N] = {0};
        x[h % N] = (uint16_t)h;
        memcpy(bytes + 1, x, sizeof(x));
        assert_int_equal(finite_halves(bytes + 1, N), (h >> 10 & 31) != 31);
    }
    assert_true(finite_doubles(NULL, 0) && finite_halves(NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kinds),
                                       cmocka_unit_test(halves_and_doubles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
