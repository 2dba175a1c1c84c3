// Metrics by group in an evaluation: for each example, its score and its group, which
// follows from the texts of columns kept with the data (data/format/kept.h). An example takes 16
// bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_GROUPS_H
#define TUG_TRAIN_EVALUATE_GROUPS_H

#include "model/metrics_groups.h"

struct groups {
    size_t skip, columns;  // how many of an example's kept texts come before those of its
                           // group, and how many form its group
    struct graded *graded; // the score of each example; NULL: there are no groups
    size_t cap;
};

// Returns TUG_EUSAGE if `option` asks for groups (`columns` is not NULL) and there are no
// metrics by group for this loss.
int groups_check(const char *option, const char *columns, enum loss loss, struct err *e);

// Returns an empty set of groups by the columns "a,b". Among the texts that are kept for
// an example (data/format/kept.h), those of these columns come after the first `skip`
// texts. groups_reserve makes room for examples.
struct groups groups_of(const char *columns, size_t skip);
void groups_free(struct groups *g);

int groups_reserve(struct groups *g, size_t cap, struct err *e);

// groups_put stores the score of example i, whose kept texts are `kept`; groups_skip
// stores that example i has no score. Both do nothing without columns.
void groups_put(const struct groups *g, size_t i, const char *kept, struct scored s);
void groups_skip(const struct groups *g, size_t i);

// Removes the examples without a weight, sorts the others, and sets *n to their number.
int groups_sort(struct groups *g, size_t *n, struct err *e);

#endif
