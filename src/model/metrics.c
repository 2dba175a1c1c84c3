// AUC, logloss and calibration.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/metrics.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/maths.h"
#include "model/loss.h"

#define FIELD(x) #x, offsetof(struct metrics, x)
const struct metrics_field metrics_fields[METRICS_FIELDS] = {
    {FIELD(auc)},  {FIELD(pr_auc)}, {FIELD(logloss)}, {FIELD(ne)},
    {FIELD(copc)}, {FIELD(mae)},    {FIELD(rmse)},    {FIELD(gauc)},
};

enum { BITS = 11, DIGITS = 1 << BITS };

static void sort_by_digit(const struct scored *from, struct scored *to, size_t n,
                          bool weights, int shift)
{
    size_t start[DIGITS + 1] = {0};
    for (size_t i = 0; i < n; i++) {
        uint32_t key = score_order(weights ? from[i].weight : from[i].score);
        start[((key >> shift) & (DIGITS - 1)) + 1]++;
    }
    for (int d = 0; d < DIGITS; d++)
        start[d + 1] += start[d];
    for (size_t i = 0; i < n; i++) {
        uint32_t key = score_order(weights ? from[i].weight : from[i].score);
        to[start[(key >> shift) & (DIGITS - 1)]++] = from[i];
    }
}

static bool has_weights(const struct scored *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fabsf(s[i].weight) != 1)
            return true;
    return false;
}

// Sorts by score, 11 bits at a time, from the least significant ones; the result is in
// `s`. Elements with equal scores are sorted by weight, unless all weights are 1, so that
// sums of weights have the same bits whatever the order of the examples.
static void sort_by_score(struct scored *s, struct scored *scratch, size_t n)
{
    struct scored *from = s, *to = scratch;
    for (int weights = has_weights(s, n); weights >= 0; weights--)
        for (int shift = 0; shift < 32; shift += BITS) {
            sort_by_digit(from, to, n, weights != 0, shift);
            struct scored *swap = from;
            from = to;
            to = swap;
        }
    if (from != s)
        memcpy(s, from, n * sizeof(*s));
}

double metrics_auc(struct scored *s, struct scored *scratch, size_t n)
{
    sort_by_score(s, scratch, n);
    struct ranking r = RANKING_INIT;
    for (size_t i = 0; i < n; i++)
        ranking_add(&r, s[i]);
    return ranking_auc(&r);
}

double metrics_pr_auc(const struct scored *s, size_t n)
{
    double positives = 0, negatives = 0, area = 0;
    while (n > 0) {
        double tied_positive = 0;
        uint32_t score = score_order(s[n - 1].score);
        for (; n > 0 && score_order(s[n - 1].score) == score; n--) {
            if (s[n - 1].weight > 0)
                tied_positive += s[n - 1].weight;
            else
                negatives -= s[n - 1].weight;
        }
        positives += tied_positive;
        if (tied_positive > 0)
            area += tied_positive * positives / (positives + negatives);
    }
    return positives > 0 && negatives > 0 ? area / positives : (double)NAN;
}

double metrics_ne(double logloss, double base)
{
    return base > 0 ? logloss / base : (double)NAN;
}

void metrics_stream_clear(struct metrics_stream *m)
{
    memset(m, 0, sizeof(*m));
    m->likelihood = 1;
}

void metrics_streams_clear(struct metrics_stream *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        metrics_stream_clear(&m[i]);
}

struct metrics_stream *metrics_streams(uint32_t n)
{
    struct metrics_stream *m = mem_array(n, sizeof(*m));
    if (m != NULL)
        metrics_streams_clear(m, n);
    return m;
}

static size_t bucket_of(float score)
{
    float at = (score + 8) * (METRICS_BUCKETS / 16.0f);
    if (!(at > 0))
        return 0;
    return at < METRICS_BUCKETS - 1 ? (size_t)at : METRICS_BUCKETS - 1;
}

