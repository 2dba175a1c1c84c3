// Vectors of different lengths: the width of rows and their initial values. The floats
// that a field does not use stay 0 and have no effect, for any rule.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/dims.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kit/test.h"
#include "rule/rule.h"

enum { MAX_DENSE = 4096, FIELDS = 3, DIM = 8, LONGEST = 12, SHORTEST = 4, DIVISOR = 4 };
static const uint32_t lengths[FIELDS] = {4, 8, 12};

static struct model_options options_of(const char *name, enum rule_kind rule)
{
    struct model_options o = {.ops = NULL};
    assert_int_equal(model_find(name, &o.ops, NULL), 0);
    model_defaults(&o, o.ops, rule);
    o.fields = FIELDS;
    o.dim = DIM;
    o.init = 0.5f;
    memset(o.hidden, 0, sizeof(o.hidden));
    o.hidden[0] = 6;
    o.dims[0] = (struct model_dim){0, 4};
    o.dims[1] = (struct model_dim){2, 12};
    o.n_dims = 2;
    return o;
}

static void test_shape(void **state)
{
    (void)state;
    struct model m;
    struct model_options o = options_of("mlp", RULE_ADAGRAD_ROW);
    assert_int_equal(model_init(&m, &o, NULL), 0);
    struct accessor_group *v = &m.accessor.groups[1];
    assert_int_equal(v->n, LONGEST);
    assert_int_equal(v->random, SHORTEST);
    assert_int_equal(v->rule.block, DIVISOR);
    assert_int_equal(v->n_state, LONGEST / DIVISOR);
    assert_int_equal(dims_sum(&o), 4 + 8 + 12);
    o.dims[1].dim = 7; // the lengths' divisor is now 1: each weight has its own state
    assert_int_equal(model_init(&m, &o, NULL), 0);
    assert_int_equal(v->n, DIM);
    assert_int_equal(v->n_state, DIM);
    o.n_dims = FIELDS; // all fields are listed, so --dim applies to none
    for (uint32_t f = 0; f < FIELDS; f++)
        o.dims[f] = (struct model_dim){f, 2};
    assert_int_equal(model_init(&m, &o, NULL), 0);
    assert_true(v->n == 2 && v->random == 2 && v->rule.block == 2);
    o.n_dims = 0;
    assert_int_equal(model_init(&m, &o, NULL), 0);
    assert_true(v->n == DIM && v->random == DIM && v->rule.block == DIM);
}

// A model, and an example with one feature of each field, whose rows are made by a table.
struct world {
    struct model m;
    struct model_work w;
    struct table *table;
    float *rows[FIELDS + KERNEL_PADDING], x[FIELDS + KERNEL_PADDING], dense[MAX_DENSE];
    uint16_t slot[FIELDS];
    uint32_t start[2];
    struct model_batch b;
};

static void open_world(struct world *t, const char *name, enum rule_kind rule)
{
    static const float label = 1;
    struct model_options o = options_of(name, rule);
    uint64_t keys[FIELDS] = {5, 6, 7};
    uint32_t handles[FIELDS];
    *t = (struct world){.slot = {0, 1, 2}, .start = {0, FIELDS}};
    o.linear.l1 = o.latent.l1 = 1e-4f;
    assert_int_equal(model_init(&t->m, &o, NULL), 0);
    struct table_options table = model_table(&t->m);
    assert_int_equal(table_open(&t->table, &table, NULL), 0);
    assert_int_equal(table_rows(t->table, keys, FIELDS, handles), 0);
    for (size_t i = 0; i < FIELDS + KERNEL_PADDING; i++) {
        t->rows[i] = table_row(table_slabs(t->table), handles[i < FIELDS ? i : 0]);
        t->x[i] = 1.5f;
    }
    assert_int_equal(model_work_open(&t->w, &t->m, NULL), 0);
    assert_true(model_dense(&t->m) <= MAX_DENSE);
    model_first_dense(&t->m, t->dense);
    t->w.dense = t->dense;
    t->b = (struct model_batch){.n = 1,
                                .start = t->start,
                                .rows = t->rows,
                                .x = t->x,
                                .u = t->x,
                                .slot = t->slot,
                                .label = &label};
}

static void close_world(struct world *t)
{
    model_work_close(&t->w);
    table_close(t->table);
}

static void step(struct world *t, size_t steps)
{
    static struct metrics_stream stream;
    float dense[MAX_DENSE] = {0};
    struct rule_params rules[2] = {t->m.accessor.groups[0].rule,
                                   t->m.accessor.groups[1].rule};
    struct model_training training = {.loss = LOSS_LOGISTIC,
                                      .rules = rules,
                                      .pass = 1,
                                      .stream = &stream,
                                      .dense_gradient = dense};
    for (size_t i = 0; i < steps; i++)
        assert_int_equal(model_step(&t->w, &t->b, &training), 0);
}

