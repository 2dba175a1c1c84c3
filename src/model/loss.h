// Losses: the meaning of a score, and its gradient.
//
//   logistic   label 0 or 1, score f: p = 1 / (1 + e^-f), loss -log p or -log (1 - p),
//              d/df = p - label
//   squared    any label: prediction f, loss (f - label)^2 / 2, d/df = f - label
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_LOSS_H
#define TUG_MODEL_LOSS_H

#include "base/loss.h"
#include "base/maths.h"

// Returns what `tug predict` prints: the probability for the logistic loss, else the score.
static inline double loss_prediction(enum loss loss, float score)
{
    return loss == LOSS_LOGISTIC ? maths_sigmoid(score) : score;
}

// Returns d loss / d score.
static inline float loss_gradient(enum loss loss, double prediction, float label)
{
    (void)loss;
    return (float)(prediction - label);
}

// Returns the loss of a prediction. Probabilities are limited to [1e-15, 1 - 1e-15], as
// is usual for logloss.
static inline double loss_value(enum loss loss, double prediction, float label)
{
    if (loss == LOSS_SQUARED)
        return 0.5 * (prediction - label) * (prediction - label);
    double p = label > 0 ? prediction : 1 - prediction;
    return -maths_log(p > 1e-15 ? p : 1e-15);
}

#endif
