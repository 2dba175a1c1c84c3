// Importance of columns: how much worse a model is when the features of a column are
// those of another example, so that they say nothing of the label any more (permutation
// importance, Breiman 2001, section 10; Paddle's slots_shuffle).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_IMPORTANCE_H
#define TUG_TRAIN_IMPORTANCE_H

#include "base/buf.h"
#include "train/evaluate.h"

struct importance_line {
    size_t name; // in `names`: "user", or "user+item" of columns that go together
    struct metrics metrics;
    double auc_drop, loss_rise; // against the data as it is; auc_drop NaN where no AUC is
};

// A zeroed one is empty.
struct importance {
    struct importance_line *line; // those that matter most first
    size_t n;
    struct buf names; // each with a NUL behind it
};
void importance_free(struct importance *m);

// Reads the source once and holds it in memory: TUG_EUSAGE when there is too much of
// it. `columns`: "a,b+c", those of a word together; NULL: each that some example
// has. `o` is an evaluation's, without groups; its seed is that of the partners.
// *ret: of the data as it is.
int importance(const struct evaluation_options *o, const char *columns,
               struct importance *ret_lines, struct metrics *ret, struct err *e);

#endif
