// Initial values of dense variables: their moments, their independence of the division
// into pieces, and their texts.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "kit/test.h"
#include "table/initial.h"

enum { N = 200000 };
static float values[N];

struct moments {
    double mean, deviation, low, high;
};

static struct moments draw(const char *text)
{
    struct initial x;
    struct err e;
    if (initial_parse(text, &x, &e) != 0)
        fail_msg("%s", e.text);
    initial_fill(&x, 7, 3, 0, N, values);
    struct moments m = {0, 0, INFINITY, -INFINITY};
    for (size_t i = 0; i < N; i++) {
        m.mean += values[i];
        m.low = fmin(m.low, values[i]);
        m.high = fmax(m.high, values[i]);
    }
    m.mean /= N;
    for (size_t i = 0; i < N; i++)
        m.deviation += (values[i] - m.mean) * (values[i] - m.mean);
    m.deviation = sqrt(m.deviation / N);
    return m;
}

static void near(double x, double y, double within)
{
    if (!(fabs(x - y) <= within))
        fail_msg("%.6f is not within %g of %g", x, within, y);
}

// Means and deviations may differ from the expected ones by five standard errors.
static void test_moments(void **state)
{
    (void)state;
    struct moments m = draw("constant:0.25");
    assert_true(m.low == 0.25 && m.high == 0.25);
    m = draw("uniform:-1,3");
    near(m.mean, 1, 5 * 4 / sqrt(12.0 * N));
    near(m.deviation, 4 / sqrt(12), 0.01);
    assert_true(m.low >= -1 && m.low < -0.99 && m.high < 3 && m.high > 2.99);
    m = draw("gaussian:2,0.5");
    near(m.mean, 2, 5 * 0.5 / sqrt(N));
    near(m.deviation, 0.5, 0.005);
    m = draw("truncated-gaussian:0,1");
    near(m.mean, 0, 5 / sqrt(N));
    // 0.8796 is the standard deviation of a standard normal distribution
    // that is cut at -2 and 2.
    near(m.deviation, 0.8796, 0.01);
    assert_true(m.low >= -2 && m.low < -1.98 && m.high <= 2 && m.high > 1.98);
    m = draw("truncated-gaussian:1,2,0,1");
    assert_true(m.low >= 1 && m.high <= 3);
    m = draw("xavier:100,50");
    near(m.deviation, 0.2 / sqrt(3), 0.002);
    near(m.high, 0.2, 0.001);
}

static void test_paddle(void **state)
{
    (void)state;
    struct initial a, b;
    float x[8], y[8];
    assert_int_equal(initial_parse("gaussian_random&5&0.0&0.01", &a, NULL), 0);
    assert_int_equal(initial_parse("gaussian:0,0.01", &b, NULL), 0);
    initial_fill(&a, 2, 0, 0, 8, x);
    initial_fill(&b, 7, 0, 0, 8, y);
    assert_memory_equal(x, y, sizeof(x));
    assert_int_equal(initial_parse("fill_constant&-1.5", &a, NULL), 0);
    assert_true(a.kind == INITIAL_CONSTANT && a.a == -1.5);
    assert_int_equal(initial_parse("uniform_random&0&-1&1", &a, NULL), 0);
    assert_int_equal(initial_parse("truncated_gaussian_random&0&0&1&-1&1", &a, NULL), 0);
    assert_true(a.low == -1 && a.high == 1);
}

static void test_pieces_are_the_whole(void **state)
{
    (void)state;
    static float pieces[N];
    static const char *texts[] = {"uniform:0,1", "gaussian:0,1",
                                  "truncated-gaussian:0,1"};
    for (size_t t = 0; t < 3; t++) {
        struct initial x;
        draw(texts[t]);
        initial_parse(texts[t], &x, NULL);
        for (size_t at = 0, n; at < N; at += n) {
            n = at % 97 + 1 < N - at ? at % 97 + 1 : N - at;
            initial_fill(&x, 7, 3, at, n, pieces + at);
        }
        assert_memory_equal(pieces, values, sizeof(pieces));
        initial_fill(&x, 7, 4, 0, N, pieces); // another random stream has other values
        assert_memory_not_equal(pieces, values, sizeof(pieces));
    }
}

static void test_bad_texts(void **state)
{
    (void)state;
    static const char *bad[] = {"",
                                "constant",
                                "constant:",
                                "constant:x",
                                "constant:1,2",
                                "constant:1,",
                                "constant&1",
                                "uniform:1",
                                "uniform:2,1",
                                "uniform:0,nan",
                                "uniform:0,inf",
                                "gaussian:0,-1",
                                "gaussian:0,1,2",
                                "truncated-gaussian:0,1,5,6",
                                "truncated-gaussian:0,1,1,1",
                                "xavier:0,0",
                                "xavier:-5,2",
                                "fill_constant:1",
                                "gaussian_random&-1&0&1",
                                "uniform_random&0&1",
                                "normal:0,1",
                                "uniform:0;1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct initial x;
        struct err e;
        if (initial_parse(bad[i], &x, &e) != TUG_EUSAGE)
            fail_msg("'%s' was taken", bad[i]);
        assert_non_null(strstr(e.text, bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_paddle),
        cmocka_unit_test(test_pieces_are_the_whole),
        cmocka_unit_test(test_bad_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
