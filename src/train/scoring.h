// Scores --valid after a pass, and --test at the end of a run: in this process, or by the
// workers of a cluster.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_SCORING_H
#define TUG_TRAIN_SCORING_H

#include "train/run.h"

// Returns whether other processes read --valid and --test, so that this process
// need not see these files.
static inline bool scoring_elsewhere(const struct train_config *c)
{
    return c->cluster != NULL && c->cluster->workers_score;
}

// Exchanges the parameters and their mean (--average); a second call exchanges them back.
int scoring_swap(struct run *r, struct err *e);

// Validates after a pass. `examples` is the number of examples of a pass, including
// held-out ones.
int scoring_validate(struct run *r, uint64_t examples, struct metrics *ret,
                     struct err *e);

// Fills in the result's metrics of --test, scored by the rows of the best pass if
// there was validation.
int scoring_test(struct run *r, struct train_result *result, struct err *e);

#endif
