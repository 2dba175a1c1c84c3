// Metrics: exact ones over predictions that are kept, streaming ones for progress lines.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_METRICS_H
#define TUG_MODEL_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loss.h"

struct metrics {
    uint64_t examples;
    double auc;     // NaN where there is none: one class only, or the squared loss
    double logloss; // mean loss (squared: mean of (f - y)^2 / 2)
    double copc;    // sum predicted / sum observed; NaN when nothing was observed
    double base;    // the mean loss of predicting the mean label for all; NaN: not known
    uint64_t features, known; // of an evaluation: in all, and those that the model knows
};

// That loss, from sums of weights, of weighted labels, and of their squares (the squared
// loss only).
double metrics_base(enum loss loss, double weight, double observed, double squares);

// Scores, labels and weights of an evaluation, kept to be sorted.
struct scored {
    float score;  // before the sigmoid: finer than the probability near 0 and 1
    float weight; // negative for label 0
};

// Area under the ROC curve: the probability that a positive scores above a negative,
// ties counting half (Hanley & McNeil 1982), each pair weighted by the product of its
// weights. Exact up to double rounding. Sorts `s` by score; `scratch` has n elements
// too. NaN when a class is absent.
double metrics_auc(struct scored *s, struct scored *scratch, size_t n);

// Streaming: counts per bucket of score, so that threads can keep one each and add them
// up. AUC is within a bucket's width of the exact one.
enum { METRICS_BUCKETS = 4096 };

struct metrics_stream {
    uint64_t examples;
    double weight, loss, predicted, observed;
    double likelihood; // product of probabilities not yet taken into loss
    double positive[METRICS_BUCKETS], negative[METRICS_BUCKETS];
};

void metrics_stream_clear(struct metrics_stream *m);
void metrics_stream_add(struct metrics_stream *m, enum loss loss, float score,
                        double prediction, float label, float weight);
void metrics_stream_merge(struct metrics_stream *into, const struct metrics_stream *from);
struct metrics metrics_stream_result(const struct metrics_stream *m, enum loss loss);

#endif
