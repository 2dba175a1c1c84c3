// The shuffle is a permutation for every n, depends on seed and pass, and mixes well.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "data/dataset/dataset.h"
#include "kit/lines.h"
#include "kit/test.h"

static void check_permutation(uint64_t n, uint64_t seed, uint64_t pass)
{
    struct shuffle s = shuffle_make(n, seed, pass);
    unsigned char *seen = mem_zalloc(n);
    assert_non_null(seen);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = shuffle_at(&s, i);
        assert_true(at < n);
        assert_int_equal(seen[at]++, 0);
    }
    mem_free(seen);
}

static void test_permutation(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 300; n++)
        for (uint64_t pass = 0; pass < 3; pass++)
            check_permutation(n, n, pass);
    for (int i = 0; i < 30; i++)
        check_permutation(1 + any(50000), any(1000), any(100));
    check_permutation(65536, 1, 1);
    check_permutation(65537, 1, 1);
}

static void test_large(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {(uint64_t)1 << 40, ((uint64_t)1 << 63) + 5,
                                     UINT64_MAX};
    for (size_t k = 0; k < 3; k++) {
        struct shuffle s = shuffle_make(sizes[k], 3, 4);
        uint64_t first = shuffle_at(&s, 0);
        for (uint64_t i = 1; i < 1000; i++) {
            uint64_t at = shuffle_at(&s, i);
            assert_true(at < sizes[k] && at != first);
        }
    }
}

// Counts the positions at which two shuffles agree. If the shuffles are independent, the
// expected number is one.
static unsigned in_common(struct shuffle a, struct shuffle b)
{
    unsigned same = 0;
    for (uint64_t i = 0; i < a.n; i++)
        same += shuffle_at(&a, i) == shuffle_at(&b, i);
    return same;
}

static void test_seed_and_pass(void **state)
{
    (void)state;
    struct shuffle a = shuffle_make(10000, 1, 1);
    assert_int_equal(in_common(a, shuffle_make(10000, 1, 1)), 10000);
    assert_true(in_common(a, shuffle_make(10000, 1, 2)) < 12);
    assert_true(in_common(a, shuffle_make(10000, 2, 1)) < 12);
}

// The correlations between the positions of neighbours, and between an example's position
// and its original position, are within four standard deviations of 0.
static void test_mixed(void **state)
{
    (void)state;
    for (uint64_t pass = 0; pass < 20; pass++) {
        uint64_t n = 1000 + any(60000);
        struct shuffle s = shuffle_make(n, 9, pass);
        double with_next = 0, with_origin = 0, middle = (double)(n - 1) / 2;
        double variance = ((double)n * (double)n - 1) / 12, last = 0;
        for (uint64_t i = 0; i < n; i++) {
            double x = (double)shuffle_at(&s, i) - middle;
            with_next += x * last;
            with_origin += x * ((double)i - middle);
            last = x;
        }
        double bound = 4 * variance * sqrt((double)n);
        assert_true(fabs(with_next) < bound);
        assert_true(fabs(with_origin) < bound);
    }
}

// Tests where the first eighth of the examples go: their positions, counted in 16 ranges,
// must be spread evenly (chi-squared).
static void test_spread(void **state)
{
    (void)state;
    double worst = 0;
    for (uint64_t pass = 0; pass < 50; pass++) {
        uint64_t n = 1 << 16, take = n / 8;
        struct shuffle s = shuffle_make(n - pass, 5, pass);
        double count[16] = {0}, chi = 0;
        for (uint64_t i = 0; i < take; i++)
            count[shuffle_at(&s, i) * 16 / n]++;
        for (int k = 0; k < 16; k++)
            chi += (count[k] - (double)take / 16) * (count[k] - (double)take / 16);
        chi /= (double)take / 16;
        worst = chi > worst ? chi : worst;
    }
    assert_true(worst < 50); // 15 degrees of freedom: 50 has probability 1e-5
}

// Each example occurs once, in whatever parts the positions are taken; neighbours in the
// text are far apart.
static void test_order(void **state)
{
    (void)state;
    static uint64_t got[6000];
    static unsigned char seen[6000];
    for (uint64_t n = 1; n < 6000; n = n * 3 / 2 + 1) {
        struct order o = order_make(n, 5, n % 3);
        struct order_block h = {0};
        size_t taken = 0, piece = 1 + n % 300;
        assert_true(order_positions(&o) >= n && order_positions(&o) < n + ORDER_RUN);
        for (uint64_t p = 0; p < order_positions(&o); p += piece)
            taken += order_take(&o, &h, p, piece, got + taken);
        assert_int_equal(taken, n);
        memset(seen, 0, sizeof(seen));
        size_t followed = 0;
        for (size_t i = 0; i < n; i++) {
            assert_true(got[i] < n && !seen[got[i]]);
            seen[got[i]] = 1;
            followed += i > 0 && got[i] == got[i - 1] + 1;
        }
        if (n > 100)
            assert_true(followed < n / 20);
        assert_int_equal(order_take(&o, &h, order_positions(&o), 10, got), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order), cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_large), cmocka_unit_test(test_seed_and_pass),
        cmocka_unit_test(test_mixed), cmocka_unit_test(test_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
