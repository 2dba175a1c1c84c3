// --cv K: cross-validation. The data has K parts. Each of K runs is validated on another
// part, and trains on all the others. The result has, for each pass, the mean and
// standard deviation over the runs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_CV_H
#define TUG_RUN_TRAIN_CV_H

#include "run/train_config.h"

struct cv_score {
    double mean, deviation; // mean and standard deviation over the runs
};

struct cv_pass {
    struct cv_score loss, auc; // loss and AUC of validation, for the first label
};

// A zeroed struct is empty.
struct cv {
    uint32_t folds;
    struct cv_pass *pass;
    size_t n, best; // pass[best] has the smallest mean loss
};
void cv_free(struct cv *c);

// Returns TUG_EUSAGE for options that cannot be combined with --cv; 0 without --cv.
int train_check_cv(const struct train_options *t, const struct node *node, struct err *e);

// Runs the cross-validation. The caller frees *ret, even after an error.
int train_cv(struct train_setup *s, struct cv *ret, struct err *e);

// Returns an object for --json; NULL if there is not enough memory.
json_t *cv_to_json(const struct cv *c);

#endif
