// Explains predictions of a saved model, each as lines of text or as one line of JSON.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_EXPLAINED_H
#define TUG_RUN_EXPLAINED_H

#include "base/buf.h"
#include "run/predict_options.h"
#include "train/evaluate/explain.h"

// Explains all examples of the open data, with the words that the model keeps; calls
// `each` for each example.
int explained_run(struct opened_model *m, const struct predict_values *v,
                  int (*each)(void *ctx, const struct explained *x, struct err *e),
                  void *ctx, struct err *e);

// Appends an explanation to *b.
int explained_put(struct buf *b, const struct explained *x, bool json);

#endif
