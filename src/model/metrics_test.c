// Compares AUC with a count over all pairs, and streaming metrics with exact ones.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/metrics.h"
#include "model/metrics_groups.h"

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

// Compares each positive with all examples of the same or a higher score.
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
        // `coarse`: scores are rounded, so that many are equal
        bool coarse = seed % 3 == 0, weighted = seed % 2 == 0;
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

enum { GROUPS = 40 };

// Returns the factor by which group numbers are multiplied: large, so that they have many
// digits, or 1.
static uint64_t factor_of(uint64_t seed)
{
    return seed % 4 == 0 ? UINT64_MAX / GROUPS : 1;
}

static uint64_t group_of(uint64_t seed, uint64_t i)
{
    // A result of 0 means that the example is in no group.
    return random_below(seed, 4, i, 1 + seed % GROUPS) * factor_of(seed);
}

// Computes the result from all pairs of examples in each group, without sorting.
static struct gauc naive_gauc(const struct graded *g, size_t n, uint64_t factor)
{
    struct gauc r = {0};
    double sum = 0, weights = 0;
    static struct scored of[300];
    for (uint64_t group = 0; group < GROUPS; group++) {
        size_t k = 0;
        double weight = 0;
        for (size_t i = 0; i < n; i++)
            if (g[i].group == group * factor) {
                of[k++] = g[i].scored;
                weight += fabs((double)g[i].scored.weight);
            }
        double auc = naive_auc(of, k);
        if (group == GROUP_NONE) {
            r.without = k;
        } else if (isfinite(auc)) {
            r.groups++;
            sum += weight * auc;
            weights += weight;
        } else {
            r.one_class += k > 0;
        }
    }
    r.gauc = sum / weights;
    return r;
}

static void test_gauc(void **state)
{
    (void)state;
    static struct graded g[300], other[300], scratch[300];
    for (uint64_t seed = 0; seed < 300; seed++) {
        size_t n = random_below(seed, 0, 0, 300);
        for (size_t i = 0; i < n; i++) {
            bool coarse = seed % 3 == 0, weighted = seed % 2 == 0;
            float x = 20 * random_f32(seed, 1, i) - 10;
            float weight = weighted ? random_f32(seed, 2, i) + 0.1f : 1;
            g[i].group = group_of(seed, i);
            g[i].scored.score = coarse ? (float)(int)(x / 4) : x;
            g[i].scored.weight = random_below(seed, 3, i, 2) == 0 ? weight : -weight;
            other[n - 1 - i] = g[i];
        }
        struct gauc want = naive_gauc(g, n, factor_of(seed)), got, again;
        graded_sort(g, scratch, n);
        graded_sort(other, scratch, n);
        for (size_t i = 1; i < n; i++)
            assert_true(g[i - 1].group < g[i].group ||
                        (g[i - 1].group == g[i].group &&
                         g[i - 1].scored.score <= g[i].scored.score));
        got = graded_gauc(g, n);
        again = graded_gauc(other, n);
        // The results do not depend on the order of the elements, except for rounding.
        assert_true(fabs(got.gauc - again.gauc) < 1e-12 || isnan(got.gauc));
        if (!(fabs(want.gauc - got.gauc) < 1e-12 ||
              (isnan(want.gauc) && isnan(got.gauc))))
            fail_msg("seed %llu: %.15f, not %.15f", (unsigned long long)seed, got.gauc,
                     want.gauc);
        assert_int_equal(got.groups, want.groups);
        assert_int_equal(got.one_class, want.one_class);
        assert_int_equal(got.without, want.without);
    }
}

// Groups of two users with opposite scores: the order in each group is perfect, but the
// order of all examples is not.
static void test_gauc_is_not_auc(void **state)
{
    (void)state;
    struct graded g[] = {
        {7, {0.1f, -1}}, {7, {0.2f, 1}}, {9, {0.8f, -1}}, {9, {0.9f, 1}}, {5, {0.5f, 1}}};
    struct graded scratch[5];
    graded_sort(g, scratch, 5);
    struct gauc r = graded_gauc(g, 5);
    assert_true(r.gauc == 1 && r.groups == 2 && r.one_class == 1);
    for (int i = 0; i < 5; i++)
        g[i].group = 1;
    graded_sort(g, scratch, 5);
    struct group_metrics m = group_metrics(g, 5);
    assert_true(m.examples == 5 && m.positives == 3 && m.weight == 5);
    assert_true(fabs(m.auc - 4.0 / 6) < 1e-15);
}

static void test_group_metrics(void **state)
{
    (void)state;
    struct graded g[100];
    double loss = 0, predicted = 0, observed = 0, weights = 0;
    for (uint64_t i = 0; i < 100; i++) {
        float score = 8 * random_f32(1, 1, i) - 4, weight = random_f32(1, 2, i) + 0.5f;
        bool label = random_below(1, 3, i, 3) == 0;
        double p = 1 / (1 + exp(-(double)score));
        g[i] = (struct graded){1, {score, label ? weight : -weight}};
        loss -= weight * log(label ? p : 1 - p);
        predicted += weight * p;
        observed += label ? weight : 0;
        weights += weight;
    }
    struct group_metrics m = group_metrics(g, 100);
    assert_true(fabs(m.logloss - loss / weights) < 1e-9);
    assert_true(fabs(m.copc - predicted / observed) < 1e-9);
    assert_true(fabs(m.weight - weights) < 1e-9);
}

static void test_auc_edges(void **state)
{
    (void)state;
    struct scored scratch[4], one[2] = {{1, 1}, {2, 1}};
    assert_true(isnan(metrics_auc(one, scratch, 2)));
    assert_true(isnan(metrics_auc(one, scratch, 0)));
    assert_true(isnan(metrics_pr_auc(one, 2)) && isnan(metrics_pr_auc(one, 0)));
    // -0 and 0 are equal scores
    struct scored zeros[2] = {{-0.0f, 1}, {0.0f, -1}};
    assert_true(metrics_auc(zeros, scratch, 2) == 0.5);
    assert_true(metrics_pr_auc(zeros, 2) == 0.5);
    struct scored split[4] = {{-2, -1}, {-1, -1}, {1, 1}, {2, 1}};
    assert_true(metrics_auc(split, scratch, 4) == 1);
    assert_true(metrics_pr_auc(split, 4) == 1);
    // The example in scikit-learn's documentation of average_precision_score.
    struct scored known[4] = {{0.1f, -1}, {0.4f, -1}, {0.35f, 1}, {0.8f, 1}};
    assert_true(metrics_auc(known, scratch, 4) == 0.75);
    assert_true(fabs(metrics_pr_auc(known, 4) - 5.0 / 6) < 1e-15);
}

// If the base rate is predicted for all, the normalized entropy is 1.
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
        cmocka_unit_test(test_auc),
        cmocka_unit_test(test_gauc),
        cmocka_unit_test(test_gauc_is_not_auc),
        cmocka_unit_test(test_group_metrics),
        cmocka_unit_test(test_auc_edges),
        cmocka_unit_test(test_ne),
        cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
