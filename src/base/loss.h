// Kinds of loss. The kind decides the meaning of a score and which labels are valid, for
// readers of labels and for models (model/loss.h has the formulas).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_LOSS_H
#define TUG_BASE_LOSS_H

enum loss { LOSS_LOGISTIC, LOSS_SQUARED };
#define LOSS_NAMES "logistic squared" // in this order, as the user types them

// The greatest number of labels of an example (multi-task learning).
enum { LABELS_MAX = 8 };

static inline const char *loss_name(enum loss loss)
{
    return loss == LOSS_SQUARED ? "squared" : "logistic";
}

#endif
