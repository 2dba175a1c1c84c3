// Checks calibration by counting: bins hold each example once, in the order of
// predictions, and equal predictions are in the same bin.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "kit/test.h"

enum { EXAMPLES_MAX = 300 };

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    return (x->score > y->score) - (x->score < y->score);
}

// Draws n examples with `values` different scores.
static void draw(struct scored *s, size_t n, unsigned values, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        float weight = 1 + (float)random_below(seed, 1, i, 3);
        s[i].score = (float)random_below(seed, 2, i, values) / 16 - 2;
        s[i].weight = random_below(seed, 3, i, 3) == 0 ? weight : -weight;
    }
    qsort(s, n, sizeof(*s), by_score);
}

static void check_bin(const struct calibration_bin *b, const struct scored *s)
{
    double weight = 0, predicted = 0, positive = 0;
    for (uint64_t i = 0; i < b->examples; i++) {
        double w = fabs((double)s[i].weight), p = 1 / (1 + exp(-(double)s[i].score));
        weight += w;
        predicted += w * p;
        positive += s[i].weight > 0 ? w : 0;
        assert_true(p >= b->from - 1e-12 && p <= b->to + 1e-12);
    }
    assert_true(fabs(b->predicted - predicted / weight) < 1e-9);
    assert_true(fabs(b->observed - positive / weight) < 1e-9);
}

static void test_all_are_counted(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 9, 10, 11, 99, 100, EXAMPLES_MAX};
    static const unsigned values[] = {1, 2, 5, 64};
    struct scored s[EXAMPLES_MAX];
    for (size_t i = 0; i < 8; i++)
        for (size_t v = 0; v < 4; v++) {
            struct calibration c;
            size_t at = 0;
            draw(s, sizes[i], values[v], i * 4 + v);
            calibration_make(&c, s, sizes[i]);
            assert_in_range(c.n, 1, CALIBRATION_BINS);
            for (uint32_t k = 0; k < c.n; k++) {
                check_bin(&c.bin[k], s + at);
                at += c.bin[k].examples;
                assert_true(at == sizes[i] || s[at].score > s[at - 1].score);
            }
            assert_int_equal(at, sizes[i]);
        }
}

static void test_ten_bins(void **state)
{
    (void)state;
    struct scored s[100];
    struct calibration c;
    for (int i = 0; i < 100; i++)
        s[i] = (struct scored){(float)i / 50 - 1, i % 10 < i / 10 ? 1 : -1};
    calibration_make(&c, s, 100);
    assert_int_equal(c.n, 10);
    for (unsigned k = 0; k < 10; k++) {
        assert_int_equal(c.bin[k].examples, 10);
        assert_true(fabs(c.bin[k].observed - k / 10.0) < 1e-12);
    }
    calibration_make(&c, s, 0);
    assert_int_equal(c.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_counted),
        cmocka_unit_test(test_ten_bins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
