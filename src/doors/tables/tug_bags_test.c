// Compares sums of bags and their gradients with plain loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "tug/bags.h"

#include <string.h>

#include "base/alloc.h"
#include "kit/rng.h"
#include "kit/test.h"

enum { KEYS = 700, DISTINCT = 90, BAGS = 60, MOST = 21 };

static uint64_t keys[KEYS], distinct[KEYS], offsets[BAGS + 1];
static uint32_t which[KEYS];
static struct rng rng = {.seed = 1};
static float weights[KEYS], rows[KEYS * MOST], given[KEYS * MOST];

static float draw(void)
{
    return (float)(rng_below(&rng, 2001)) / 1000 - 1;
}

static size_t draw_batch(struct tug_bags *ret, uint32_t width, bool weighted)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = rng_below(&rng, DISTINCT) << 50 | 7;
        weights[i] = draw();
    }
    for (size_t b = 0; b <= BAGS; b++) {
        offsets[b] = at;
        at += rng_below(&rng, 12) % 10; // makes some bags empty
    }
    assert_int_equal(tug_distinct(keys, offsets[BAGS], distinct, which, &n), 0);
    for (size_t i = 0; i < n * width; i++)
        rows[i] = draw();
    for (size_t i = 0; i < BAGS * (size_t)width; i++)
        given[i] = draw();
    *ret = (struct tug_bags){.n = BAGS,
                             .offsets = offsets,
                             .which = which,
                             .weights = weighted ? weights : NULL,
                             .width = width};
    return n;
}

static void test_distinct(void **state)
{
    (void)state;
    struct tug_bags b;
    for (int round = 0; round < 20; round++) {
        size_t n = draw_batch(&b, 1, false);
        for (size_t i = 0; i < offsets[BAGS]; i++) {
            assert_true(which[i] < n && distinct[which[i]] == keys[i]);
            if (i == 0)
                assert_int_equal(which[i], 0);
        }
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < i; k++)
                assert_true(distinct[i] != distinct[k]);
    }
    size_t n = 1;
    assert_int_equal(tug_distinct(keys, 0, distinct, which, &n), 0);
    assert_int_equal(n, 0);
    mem_fault_after(0);
    assert_int_equal(tug_distinct(keys, KEYS, distinct, which, &n), TUG_ENOMEM);
    mem_fault_after(-1);
}

static void test_bags(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 3, 16, MOST};
    static float sums[BAGS * MOST], want[BAGS * MOST];
    static float back[KEYS * MOST], wanted[KEYS * MOST], by_weight[KEYS];
    for (uint32_t round = 0; round < 32; round++) {
        struct tug_bags b;
        uint32_t w = widths[round % 4];
        size_t n = draw_batch(&b, w, round % 8 < 4);
        memset(want, 0, sizeof(want));
        memset(wanted, 0, sizeof(wanted));
        memset(back, 0, sizeof(back));
        tug_bags_pool(&b, rows, sums);
        tug_bags_spread(&b, given, back);
        tug_bags_weigh(&b, rows, given, by_weight);
        for (size_t bag = 0; bag < BAGS; bag++)
            for (size_t i = offsets[bag]; i < offsets[bag + 1]; i++) {
                float weight = b.weights != NULL ? weights[i] : 1, dot = 0;
                for (uint32_t c = 0; c < w; c++) {
                    want[bag * w + c] += weight * rows[which[i] * w + c];
                    wanted[which[i] * w + c] += weight * given[bag * w + c];
                    dot += rows[which[i] * w + c] * given[bag * w + c];
                }
                assert_true(by_weight[i] - dot < 1e-5f && dot - by_weight[i] < 1e-5f);
            }
        assert_memory_equal(sums, want, BAGS * w * sizeof(float));
        assert_memory_equal(back, wanted, n * w * sizeof(float));
    }
}

// Without offsets, each bag has one entry.
static void test_single(void **state)
{
    (void)state;
    float sums[3 * 2], back[4] = {0};
    const float pair[4] = {1, 2, 3, 4}, by[6] = {1, 10, 2, 20, 4, 40};
    const uint32_t of[3] = {1, 0, 1};
    const struct tug_bags b = {.n = 3, .which = of, .width = 2};
    tug_bags_pool(&b, pair, sums);
    tug_bags_spread(&b, by, back);
    assert_memory_equal(sums, ((float[6]){3, 4, 1, 2, 3, 4}), sizeof(sums));
    assert_memory_equal(back, ((float[4]){2, 20, 5, 50}), sizeof(back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distinct),
        cmocka_unit_test(test_bags),
        cmocka_unit_test(test_single),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
