// Compares a feature's part with scores without the feature, and pairs with scores of two
// features. A model that does not report all its parts is detected.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/explain.h"

#include <math.h>

#include "base/random.h"
#include "kit/test.h"
#include "kit/toy_model.h"
#include "rule/rule.h"

enum { FEATURES = 7, FIELDS = 4, ROOM = FEATURES + KERNEL_PADDING, PAIRS = 21 };

struct world {
    struct model m;
    struct model_work w;
    float data[FEATURES][128], dense[4096];
    float *rows[ROOM], x[ROOM], u[ROOM], label;
    uint16_t slot[ROOM];
    uint32_t start[2];
    struct model_batch b;
};
static struct world t;

static void open_world(const char *name, bool mean)
{
    struct model_options o = {0};
    assert_int_equal(model_find(name, &o.ops, NULL), 0);
    model_defaults(&o, o.ops, RULE_ADAGRAD);
    o.dim = 3;
    o.fields = FIELDS;
    o.pooling_mean = mean;
    if (o.hidden[0] != 0) {
        o.hidden[0] = 6;
        o.hidden[1] = 5;
        o.hidden[2] = 0;
    }
    t = (struct world){.start = {0, FEATURES}};
    assert_int_equal(model_init(&t.m, &o, NULL), 0);
    assert_int_equal(model_work_open(&t.w, &t.m, NULL), 0);
    assert_true(model_dense(&t.m) <= 4096);
    for (size_t i = 0; i < 4096; i++)
        t.dense[i] = random_f32(1, 0, i) - 0.5f;
    // In models that consist only of layers, the linear weights stay 0.
    bool linear = strcmp(name, "mlp") != 0 && strcmp(name, "dcn") != 0;
    for (size_t i = 0; i < ROOM; i++) {
        t.rows[i] = t.data[i % FEATURES];
        t.x[i] = random_f32(2, 0, i) + 0.5f;
        t.u[i] = model_has_layers(&t.m) ? t.x[i] : random_f32(3, 0, i) + 0.5f;
        t.slot[i] = (uint16_t)random_below(4, 0, i, FIELDS);
        for (size_t c = 0; c < 128 && i < FEATURES; c++)
            t.data[i][c] = linear || c > 0 ? random_f32(5, i, c) - 0.5f : 0;
    }
    t.w.dense = t.dense;
    t.b = (struct model_batch){.n = 1,
                               .start = t.start,
                               .rows = t.rows,
                               .x = t.x,
                               .u = t.u,
                               .slot = t.slot,
                               .label = &t.label};
}

// Returns the score of an example that has feature i if bit i of `set` is 1.
static double score_of(uint32_t set)
{
    float *rows[ROOM], x[ROOM] = {0}, u[ROOM] = {0}, score;
    uint16_t slot[ROOM] = {0};
    uint32_t start[2] = {0, 0};
    struct model_batch b = {.n = 1,
                            .start = start,
                            .rows = rows,
                            .x = x,
                            .u = u,
                            .slot = slot,
                            .label = &t.label};
    for (size_t i = 0; i < ROOM; i++)
        rows[i] = t.data[0];
    for (size_t i = 0; i < FEATURES; i++)
        if (set >> i & 1) {
            size_t to = start[1]++;
            rows[to] = t.rows[i];
            x[to] = t.x[i];
            u[to] = t.u[i];
            slot[to] = t.slot[i];
        }
    assert_int_equal(model_scores(&t.w, &b, &score), 0);
    return (double)score;
}

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) < 1e-5);
}

static void parts_equal_score_changes(void **state)
{
    (void)state;
    static const char *const names[] = {"lr",        "fm",     "ffm", "mlp",
                                        "wide_deep", "deepfm", "dcn", "wide_deep"};
    enum { N = sizeof(names) / sizeof(*names) };
    for (size_t k = 0; k < N; k++) {
        struct model_explained_feature feature[FEATURES];
        struct model_pair pair[PAIRS];
        struct model_explained x = {.feature = feature, .pair = pair, .max_pairs = PAIRS};
        uint32_t all = (1u << FEATURES) - 1;
        open_world(names[k], k == N - 1);
        assert_int_equal(model_explain(&t.w, &t.b, &x, NULL), 0);
        assert_near(x.score, score_of(all) + (double)t.dense[0]);
        for (uint32_t i = 0; i < FEATURES; i++)
            assert_near(feature[i].linear + feature[i].pairs + feature[i].layers,
                        score_of(all) - score_of(all & ~(1u << i)));
        for (size_t p = 0; p < x.n_pairs && !model_has_layers(&t.m); p++) {
            uint32_t a = 1u << pair[p].a, b = 1u << pair[p].b;
            assert_near(pair[p].adds, score_of(a | b) - score_of(a) - score_of(b));
        }
        assert_int_equal(x.n_pairs, t.m.options.ops->pair != NULL ? PAIRS : 0);
        model_work_close(&t.w);
    }
}

static void largest_pairs_come_first(void **state)
{
    (void)state;
    struct model_explained_feature feature[FEATURES];
    struct model_pair all[PAIRS], few[4];
    struct model_explained a = {.feature = feature, .pair = all, .max_pairs = PAIRS},
                           f = {.feature = feature, .pair = few, .max_pairs = 4};
    open_world("fm", false);
    assert_int_equal(model_explain(&t.w, &t.b, &a, NULL), 0);
    assert_int_equal(model_explain(&t.w, &t.b, &f, NULL), 0);
    assert_int_equal(f.n_pairs, 4);
    assert_int_equal(f.all_pairs, PAIRS);
    double sum = 0;
    for (size_t i = 0; i < PAIRS; i++) {
        sum += all[i].adds;
        assert_true(i == 0 || fabs(all[i].adds) <= fabs(all[i - 1].adds));
    }
    for (size_t i = 0; i < 4; i++)
        assert_true(few[i].a == all[i].a && few[i].b == all[i].b);
    assert_near(sum, a.pairs);
    model_work_close(&t.w);
}

// fm adds and subtracts the square of a large number. The terms then differ from the score by
// a rounding error, which model_explain must not report as an error.
static void large_numbers_are_rounded(void **state)
{
    (void)state;
    struct model_explained_feature feature[FEATURES];
    struct model_explained x = {.feature = feature};
    open_world("fm", false);
    t.x[2] = t.u[2] = 123457;
    assert_int_equal(model_explain(&t.w, &t.b, &x, NULL), 0);
    model_work_close(&t.w);
}

static void unreported_parts_are_detected(void **state)
{
    (void)state;
    struct model_explained_feature feature[FEATURES];
    struct model_explained x = {.feature = feature};
    struct err e;
    assert_int_equal(model_register(&toy, NULL), 0);
    open_world("toy", false);
    assert_int_equal(model_explain(&t.w, &t.b, &x, &e), TUG_EINTERNAL);
    assert_non_null(strstr(e.text, "model toy has parts that tug cannot explain"));
    model_work_close(&t.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_equal_score_changes),
        cmocka_unit_test(largest_pairs_come_first),
        cmocka_unit_test(large_numbers_are_rounded),
        cmocka_unit_test(unreported_parts_are_detected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
