// Metrics: exact ones, over predictions that are kept, and streaming ones for progress
// lines.
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

// A metric that cannot be computed is NaN. Examples are counted by their weights; an
// evaluation ignores examples of weight 0.
struct metrics {
    uint64_t examples;
    double auc;     // NaN if only one class occurs, and for the squared loss
    double pr_auc;  // average precision; NaN in the same cases
    double logloss; // mean loss (for the squared loss the mean of (f - y)^2 / 2)
    double ne;      // normalized entropy: logloss / base (He et al. 2014)
    double copc;    // sum of predictions / sum of labels; NaN if that is 0
    double mae;     // mean |prediction - label|
    double gauc;    // AUC by group: model/metrics_groups.h
    double rmse;    // root of the mean (prediction - label)^2
    double base;    // mean loss if the mean label were predicted for all
    double mean;    // mean of the labels
    // In an evaluation: number of all features, and of the features that the model knows.
    uint64_t features, known;
    // For gauc: the number of groups that count, of groups with a single class, which do
    // not count, and of examples without a group.
    uint64_t groups, one_class, without_group;
    // In an evaluation: number of examples with weight 0, which `examples` does not
    // count.
    uint64_t without_weight;
    bool weightless; // there are examples, but all weights are 0
};

// A metric in results and saves, with its name there.
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

// Returns the mean loss if the mean label were predicted for all examples. The arguments are
// the sum of the weights, of the weighted labels and (for the squared loss) of the weighted
// squares of the labels.
double metrics_base(enum loss loss, double weight, double observed, double squares);

// Score, label and weight of an example in an evaluation, kept to be sorted.
struct scored {
    // The score before the sigmoid, which is more precise near probabilities of 0 and 1.
    float score;
    float weight; // negative if the label is 0
};

// Converts floats to unsigned numbers with the same order; both zeros give the same
// number.
static inline uint32_t score_order(float score)
{
    uint32_t bits;
    score += 0.0f;
    memcpy(&bits, &score, sizeof(bits));
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Computes the AUC of scores that arrive in ascending order.
struct ranking {
    double below;     // weight of the negatives so far
    double positives; // weight of the positives so far
    double pairs; // weight of the pairs in the right order, plus half of those with equal
                  // scores
    double tied_positive, tied_negative; // weights of the examples with the latest score
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
    if (s.score != r->score) // NaN differs from NaN, so scores that are NaN never tie
        ranking_end_tie(r);
    r->score = s.score;
    if (s.weight > 0)
        r->tied_positive += s.weight;
    else
        r->tied_negative -= s.weight;
}

// Returns NaN if a class is absent.
static inline double ranking_auc(struct ranking *r)
{
    ranking_end_tie(r);
    bool both = r->positives > 0 && r->below > 0;
    return both ? r->pairs / (r->positives * r->below) : (double)NAN;
}

// Returns the area under the ROC curve: the probability that a positive scores above a
// negative, where ties count half (Hanley & McNeil 1982); each pair is weighted by the
// product of its examples' weights. Exact except for rounding of doubles. Sorts `s` by score;
// `scratch` must have n elements. Returns NaN if a class is absent.
double metrics_auc(struct scored *s, struct scored *scratch, size_t n);

// Returns average precision: the mean, over the positives, of the share of positives
// among the examples with the same or a higher score. `s` must have been sorted by
// metrics_auc. Returns NaN if a class is absent.
double metrics_pr_auc(const struct scored *s, size_t n);

// Returns logloss / base for the logistic loss. Returns NaN if all labels are the same.
double metrics_ne(double logloss, double base);

// Streaming metrics count examples in buckets by score. So each thread can have its own
// counts, which are added up later. The AUC differs from the exact one by less than a bucket's
// width.
enum { METRICS_BUCKETS = 4096 };

struct metrics_stream {
    uint64_t examples;
    double weight, loss, predicted, observed;
    double squares;    // weighted sum of the labels' squares, for the squared loss only
    double likelihood; // product of probabilities that are not added to the loss yet
    double positive[METRICS_BUCKETS], negative[METRICS_BUCKETS];
};

void metrics_stream_clear(struct metrics_stream *m);
// Returns an array of n cleared streams, one for each label, which the caller must free.
// Returns NULL if memory is out.
struct metrics_stream *metrics_streams(uint32_t n);
void metrics_streams_clear(struct metrics_stream *m, uint32_t n);
void metrics_stream_add(struct metrics_stream *m, enum loss loss, float score,
                        double prediction, float label, float weight);
void metrics_stream_merge(struct metrics_stream *into, const struct metrics_stream *from);
// Computes `now` minus `before`, an earlier state of the same stream.
void metrics_stream_since(struct metrics_stream *ret, const struct metrics_stream *now,
                          const struct metrics_stream *before);
struct metrics metrics_stream_result(const struct metrics_stream *m, enum loss loss);

#endif
