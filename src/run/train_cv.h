// --cv K: cross-validation. K runs, each validated on another of K parts of the data, which it is
// not trained on; of each pass the mean over the runs, and how far they lie apart.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_CV_H
#define TUG_RUN_TRAIN_CV_H

#include "run/train_config.h"

struct cv_score {
    double mean, deviation; // over the runs; the standard deviation
};

struct cv_pass {
    struct cv_score loss, auc; // of validation, of the first label
};

// A zeroed one is empty.
struct cv {
    uint32_t folds;
    struct cv_pass *pass;
    size_t n, best; // pass[best] has the smallest mean loss
};
void cv_free(struct cv *c);

// TUG_EUSAGE: options that cross-validation has no use for; nothing where it is not asked for.
int train_check_cv(const struct train_options *t, const struct node *node, struct err *e);

// *ret is the caller's to free, also after an error.
int train_cv(struct train_setup *s, struct cv *ret, struct err *e);

// An object for --json. NULL: no memory.
json_t *cv_to_json(const struct cv *c);

#endif
