// Checks the curves of a report by properties: with few examples the area below the ROC
// points is the exact AUC, with many it is near it; bars and tenths hold each example
// once.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/curves.h"

#include <math.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"

enum { EXAMPLES_MAX = 20000 };

static struct scored *draw(size_t n, unsigned values, uint64_t seed, double *ret_auc)
{
    struct scored *s = mem_array(2 * n, sizeof(*s));
    assert_non_null(s);
    for (size_t i = 0; i < n; i++) {
        float weight = 1 + (float)random_below(seed, 1, i, 3);
        s[i].score = (float)random_below(seed, 2, i, values) / (float)values * 8 - 6;
        bool one = random_f64(seed, 3, i) * 8 < (double)s[i].score + 6;
        s[i].weight = one ? weight : -weight;
    }
    *ret_auc = metrics_auc(s, s + n, n);
    return s;
}

static double area(const struct curve *c)
{
    double sum = 0;
    for (uint32_t i = 1; i < c->n; i++) {
        assert_true(c->point[i].x >= c->point[i - 1].x);
        sum += (c->point[i].x - c->point[i - 1].x) * (c->point[i].y + c->point[i - 1].y) /
               2;
    }
    return sum;
}

static void check(const struct curves *c, const struct scored *s, size_t n, double auc,
                  double near)
{
    double positives = 0, negatives = 0, bars[2] = {0}, lifted = 0;
    uint64_t examples = 0;
    for (size_t i = 0; i < n; i++)
        *(s[i].weight > 0 ? &positives : &negatives) += fabs((double)s[i].weight);
    for (uint32_t i = 0; i < c->bars; i++) {
        bars[0] += c->bar[i].positives;
        bars[1] += c->bar[i].negatives;
    }
    for (uint32_t i = 0; i < c->calibration.n; i++) {
        const struct calibration_bin *b = &c->calibration.bin[i];
        examples += c->lift[i].examples;
        lifted += c->lift[i].positives;
        assert_true(b->low >= 0 && b->low <= b->observed + 1e-12);
        assert_true(b->high <= 1 && b->high >= b->observed - 1e-12);
    }
    assert_true(bars[0] == positives && bars[1] == negatives);
    assert_int_equal(examples, n);
    assert_true(fabs(lifted - positives) < 1e-6 * positives);
    assert_true(fabs(c->lift[c->calibration.n - 1].captured - 1) < 1e-9);
    assert_true(fabs(area(&c->roc) - auc) < near);
    assert_true(c->roc.point[0].x == 0 && c->roc.point[c->roc.n - 1].x == 1);
    assert_true(c->roc.point[c->roc.n - 1].y == 1);
    assert_true(c->precision.point[c->precision.n - 1].x == 1);
    (void)area(&c->precision);
}

static void test_shapes(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        unsigned values;
        double near;
    } cases[] = {{40, 7, 1e-12},
                 {90, 90, 1e-9},
                 {EXAMPLES_MAX, 3, 1e-12},
                 {EXAMPLES_MAX, 100000, 1e-3}};
    for (size_t i = 0; i < 4; i++) {
        static struct curves c;
        double auc;
        struct scored *s = draw(cases[i].n, cases[i].values, i, &auc);
        curves_make(&c, s, cases[i].n);
        assert_in_range(c.roc.n, 3, CURVES_POINTS);
        assert_in_range(c.precision.n, 1, CURVES_POINTS);
        check(&c, s, cases[i].n, auc, cases[i].near);
        mem_free(s);
    }
}

static void test_odd_data(void **state)
{
    (void)state;
    static struct curves c;
    struct scored same[] = {{-1, 1}, {-1, -1}, {-1, -2}}, ones[] = {{0, 1}, {1, 1}};
    curves_make(&c, same, 0);
    assert_int_equal(c.bars, 0);
    curves_make(&c, same, 3);
    assert_int_equal(c.bars, 1);
    assert_int_equal(c.roc.n, 2);
    curves_make(&c, ones, 2);
    assert_int_equal(c.roc.n, 0);
    assert_int_equal(c.precision.n, 0);
    assert_true(c.bar[0].positives == 1 && c.bar[CURVES_BARS - 1].positives == 1);
}

// Compares Wilson's interval for 1 positive among 10 examples with that of
// Newcombe 1998, method 3.
static void test_interval(void **state)
{
    (void)state;
    struct scored s[10];
    struct calibration c;
    for (int i = 0; i < 10; i++)
        s[i] = (struct scored){0, i == 0 ? 1 : -1};
    calibration_make(&c, s, 10);
    assert_true(fabs(c.bin[0].low - 0.01787) < 1e-4);
    assert_true(fabs(c.bin[0].high - 0.40415) < 1e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_odd_data),
        cmocka_unit_test(test_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