// Adds the loss of an example. The logarithm of each probability would take as long as a short
// example. So probabilities are multiplied, and the logarithm is taken when their product
// gets small.
static void add_loss(struct metrics_stream *m, enum loss loss, double prediction,
                     float label, float weight)
{
    if (loss == LOSS_SQUARED)
        m->squares += weight * (double)label * label;
    if (loss == LOSS_SQUARED || weight != 1) {
        m->loss += weight * loss_value(loss, prediction, label);
        return;
    }
    double p = label > 0 ? prediction : 1 - prediction;
    m->likelihood *= p > 1e-15 ? p : 1e-15;
    if (m->likelihood < 1e-280) {
        m->loss -= maths_log(m->likelihood);
        m->likelihood = 1;
    }
}

void metrics_stream_add(struct metrics_stream *m, enum loss loss, float score,
                        double prediction, float label, float weight)
{
    m->examples++;
    m->weight += weight;
    m->predicted += weight * prediction;
    m->observed += weight * label;
    add_loss(m, loss, prediction, label, weight);
    (label > 0 ? m->positive : m->negative)[bucket_of(score)] += weight;
}

void metrics_stream_merge(struct metrics_stream *into, const struct metrics_stream *from)
{
    into->examples += from->examples;
    into->weight += from->weight;
    into->loss += from->loss - maths_log(from->likelihood);
    into->predicted += from->predicted;
    into->observed += from->observed;
    into->squares += from->squares;
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        into->positive[i] += from->positive[i];
        into->negative[i] += from->negative[i];
    }
}

void metrics_stream_since(struct metrics_stream *ret, const struct metrics_stream *now,
                          const struct metrics_stream *before)
{
    *ret = (struct metrics_stream){
        .examples = now->examples - before->examples,
        .weight = now->weight - before->weight,
        .loss = now->loss - maths_log(now->likelihood) -
                (before->loss - maths_log(before->likelihood)),
        .likelihood = 1,
        .predicted = now->predicted - before->predicted,
        .observed = now->observed - before->observed,
        .squares = now->squares - before->squares,
    };
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        ret->positive[i] = now->positive[i] - before->positive[i];
        ret->negative[i] = now->negative[i] - before->negative[i];
    }
}

double metrics_base(enum loss loss, double weight, double observed, double squares)
{
    if (!(weight > 0))
        return (double)NAN;
    double mean = observed / weight;
    if (loss == LOSS_SQUARED)
        return fmax(0, squares / weight - mean * mean) / 2;
    return mean > 0 && mean < 1
               ? -(mean * maths_log(mean) + (1 - mean) * maths_log(1 - mean))
               : 0;
}

static double stream_auc(const struct metrics_stream *m)
{
    double below = 0, pairs = 0, positives = 0;
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        pairs += m->positive[i] * (below + m->negative[i] / 2);
        positives += m->positive[i];
        below += m->negative[i];
    }
    return positives > 0 && below > 0 ? pairs / (positives * below) : (double)NAN;
}

struct metrics metrics_stream_result(const struct metrics_stream *m, enum loss loss)
{
    double total = m->loss - maths_log(m->likelihood);
    return (struct metrics){
        .examples = m->examples,
        .weightless = m->examples > 0 && !(m->weight > 0),
        .auc = loss == LOSS_LOGISTIC ? stream_auc(m) : (double)NAN,
        .pr_auc = (double)NAN,
        .logloss = m->weight > 0 ? total / m->weight : (double)NAN,
        .ne = (double)NAN,
        .mae = (double)NAN,
        .rmse = (double)NAN,
        .gauc = (double)NAN,
        .copc = m->observed > 0 ? m->predicted / m->observed : (double)NAN,
        .base = metrics_base(loss, m->weight, m->observed, m->squares),
        .mean = m->weight > 0 ? m->observed / m->weight : (double)NAN,
    };
}
