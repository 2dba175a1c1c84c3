// Compares metrics with counting all pairs of examples, and with sums in doubles.
// tests/e2e/library_test.c tests sums over several workers.
//
// SPDX-License-Identifier: Apache-2.0
#include "tug/metric.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "doors/tables/auc.h"
#include "kit/test.h"
#include "tug/table.h"

enum { N = 2000, BATCH = 100 };

static float p[N], label[N];

static void check(int rc)
{
    if (rc != 0)
        fail_msg("%s", tug_last_error());
}

static void fails(int rc, const char *says)
{
    assert_int_equal(rc, TUG_EUSAGE);
    if (strstr(tug_last_error(), says) == NULL)
        fail_msg("'%s' is not in: %s", says, tug_last_error());
}

static int begin(void **state)
{
    (void)state;
    for (size_t i = 0; i < N; i++) {
        p[i] = random_f32(1, 1, i);
        label[i] = random_f32(1, 2, i) < p[i] ? 1 : 0;
    }
    return 0;
}

static struct tug_metric *open_metric(uint32_t window)
{
    struct tug_metric *m;
    check(tug_metric_open(&m, "auc_0", &(struct tug_metric_options){.window = window}));
    return m;
}

static void add(struct tug_metric *m, size_t first, size_t n)
{
    check(tug_metric_add(m, p + first, label + first, n));
}

static struct tug_metric_values read_all(const struct tug_metric *m)
{
    struct tug_metric_values v;
    tug_metric_read(m, &v);
    return v;
}

// Returns the AUC of the examples [first, first + n), by counting all pairs.
static double auc_of_pairs(size_t first, size_t n)
{
    double pairs = 0, positives = 0;
    for (size_t i = first; i < first + n; i++) {
        positives += (double)label[i];
        for (size_t j = first; j < first + n; j++)
            if (label[i] > label[j]) {
                uint32_t a = auc_bucket(p[i], AUC_BUCKETS),
                         b = auc_bucket(p[j], AUC_BUCKETS);
                pairs += a > b ? 1 : a == b ? 0.5 : 0;
            }
    }
    return pairs / (positives * ((double)n - positives));
}

static void test_values(void **state)
{
    (void)state;
    struct tug_metric *m = open_metric(0);
    double off = 0, squares = 0, sum = 0, positives = 0;
    for (size_t i = 0; i < N; i++) {
        double d = (double)p[i] - (double)label[i];
        off += fabs(d);
        squares += d * d;
        sum += (double)p[i];
        positives += (double)label[i];
    }
    assert_true(isnan(read_all(m).auc) && isnan(read_all(m).mae));
    for (size_t i = 0; i < N; i += BATCH)
        add(m, i, BATCH);
    struct tug_metric_values v = read_all(m);
    assert_int_equal(v.examples, N);
    assert_true((double)v.positives == positives);
    assert_true(v.auc == auc_of_pairs(0, N));
    assert_true(v.batch_auc == auc_of_pairs(N - BATCH, BATCH));
    assert_true(fabs(v.mae - off / N) < 1e-9);
    assert_true(fabs(v.rmse - sqrt(squares / N)) < 1e-9);
    assert_true(fabs(v.predicted - sum / N) < 1e-9);
    assert_true(v.observed == positives / N);
    assert_true(fabs(v.copc - sum / positives) < 1e-9);
    tug_metric_close(m);
}

// The values are bit-identical however the examples are divided into batches.
static void test_division(void **state)
{
    (void)state;
    struct tug_metric *one = open_metric(0), *many = open_metric(0);
    add(one, 0, N);
    for (size_t end = N, n; end > 0; end -= n) {
        n = end < 77 ? end : 77;
        add(many, end - n, n);
    }
    struct tug_metric_values a = read_all(one), b = read_all(many);
    // batch_auc is not compared, because it is of the last batch, and the last batches
    // differ.
    a.batch_auc = b.batch_auc = 0;
    assert_memory_equal(&a, &b, sizeof(a));
    tug_metric_close(one);
    tug_metric_close(many);
}

static void test_window(void **state)
{
    (void)state;
    enum { WINDOW = 3 };
    struct tug_metric *m = open_metric(WINDOW);
    for (size_t b = 0; b < N / BATCH; b++) {
        size_t first = b < WINDOW - 1 ? 0 : b - (WINDOW - 1);
        add(m, b * BATCH, BATCH);
        assert_true(read_all(m).batch_auc ==
                    auc_of_pairs(first * BATCH, (b + 1 - first) * BATCH));
    }
    tug_metric_close(m);
}

