// Kinds of loss: the meaning of a score and the valid labels, for readers of labels and
// for models (model/loss.h has the formulas).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_LOSS_H
#define TUG_BASE_LOSS_H

enum loss { LOSS_LOGISTIC, LOSS_SQUARED };
#define LOSS_NAMES "logistic squared" // in this order, as they are typed

// Labels of an example (multi-task learning), at most.
enum { LABELS_MAX = 8 };

static inline const char *loss_name(enum loss loss)
{
    return loss == LOSS_SQUARED ? "squared" : "logistic";
}

#endif
