// Nets: their gradients are the slopes of their loss, rows of a batch are put together by
// row, and batches that contradict themselves are refused.
//
// SPDX-License-Identifier: Apache-2.0
#include "tug/net.h"

#include <math.h>
#include <string.h>

#include "kit/test.h"
#include "tug/table.h"

enum { EXAMPLES = 5, SLOTS = 3, ROWS = 6, FEATURES = 13, FLOATS_MAX = 1 << 16 };

static const uint32_t starts[EXAMPLES + 1] = {0, 3, 5, 8, 10, FEATURES};
static const uint32_t rows[FEATURES] = {0, 1, 2, 0, 3, 1, 1, 4, 5, 2, 3, 4, 0};
static const uint16_t slots[FEATURES] = {0, 1, 2, 0, 2, 0, 0, 2, 1, 2, 0, 1, 2};
static const float values[FEATURES] = {1, 0.5f, 2, 1, 1, 1, -1, 1, 3, 1, 1, 0.25f, 1};
static const float labels[EXAMPLES] = {1, 0, 0, 1, 1};

struct world {
    struct tug_net *net;
    uint32_t pull, push, block;
    float pulled[ROWS * 64], dense[FLOATS_MAX];
    struct tug_net_batch batch;
};

static void open_world(struct world *w, const char *model)
{
    struct tug_net_options o = {.model = model, .slots = SLOTS, .dim = 4, .seed = 7};
    bool layers = strcmp(model, "lr") != 0 && strcmp(model, "fm") != 0;
    o.hidden = layers ? "8,4" : NULL;
    assert_int_equal(tug_net_open(&w->net, &o), 0);
    struct tug_net_widths widths;
    tug_net_widths(w->net, &widths);
    w->pull = widths.pull;
    w->push = widths.push;
    w->block = widths.block;
    assert_true(tug_net_dense(w->net) <= FLOATS_MAX);
    tug_net_first(w->net, w->dense);
    w->dense[0] = 0.1f;
    for (uint32_t i = 0; i < ROWS * w->pull; i++)
        w->pulled[i] = 0.3f * (float)sin(1.7 * i + 1);
    w->batch = (struct tug_net_batch){EXAMPLES, ROWS,   starts,    rows,    slots,
                                      values,   labels, w->pulled, w->dense};
}

// The sum of the examples' losses, which gradients are of.
static double loss(struct world *w)
{
    float p[EXAMPLES];
    double sum = 0;
    assert_int_equal(tug_net_predict(w->net, &w->batch, p), 0);
    for (size_t i = 0; i < EXAMPLES; i++)
        sum -= log(labels[i] > 0 ? (double)p[i] : 1 - (double)p[i]);
    return sum;
}

static double slope(struct world *w, float *weight)
{
    const float h = 1e-3f, kept = *weight;
    *weight = kept + h;
    double up = loss(w);
    *weight = kept - h;
    double down = loss(w);
    *weight = kept;
    return (up - down) / (2 * (double)h);
}

static void check_gradients(const char *model)
{
    static struct world w;
    static float of_rows[ROWS * 64], of_dense[FLOATS_MAX];
    float p[EXAMPLES], q[EXAMPLES];
    double mean;
    open_world(&w, model);
    assert_int_equal(tug_net_gradients(w.net, &w.batch, of_rows, of_dense, p, &mean), 0);
    assert_int_equal(tug_net_predict(w.net, &w.batch, q), 0);
    for (size_t i = 0; i < EXAMPLES; i++)
        assert_true(fabsf(p[i] - q[i]) < 1e-6f);
    assert_true(fabs(mean - loss(&w) / EXAMPLES) < 1e-5);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t c = 0; c < w.pull; c++) {
            double want = slope(&w, &w.pulled[r * w.pull + c]);
            double is = (double)of_rows[r * w.push + c];
            if (!(fabs(is - want) < 4e-3))
                fail_msg("%s: row %u, weight %u: %g, and the slope is %g", model, r, c,
                         is, want);
        }
    for (size_t i = 0; i < 40 && i < tug_net_dense(w.net); i++)
        assert_true(fabs((double)of_dense[i] - slope(&w, &w.dense[i])) < 2e-3);
    // Row 0 is there three times with value 1, row 1 three times with 0.5, 1 and -1.
    const float *counts = of_rows + w.push - 2;
    assert_true(counts[0] == 3 && counts[1] == 3);
    assert_true(counts[w.push] == 3 && counts[w.push + 1] == 2.25f);
    tug_net_close(w.net);
}

static void test_gradients(void **state)
{
    (void)state;
    const char *models[] = {"lr", "fm", "mlp", "wide_deep", "deepfm", "dcn"};
    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++)
        check_gradients(models[i]);
}

static void assert_refused(struct world *w, const char *why)
{
    static float of_rows[ROWS * 64], of_dense[FLOATS_MAX];
    float p[EXAMPLES];
    assert_int_equal(tug_net_gradients(w->net, &w->batch, of_rows, of_dense, p, NULL),
                     TUG_EUSAGE);
    assert_non_null(strstr(tug_last_error(), why));
}

