// The curves that a report shows of an evaluation, computed once from the sorted scores:
// ROC, precision and recall, calibration, histogram of predictions, lift by tenths. They
// are thinned for drawing; the areas printed beside them are the exact metrics.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_CURVES_H
#define TUG_TRAIN_EVALUATE_CURVES_H

#include "os/json.h"
#include "train/evaluate/calibration.h"

enum { CURVES_POINTS = 200, CURVES_BARS = 40 };

struct curve_point {
    double x, y;
};

struct curve {
    struct curve_point point[CURVES_POINTS];
    uint32_t n;
};

struct score_bar {
    double from, to;             // probabilities
    double positives, negatives; // sums of weights
};

// One of ten parts of the examples, by falling predictions. Its examples are those of one
// bin of the calibration.
struct lift_part {
    uint64_t examples;
    double positives; // sum of weights
    double observed;  // share of positives
    double lift;      // `observed` divided by the share of positives among all examples
    double captured;  // share of all positives in this tenth and those above it
};

// A zeroed struct is empty.
struct curves {
    double positives, negatives; // sums of weights
    struct calibration calibration;
    // ROC: x is the false positive rate, y the true positive rate. Precision: x is the
    // recall. Empty if a class is absent.
    struct curve roc, precision;
    struct score_bar bar[CURVES_BARS];
    uint32_t bars;
    struct lift_part lift[CALIBRATION_BINS]; // the first calibration.n are in use
};

// Fills *ret from n examples, sorted by score as metrics_auc leaves them. Each has a
// weight other than 0.
void curves_make(struct curves *ret, const struct scored *s, size_t n);

// Adds the members calibration, roc, precision_recall, scores and lift to an object.
// Needs json_begin.
void curves_add_json(json_t *to, const struct curves *c);

// Returns the bins as a list of objects, as results contain them.
json_t *calibration_to_json(const struct calibration *c);

#endif
