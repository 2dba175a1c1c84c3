// Calibration: whether events happen as often as a model predicts them. The examples are
// sorted by prediction and cut into ten bins; each bin has its mean prediction and its
// share of positives.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_CALIBRATION_H
#define TUG_TRAIN_EVALUATE_CALIBRATION_H

#include "model/metrics.h"

enum { CALIBRATION_BINS = 10 };

struct calibration_bin {
    uint64_t examples;
    double weight;   // the sum of the examples' weights
    double from, to; // the smallest and the greatest prediction of the bin
    // The weighted mean prediction, and the weighted share of positives.
    double predicted, observed;
    // The 95 % interval of `observed` for the bin's number of examples (Wilson 1927).
    double low, high;
};

// A zeroed struct has no bins.
struct calibration {
    struct calibration_bin bin[CALIBRATION_BINS];
    uint32_t n; // bins in use; fewer than CALIBRATION_BINS if many predictions are equal
};

// Fills *ret from n examples, sorted by score as metrics_auc leaves them. Each has a
// weight other than 0. Examples with equal predictions fall into one bin.
void calibration_make(struct calibration *ret, const struct scored *s, size_t n);

#endif
