// AUC against counting all pairs; streaming metrics against exact ones.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/metrics.h"

#include <math.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"
#include "model/loss.h"

static double naive_auc(const struct scored *s, size_t n)
{
    double pairs = 0, won = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            if (!(s[i].weight > 0 && s[j].weight < 0))
                continue;
            double w = -(double)s[i].weight * s[j].weight;
            pairs += w;
            won += s[i].score > s[j].score ? w : s[i].score == s[j].score ? w / 2 : 0;
        }
    }
    return won / pairs;
}

// Each positive against all that score as high or higher.
static double naive_pr_auc(const struct scored *s, size_t n)
{
    double sum = 0, positives = 0;
    for (size_t i = 0; i < n; i++) {
        double right = 0, all = 0;
        for (size_t j = 0; j < n && s[i].weight > 0; j++) {
            if (s[j].score < s[i].score)
                continue;
            all += fabs((double)s[j].weight);
            right += s[j].weight > 0 ? s[j].weight : 0;
        }
        if (s[i].weight > 0) {
            positives += s[i].weight;
            sum += s[i].weight * right / all;
        }
    }
    return sum / positives;
}

static void test_auc(void **state)
{
    (void)state;
    struct scored s[300], scratch[300];
    for (uint64_t seed = 0; seed < 200; seed++) {
        size_t n = 2 + random_below(seed, 0, 0, 298);
        bool coarse = seed % 3 == 0, weighted = seed % 2 == 0; // coarse: many ties
        for (size_t i = 0; i < n; i++) {
            float x = 20 * random_f32(seed, 1, i) - 10;
            s[i].score = coarse ? (float)(int)(x / 4) : x;
            s[i].weight = weighted ? random_f32(seed, 2, i) + 0.1f : 1;
            if (i == 0 || (i > 1 && random_below(seed, 3, i, 2) == 0))
                s[i].weight = -s[i].weight;
        }
        double want = naive_auc(s, n), got = metrics_auc(s, scratch, n);
        if (!(fabs(want - got) < 1e-12))
            fail_msg("seed %llu, %zu examples: %.15f, not %.15f",
                     (unsigned long long)seed, n, got, want);
        want = naive_pr_auc(s, n);
        got = metrics_pr_auc(s, n);
        if (!(fabs(want - got) < 1e-12))
            fail_msg("seed %llu, %zu examples: pr_auc %.15f, not %.15f",
                     (unsigned long long)seed, n, got, want);
        for (size_t i = 1; i < n; i++)
            assert_true(s[i - 1].score <= s[i].score);
    }
}

static void test_auc_edges(void **state)
{
    (void)state;
    struct scored scratch[4], one[2] = {{1, 1}, {2, 1}};
    assert_true(isnan(metrics_auc(one, scratch, 2)));
    assert_true(isnan(metrics_auc(one, scratch, 0)));
    assert_true(isnan(metrics_pr_auc(one, 2)) && isnan(metrics_pr_auc(one, 0)));
    struct scored zeros[2] = {{-0.0f, 1}, {0.0f, -1}}; // equal scores: a tie
    assert_true(metrics_auc(zeros, scratch, 2) == 0.5);
    assert_true(metrics_pr_auc(zeros, 2) == 0.5);
    struct scored split[4] = {{-2, -1}, {-1, -1}, {1, 1}, {2, 1}};
    assert_true(metrics_auc(split, scratch, 4) == 1);
    assert_true(metrics_pr_auc(split, 4) == 1);
    // scikit-learn's example of average_precision_score.
    struct scored known[4] = {{0.1f, -1}, {0.4f, -1}, {0.35f, 1}, {0.8f, 1}};
    assert_true(metrics_auc(known, scratch, 4) == 0.75);
    assert_true(fabs(metrics_pr_auc(known, 4) - 5.0 / 6) < 1e-15);
}

// Who predicts the base rate for all has a normalized entropy of 1.
static void test_ne(void **state)
{
    (void)state;
    double base = metrics_base(LOSS_LOGISTIC, 8, 2, 0);
    assert_true(fabs(base - (0.25 * log(4) + 0.75 * log(4.0 / 3))) < 1e-15);
    assert_true(metrics_ne(base, base) == 1 && metrics_ne(base / 2, base) == 0.5);
    assert_true(isnan(metrics_ne(0.1, metrics_base(LOSS_LOGISTIC, 8, 8, 0))));
    assert_true(isnan(metrics_ne(0.1, metrics_base(LOSS_LOGISTIC, 0, 0, 0))));
}

static void test_streaming(void **state)
{
    (void)state;
    enum { N = 20000 };
    static struct metrics_stream part[2], all;
    struct scored *s = mem_array(N, sizeof(*s)), *scratch = mem_array(N, sizeof(*s));
    metrics_stream_clear(&part[0]);
    metrics_stream_clear(&part[1]);
    metrics_stream_clear(&all);
    double loss = 0, predicted = 0, observed = 0;
    for (uint64_t i = 0; i < N; i++) {
        float score = 6 * random_f32(1, 1, i) - 4;
        double p = loss_prediction(LOSS_LOGISTIC, score);
        float label = random_f64(1, 2, i) < p ? 1 : 0;
        float weight = i % 4 == 0 ? 2 : 1;
        s[i] = (struct scored){score, label > 0 ? weight : -weight};
        metrics_stream_add(&part[i % 2], LOSS_LOGISTIC, score, p, label, weight);
        loss += weight * loss_value(LOSS_LOGISTIC, p, label);
        predicted += weight * p;
        observed += weight * label;
    }
    metrics_stream_merge(&all, &part[0]);
    metrics_stream_merge(&all, &part[1]);
    struct metrics m = metrics_stream_result(&all, LOSS_LOGISTIC);
    assert_int_equal(m.examples, N);
    assert_true(fabs(m.auc - metrics_auc(s, scratch, N)) < 1e-4);
    assert_true(fabs(m.logloss - loss / (N * 1.25)) < 1e-9);
    assert_true(fabs(m.copc - predicted / observed) < 1e-9);
    mem_free(s);
    mem_free(scratch);
}

static void test_losses(void **state)
{
    (void)state;
    assert_true(loss_prediction(LOSS_SQUARED, 3.5f) == 3.5);
    assert_true(loss_value(LOSS_SQUARED, 3, 1) == 2);
    assert_true(fabs(loss_value(LOSS_LOGISTIC, 0.25, 1) - log(4)) < 1e-12);
    assert_true(isfinite(loss_value(LOSS_LOGISTIC, 0, 1)));
    assert_true(loss_gradient(LOSS_LOGISTIC, 0.75, 1) == -0.25f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auc),    cmocka_unit_test(test_auc_edges),
        cmocka_unit_test(test_ne),     cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
