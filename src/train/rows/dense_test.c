// The dense parameters of a thread: blocks are read and written as one array, and sums of
// micro-batches have the same bits however threads divide them.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/dense.h"

#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"
#include "kit/training.h"
#include "train/rows/parameters.h"

// Adds a random gradient of a micro-batch to `add`. Returns false, and adds nothing, if
// the micro-batch has no examples.
static bool gradient_of(uint64_t round, uint32_t micro, float *add, size_t n)
{
    if (random_below(1, round, micro, 4) == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        add[i] += random_f32(2, round * TREE_LEAVES + micro, i) - 0.5f;
    return true;
}

// Adds up the contributions of threads; the part of each thread begins at a micro-batch
// of `begins`.
static bool sum_of(const struct model *m, uint64_t round, const uint32_t *begins,
                   size_t threads, float *ret)
{
    struct dense_sums sums[4] = {{0}};
    float *values[TREE_LEAVES];
    uint8_t first[TREE_LEAVES];
    size_t n = 0, width = model_dense(m);
    for (size_t t = 0; t < threads; t++) {
        dense_sums_begin(&sums[t], m, begins[t], begins[t + 1]);
        for (uint32_t i = begins[t]; i < begins[t + 1]; i++) {
            float have[256] = {0};
            assert_true(width <= 256);
            if (!gradient_of(round, i, have, width))
                continue;
            for (int twice = 0; twice < 2; twice++) { // add the gradient in two parts
                float *to = dense_sums_micro(&sums[t], m->kernels, (uint8_t)i);
                assert_non_null(to);
                for (size_t c = 0; c < width; c++)
                    to[c] += twice ? have[c] : 1;
            }
        }
        for (size_t i = 0; i < sums[t].n; i++) {
            values[n] = sums[t].values[i];
            first[n++] = sums[t].first[i];
        }
    }
    if (n > 0) {
        tree_sum(m->kernels, first, values, n, width);
        memcpy(ret, values[0], width * sizeof(*ret));
    }
    for (size_t t = 0; t < threads; t++)
        dense_sums_close(&sums[t]);
    return n > 0;
}

static void test_sums(void **state)
{
    (void)state;
    struct model_options o = training_model("mlp");
    struct model m;
    assert_int_equal(model_init(&m, &o, NULL), 0);
    static const uint32_t one[] = {0, TREE_LEAVES};
    for (uint64_t round = 0; round < 300; round++) {
        float want[256], got[256];
        bool some = sum_of(&m, round, one, 1, want);
        for (size_t threads = 2; threads <= 4; threads++) {
            uint32_t begins[5] = {0};
            for (size_t t = 1; t < threads; t++)
                begins[t] = begins[t - 1] +
                            (uint32_t)random_below(3, round, threads * 8 + t,
                                                   TREE_LEAVES + 1 - begins[t - 1]);
            begins[threads] = TREE_LEAVES;
            assert_int_equal(sum_of(&m, round, begins, threads, got), some);
            if (some)
                assert_memory_equal(got, want, model_dense(&m) * sizeof(float));
        }
    }
}

// The model has more floats than fit in one block, so they are in several rows.
// dense_read copies them into one array.
static void test_blocks(void **state)
{
    (void)state;
    struct model_options o = training_model("dcn");
    struct parameters p;
    struct dense d;
    o.hidden[0] = 100;
    assert_int_equal(parameters_open(&p, &o, NULL), 0);
    const struct model *m = &p.model;
    size_t n = model_dense(m);
    assert_true(m->blocks > 2 && table_stats(p.dense).rows == m->blocks);
    assert_int_equal(dense_open(&d, m), 0);
    dense_read(m, p.blocks, d.values);
    float *first = dense_floats(m);
    assert_non_null(first);
    model_first_dense(m, first);
    assert_memory_equal(d.values, first, n * sizeof(float));

    // A step of plain gradient descent goes against the gradient in each place.
    struct rule_params rule = {.kind = RULE_SGD, .lr = 0.5f, .block = 1};
    for (size_t i = 0; i < n; i++)
        d.gradient[i] = (float)(i % 7) - 3;
    dense_step(&d, m, &rule, p.blocks, 2);
    dense_read(m, p.blocks, d.values);
    for (size_t i = 0; i < n; i++) {
        assert_true(d.values[i] == first[i] - ((float)(i % 7) - 3));
        assert_true(d.gradient[i] == 0);
    }
    mem_free(first);
    dense_close(&d);
    parameters_close(&p);
}

// Weights step by the mean of the gradients; summaries change by their unscaled sum.
static void test_summaries(void **state)
{
    (void)state;
    struct model_options o = training_model("mlp");
    o.batch_norm = true;
    struct model m;
    assert_int_equal(model_init(&m, &o, NULL), 0);
    float *gradient = dense_floats(&m);
    assert_non_null(gradient);
    assert_true(m.summaries > 0 && m.summaries < model_dense(&m));
    for (size_t i = 0; i < model_dense(&m); i++)
        gradient[i] = 1;
    dense_scale(&m, 0.125f, gradient);
    for (size_t i = 0; i < model_dense(&m); i++)
        assert_true(gradient[i] == (i < m.summaries ? 0.125f : 1));
    mem_free(gradient);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_summaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
