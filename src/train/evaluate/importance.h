// Importance of columns: the loss of quality when the features of a column come from
// another example and so say nothing about the label (permutation importance, Breiman
// 2001, section 10; Paddle's slots_shuffle).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_IMPORTANCE_H
#define TUG_TRAIN_EVALUATE_IMPORTANCE_H

#include "base/buf.h"
#include "train/evaluate/evaluate.h"

struct importance_line {
    size_t name; // offset in `names` of "user", or of "user+item" for columns swapped
                 // together
    struct metrics metrics;
    double auc_drop, loss_rise; // compared with the unchanged data; auc_drop is NaN
                                // without an AUC
    double unknown; // share of the column's features that the model does not know; NaN
                    // if it has none
};

// A zeroed struct is empty.
struct importance {
    struct importance_line *line; // the most important first
    size_t n;
    struct buf names; // the names of the columns, each followed by a NUL
};
void importance_free(struct importance *m);

// Reads the source once and holds it in memory; returns TUG_EUSAGE if there is too much
// data. `columns` is "a,b+c", where columns joined by '+' are swapped together; NULL:
// each column that some example has. `o` is as for an evaluation without groups; its seed
// selects the permutations. *ret receives the metrics of the unchanged data.
int importance(const struct evaluation_options *o, const char *columns,
               struct importance *ret_lines, struct metrics *ret, struct err *e);

// Evaluates the data. Also measures the importance of each column, if the data has
// between 1 and 256 columns, is in files and fits in memory, and `o` has no groups.
int importance_if_possible(const struct evaluation_options *o,
                           struct importance *ret_lines, bool *ret_measured,
                           struct metrics *ret, struct err *e);

#endif