static void test_bad_batches(void **state)
{
    (void)state;
    static struct world w;
    uint32_t bad_start[EXAMPLES + 1], bad_rows[FEATURES];
    uint16_t bad_slots[FEATURES];
    float bad_labels[EXAMPLES];
    open_world(&w, "deepfm");
    struct tug_net_batch good = w.batch;

    memcpy(bad_start, starts, sizeof(starts));
    bad_start[2] = 1;
    w.batch.start = bad_start;
    assert_refused(&w, "start[2] is below start[1]");
    bad_start[0] = 1;
    assert_refused(&w, "must be 0");

    w.batch = good;
    memcpy(bad_rows, rows, sizeof(rows));
    bad_rows[12] = ROWS;
    w.batch.row = bad_rows;
    assert_refused(&w, "feature 12 is of row 6 and slot 2");

    w.batch = good;
    memcpy(bad_slots, slots, sizeof(slots));
    bad_slots[4] = SLOTS;
    w.batch.slot = bad_slots;
    assert_refused(&w, "feature 4 is of row 3 and slot 3");

    w.batch = good;
    memcpy(bad_labels, labels, sizeof(labels));
    bad_labels[1] = NAN;
    w.batch.label = bad_labels;
    assert_refused(&w, "the label of example 1 is nan");
    w.batch.label = NULL;
    assert_refused(&w, "labels");
    tug_net_close(w.net);
}

static void test_bad_options(void **state)
{
    (void)state;
    const struct {
        struct tug_net_options o;
        const char *why;
    } cases[] = {
        {{.slots = 1}, "needs a model"},
        {{.model = "lr"}, "slots"},
        {{.model = "lrr", .slots = 1}, "lrr"},
        {{.model = "lr", .slots = 1, .hidden = "4"}, "no layers"},
        {{.model = "fm", .slots = 1, .dense_rule = "adam"}, "no layers"},
        {{.model = "mlp", .slots = 1, .hidden = "4,x"}, "x"},
        {{.model = "mlp", .slots = 1, .rule = "adamm"}, "adamm"},
        {{.model = "mlp", .slots = 1, .dim = 100000}, "dim"},
        {{.model = "mlp", .slots = 1, .init = NAN}, "init"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct tug_net *n = NULL;
        assert_int_equal(tug_net_open(&n, &cases[i].o), TUG_EUSAGE);
        assert_non_null(strstr(tug_last_error(), cases[i].why));
        assert_null(n);
    }
}

// On a cluster: its tables are made from its settings, and training lowers the loss.
static void train_on_tables(const char *model)
{
    static struct world w;
    static float of_rows[ROWS * 64], of_dense[FLOATS_MAX];
    char features[TUG_NET_SETTINGS_MAX], dense[TUG_NET_SETTINGS_MAX];
    struct tug_client *c;
    struct tug_client_options co = {.local_loops = 2};
    uint64_t keys[ROWS] = {3, 1, 4, 15, 92, 65}, blocks[FLOATS_MAX / 64];
    float p[EXAMPLES];
    double first = 0, last = 0;
    uint64_t ts;
    open_world(&w, model);
    size_t n = tug_net_dense(w.net) / w.block;
    for (size_t i = 0; i < n; i++)
        blocks[i] = i;
    tug_net_settings(w.net, features, dense);
    assert_int_equal(tug_client_open(&c, &co), 0);
    assert_int_equal(tug_table_make(c, 0, features), 0);
    assert_int_equal(tug_table_make(c, 1, dense), 0);
    tug_net_first(w.net, w.dense);
    assert_int_equal(tug_assign(c, 1, blocks, n, w.dense, NULL, NULL, &ts), 0);
    assert_int_equal(tug_wait(c, ts, 10), 0);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(tug_pull(c, 0, keys, ROWS, w.pulled, NULL, NULL, &ts), 0);
        assert_int_equal(tug_wait(c, ts, 10), 0);
        assert_int_equal(tug_pull(c, 1, blocks, n, w.dense, NULL, NULL, &ts), 0);
        assert_int_equal(tug_wait(c, ts, 10), 0);
        assert_int_equal(tug_net_gradients(w.net, &w.batch, of_rows, of_dense, p, &last),
                         0);
        first = i == 0 ? last : first;
        assert_int_equal(tug_push(c, 0, keys, ROWS, of_rows, NULL, NULL, &ts), 0);
        assert_int_equal(tug_wait(c, ts, 10), 0);
        assert_int_equal(tug_push(c, 1, blocks, n, of_dense, NULL, NULL, &ts), 0);
        assert_int_equal(tug_wait(c, ts, 10), 0);
    }
    assert_true(first > 0.6 && last < 0.8 * first);
    assert_int_equal(tug_client_close(c), 0);
    tug_net_close(w.net);
}

static void test_on_tables(void **state)
{
    (void)state;
    train_on_tables("lr");
    train_on_tables("wide_deep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_bad_batches),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_on_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