static void test_unused_stay_zero(void **state)
{
    (void)state;
    static const enum rule_kind rules[] = {RULE_SGD,         RULE_MOMENTUM, RULE_ADAGRAD,
                                           RULE_ADAGRAD_ROW, RULE_RMSPROP,  RULE_ADAM,
                                           RULE_FTRL};
    static const char *const models[] = {"mlp", "wide_deep", "dcn"};
    for (size_t k = 0; k < 3 * sizeof(rules) / sizeof(*rules); k++) {
        struct world t;
        open_world(&t, models[k % 3], rules[k / 3]);
        uint32_t v = t.m.accessor.groups[1].weights;
        float first[FIELDS][LONGEST];
        for (size_t f = 0; f < FIELDS; f++) {
            memcpy(first[f], t.rows[f] + v, sizeof(first[f]));
            for (size_t c = 0; c < LONGEST; c++)
                assert_true((first[f][c] != 0) == (c < SHORTEST));
        }
        step(&t, 3);
        for (size_t f = 0; f < FIELDS; f++)
            for (size_t c = 0; c < LONGEST; c++) {
                float now = t.rows[f][v + c];
                if ((now != first[f][c]) != (c < lengths[f]))
                    fail_msg("%s, %s: field %zu, float %zu is %g", models[k % 3],
                             rule_info(rules[k / 3])->name, f, c, (double)now);
            }
        close_world(&t);
    }
}

// For adagrad-row, a block's state is the mean square of its gradients, over only those
// floats that the field uses.
static void test_unused_weigh_nothing(void **state)
{
    (void)state;
    static struct metrics_stream stream;
    struct world t;
    float err, dense[MAX_DENSE] = {0};
    open_world(&t, "mlp", RULE_ADAGRAD_ROW);
    const struct accessor_group *v = &t.m.accessor.groups[1];
    struct model_training training = {
        .loss = LOSS_LOGISTIC, .stream = &stream, .dense_gradient = dense};
    struct rule_params rule = v->rule;
    rule.l1 = rule.l2 = rule.prior = 0;
    t.m.accessor.groups[1].rule = rule;
    assert_int_equal(model_gradients(&t.w, &t.b, &training, &err, t.w.gradients), 0);
    float gradients[FIELDS][LONGEST];
    memcpy(gradients, t.w.gradients[1], sizeof(gradients));
    step(&t, 1);
    for (size_t f = 0; f < FIELDS; f++)
        for (size_t block = 0; block < LONGEST / DIVISOR; block++) {
            double mean = 0, got = (double)t.rows[f][v->state + block];
            for (size_t c = block * DIVISOR; c < (block + 1) * DIVISOR; c++) {
                assert_true((gradients[f][c] != 0) == (c < lengths[f]));
                mean += (double)gradients[f][c] * (double)gradients[f][c] / DIVISOR;
            }
            assert_true(fabs(got - (double)rule.n0 - mean) < 1e-6);
        }
    close_world(&t);
}

static void refused(const struct model_options *o, const char *why)
{
    struct model m;
    struct err e;
    assert_int_equal(model_init(&m, o, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, why));
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"lr", "fm", "ffm", "deepfm"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct model_options o = options_of(names[i], RULE_ADAGRAD);
        refused(&o, "so they need one length");
    }
    struct model_options good = options_of("dcn", RULE_ADAGRAD), o;
    o = good, o.dims[1].field = FIELDS;
    refused(&o, "field 3 is not below 3");
    o = good, o.dims[1].field = 0;
    refused(&o, "gives field 0 two lengths");
    o = good, o.dims[1].dim = 0;
    refused(&o, "must be between 1 and");
    o = good, o.dims[1].dim = MODEL_MAX_DIM + 1;
    refused(&o, "must be between 1 and");
}

// Two models whose vectors have different lengths cannot use each other's rows or layers.
static void test_same(void **state)
{
    (void)state;
    struct model a, b;
    struct model_options o = options_of("mlp", RULE_ADAGRAD);
    assert_int_equal(model_init(&a, &o, NULL), 0);
    o.dims[0].field = 1;
    assert_int_equal(model_init(&b, &o, NULL), 0);
    assert_int_equal(a.accessor.width, b.accessor.width);
    assert_true(model_same_rows(&a, &a) && model_same_dense(&a, &a));
    assert_false(model_same_rows(&a, &b) || model_same_dense(&a, &b));
}

static int open_and_close(const struct model *m)
{
    struct model_work w;
    int rc = model_work_open(&w, m, NULL);
    if (rc == 0)
        model_work_close(&w);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct model m;
    struct model_options o = options_of("mlp", RULE_ADAGRAD);
    assert_int_equal(model_init(&m, &o, NULL), 0);
    FAIL_EACH_ALLOCATION(open_and_close(&m), );
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape),
        cmocka_unit_test(test_unused_stay_zero),
        cmocka_unit_test(test_unused_weigh_nothing),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
