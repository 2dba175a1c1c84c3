// Metrics: exact ones over predictions that are kept, streaming ones for progress lines.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_METRICS_H
#define TUG_MODEL_METRICS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/loss.h"

// Each is NaN where there is none. Examples count by their weights; an example of weight 0 is, in
// an evaluation, as if it were not there.
struct metrics {
    uint64_t examples;
    double auc;     // none of one class only, and of the squared loss
    double pr_auc;  // average precision; likewise
    double logloss; // mean loss (squared: mean of (f - y)^2 / 2)
    double ne;      // normalized entropy: logloss / base (He et al. 2014)
    double copc;    // sum predicted / sum observed; none when nothing was observed
    double mae;     // mean |prediction - label|
    double gauc;    // AUC by group: model/metrics_groups.h
    double rmse;    // root of the mean (prediction - label)^2
    double base;    // the mean loss of predicting the mean label for all
    double mean;    // of the labels
    uint64_t features, known; // of an evaluation: in all, and those that the model knows
    // For gauc: the groups that count, those with a single class, which do not, and the
    // examples without a group.
    uint64_t groups, one_class, without_group;
    uint64_t without_weight; // of an evaluation: examples of weight 0, beside `examples`
    bool weightless;         // there are examples, and all weights are 0
};

// The metrics in results and saves, by their names there.
struct metrics_field {
    const char *name;
    size_t offset;
};
enum { METRICS_FIELDS = 8 };
extern const struct metrics_field metrics_fields[METRICS_FIELDS];

static inline double *metrics_value(struct metrics *m, size_t field)
{
    return (double *)(void *)((char *)m + metrics_fields[field].offset);
}

// That loss, from sums of weights, of weighted labels, and of their squares (the squared
// loss only).
double metrics_base(enum loss loss, double weight, double observed, double squares);

// Scores, labels and weights of an evaluation, kept to be sorted.
struct scored {
    float score;  // before the sigmoid: finer than the probability near 0 and 1
    float weight; // negative for label 0
};

// Floats as unsigned numbers of the same order; both zeros as one.
static inline uint32_t score_order(float score)
{
    uint32_t bits;
    score += 0.0f;
    memcpy(&bits, &score, sizeof(bits));
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The AUC of scores that come in ascending order.
struct ranking {
    double below;     // weight of negatives so far
    double positives; // and of positives
    double pairs;     // of both that are in the right order; half of those that tie
    double tied_positive, tied_negative; // of the score that came last
    float score;
};
#define RANKING_INIT ((struct ranking){.score = (float)NAN})

static inline void ranking_end_tie(struct ranking *r)
{
    r->pairs += r->tied_positive * (r->below + r->tied_negative / 2);
    r->positives += r->tied_positive;
    r->below += r->tied_negative;
    r->tied_positive = r->tied_negative = 0;
}

static inline void ranking_add(struct ranking *r, struct scored s)
{
    if (s.score != r->score) // of NaN: each alone
        ranking_end_tie(r);
    r->score = s.score;
    if (s.weight > 0)
        r->tied_positive += s.weight;
    else
        r->tied_negative -= s.weight;
}

// NaN when a class is absent.
static inline double ranking_auc(struct ranking *r)
{
    ranking_end_tie(r);
    bool both = r->positives > 0 && r->below > 0;
    return both ? r->pairs / (r->positives * r->below) : (double)NAN;
}

// Area under the ROC curve: the probability that a positive scores above a negative,
// ties counting half (Hanley & McNeil 1982), each pair weighted by the product of its
// weights. Exact up to double rounding. Sorts `s` by score; `scratch` has n elements
// too. NaN when a class is absent.
double metrics_auc(struct scored *s, struct scored *scratch, size_t n);

// Average precision: the mean over positives of the share of positives among what scores
// as high or higher, ties together. For scores that metrics_auc has sorted. NaN when a
// class is absent.
double metrics_pr_auc(const struct scored *s, size_t n);

// logloss / base of a logistic loss. NaN when all labels are the same.
double metrics_ne(double logloss, double base);

// Streaming: counts per bucket of score, so that threads can keep one each and add them
// up. AUC is within a bucket's width of the exact one.
enum { METRICS_BUCKETS = 4096 };

struct metrics_stream {
    uint64_t examples;
    double weight, loss, predicted, observed;
    double squares;    // of labels; of the squared loss only
    double likelihood; // product of probabilities not yet taken into loss
    double positive[METRICS_BUCKETS], negative[METRICS_BUCKETS];
};

void metrics_stream_clear(struct metrics_stream *m);
// A stream for each of n labels, clear, which the caller frees; NULL: no memory.
struct metrics_stream *metrics_streams(uint32_t n);
void metrics_streams_clear(struct metrics_stream *m, uint32_t n);
void metrics_stream_add(struct metrics_stream *m, enum loss loss, float score,
                        double prediction, float label, float weight);
void metrics_stream_merge(struct metrics_stream *into, const struct metrics_stream *from);
// Subtracts the counts of `before`, an earlier moment of the same stream, from `now`.
void metrics_stream_since(struct metrics_stream *ret, const struct metrics_stream *now,
                          const struct metrics_stream *before);
struct metrics metrics_stream_result(const struct metrics_stream *m, enum loss loss);

#endif