static double total(const struct tug_metric *m, const char *state)
{
    double values[AUC_BUCKETS], sum = 0;
    size_t n;
    check(tug_metric_state(m, state, values, AUC_BUCKETS, &n));
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

static void test_states(void **state)
{
    static const char *const states[] = {
        "auc_0.stat_neg",       "auc_0.stat_pos", "auc_0.batch_stat_neg",
        "auc_0.batch_stat_pos", "auc_0.abserr",   "auc_0.sqrerr",
        "auc_0.prob",           "auc_0.pos_num",  "auc_0.ins_num"};
    (void)state;
    struct tug_metric *m = open_metric(2);
    for (size_t i = 0; i < N; i += BATCH)
        add(m, i, BATCH);
    assert_true(total(m, "auc_0.stat_neg") + total(m, "auc_0.stat_pos") == N);
    assert_true(total(m, "auc_0.batch_stat_neg") + total(m, "auc_0.batch_stat_pos") ==
                2 * BATCH);
    assert_true(total(m, "auc_0.ins_num") == N);
    assert_true(fabs(total(m, "auc_0.abserr") / N - read_all(m).mae) < 1e-15);
    for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
        assert_true(total(m, states[i]) > 0);
        check(tug_metric_reset(m, states[i]));
        assert_true(total(m, states[i]) == 0);
        for (size_t j = i + 1; j < sizeof(states) / sizeof(*states); j++)
            assert_true(total(m, states[j]) > 0); // later states are not zeroed yet
    }
    // This batch is all data since the last reset, and also the newest batch.
    add(m, 0, BATCH);
    assert_true(read_all(m).batch_auc == auc_of_pairs(0, BATCH));
    assert_true(read_all(m).auc == auc_of_pairs(0, BATCH));
    check(tug_metric_reset(m, NULL));
    assert_true(read_all(m).examples == 0 && isnan(read_all(m).batch_auc));
    tug_metric_close(m);
}

static void test_refused(void **state)
{
    (void)state;
    struct tug_metric *m = open_metric(0);
    double one;
    add(m, 0, BATCH);
    struct tug_metric_values before = read_all(m);
    const float bad[] = {0.5f, 1.5f}, none[] = {1, (float)NAN};
    fails(tug_metric_add(m, bad, label, 2), "prediction 1 is 1.5");
    fails(tug_metric_add(m, p, none, 2), "label 1 is not a number");
    struct tug_metric_values after = read_all(m);
    assert_memory_equal(&before, &after, sizeof(before));
    fails(tug_metric_reset(m, "auc.stat_pos"), "its states are auc_0.stat_neg");
    fails(tug_metric_reset(m, "auc_0.stat"), "is not a state of metric 'auc_0'");
    size_t n = 0;
    fails(tug_metric_state(m, "auc_0.stat_pos", &one, 1, &n), "has 4096 numbers");
    assert_int_equal(4096, n);
    tug_metric_close(m);
    struct tug_metric_options o = {.window = 1 << 24};
    fails(tug_metric_open(&m, "", NULL), "needs a name");
    fails(tug_metric_open(&m, "x", &o), "give a shorter window");
    o = (struct tug_metric_options){.buckets = 1};
    fails(tug_metric_open(&m, "x", &o), "there can be 2 to");
}

static void test_memory(void **state)
{
    (void)state;
    struct tug_metric *m;
    int rc = TUG_ENOMEM;
    for (long n = 0; rc != 0; n++) {
        mem_fault_after(n);
        rc = tug_metric_open(&m, "x", NULL);
        mem_fault_after(-1);
        assert_true(rc == 0 || rc == TUG_ENOMEM);
    }
    tug_metric_close(m);
}

// On a cluster with one worker, tug_metric_reduce returns that worker's own values,
// whichever table is given.
static void test_reduce(void **state)
{
    (void)state;
    struct tug_client *c;
    struct tug_client_options o = {.local_loops = 2, .wait_seconds = 60};
    struct tug_metric_values v, own;
    uint64_t values[] = {0, 1, (UINT64_C(1) << 60) - 1, 123456789012345}, want[4];
    check(tug_client_open(&c, &o));
    memcpy(want, values, sizeof(want));
    for (int i = 0; i < 2; i++) {
        check(tug_all_reduce(c, 5, values, 4));
        assert_memory_equal(values, want, sizeof(want));
    }
    struct tug_metric *m = open_metric(0);
    add(m, 0, N);
    check(tug_metric_reduce(m, c, 5, &v));
    own = read_all(m);
    assert_memory_equal(&v, &own, sizeof(v));
    values[1] = UINT64_C(1) << 60;
    fails(tug_all_reduce(c, 5, values, 4), "value 1 is 1152921504606846976");
    tug_metric_close(m);
    check(tug_client_close(c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_division),
        cmocka_unit_test(test_window),  cmocka_unit_test(test_states),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_reduce),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
