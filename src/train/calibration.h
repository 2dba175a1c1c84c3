// Calibration: whether what a model predicts happens as often as it says. Examples are sorted by
// their prediction and cut into tenths; each has its mean prediction beside the share of positives.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CALIBRATION_H
#define TUG_TRAIN_CALIBRATION_H

#include "model/metrics.h"

enum { CALIBRATION_BINS = 10 };

struct calibration_bin {
    uint64_t examples;
    double weight;   // the sum of theirs
    double from, to; // the smallest and the greatest prediction
    double predicted,
        observed; // the mean prediction, and the share of positives, by weight
};

// A zeroed one is empty.
struct calibration {
    struct calibration_bin bin[CALIBRATION_BINS];
    uint32_t n; // fewer than ten where many examples have equal predictions
};

// For n examples that metrics_auc has sorted, each with a weight other than 0. Examples
// with equal predictions are in one bin.
void calibration_make(struct calibration *ret, const struct scored *s, size_t n);

#endif
