// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"
#include "base/random.h"
#include "kit/test.h"

enum { TIMES = 2000 };

// Returns the bucket of a time by comparing it with every bound.
static uint32_t naive_bucket(uint64_t ns)
{
    uint32_t i = 0;
    for (uint64_t bound = 64000; i < 18 && ns > bound; bound *= 2)
        i++;
    return i;
}

static void test_edges(void **state)
{
    (void)state;
    assert_int_equal(histogram_bucket(0), 0);
    assert_int_equal(histogram_bucket(UINT64_MAX), 18);
    for (uint32_t i = 0; i < 18; i++) {
        uint64_t bound = (uint64_t)64000 << i;
        assert_int_equal(histogram_bucket(bound - 1), naive_bucket(bound - 1));
        assert_int_equal(histogram_bucket(bound), i);
        assert_int_equal(histogram_bucket(bound + 1), i + 1);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

// The quantile must lie in the same bucket as the time at that rank.
static void check_quantile(const struct histogram *h, const uint64_t *sorted, double q)
{
    size_t rank = (size_t)ceil(q * TIMES);
    uint32_t i = naive_bucket(sorted[rank > 0 ? rank - 1 : 0]);
    double x = histogram_quantile(h, q), from = i > 0 ? histogram_bound(i - 1) : 0,
           to = histogram_bound(i < 18 ? i : 17);
    assert_true(i == 18 ? x == to : x >= from && x <= to * (1 + 1e-12));
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct histogram h = {0};
        uint64_t times[TIMES], sum = 0, count[19] = {0};
        for (uint64_t i = 0; i < TIMES; i++) {
            times[i] = random_u64(seed, i, 0) >> (24 + random_below(seed, i, 1, 40));
            histogram_add(&h, times[i]);
            sum += times[i];
            count[naive_bucket(times[i])]++;
        }
        assert_int_equal(h.ns, sum);
        assert_int_equal(histogram_count(&h), TIMES);
        assert_memory_equal(h.bucket, count, sizeof(count));
        qsort(times, TIMES, sizeof(*times), compare);
        for (int q = 0; q <= 100; q++)
            check_quantile(&h, times, q / 100.0);
    }
}

static void test_print(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(4096);
    struct json_out o = JSON_OUT(&b);
    struct histogram h = {0};
    assert_true(isnan(histogram_quantile(&h, 0.5)));
    histogram_add(&h, 65000);
    histogram_add(&h, 9000000000);
    json_out_open(&o, NULL, '{');
    histogram_print(&h, &o);
    histogram_print_bounds(&o, "bounds");
    json_out_close(&o, '}');
    assert_string_equal(
        buf_str(&b),
        "{\"count\":2,\"seconds\":9.000065,\"buckets\":[0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
        "0,0,1],\"bounds\":[6.4e-05,0.000128,0.000256,0.000512,0.001024,0.002048,0.004096"
        ",0.008192,0.016384,0.032768,0.065536,0.131072,0.262144,0.524288,1.048576,"
        "2.097152,4.194304,8.388608]}");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
