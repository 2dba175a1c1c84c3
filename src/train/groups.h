// Metrics by group in an evaluation: what group each example belongs to, by the texts of
// columns that stay with the data (data/kept.h), and its score. 16 bytes an example.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_GROUPS_H
#define TUG_TRAIN_GROUPS_H

#include "model/metrics_groups.h"

struct groups {
    size_t skip, columns;  // of an example's texts: those before, and those that count
    struct graded *graded; // of all examples; NULL: no groups are asked for
    size_t cap;
};

// TUG_EUSAGE: `option` asks for groups by columns (NULL: it does not), which a loss has not.
int groups_check(const char *option, const char *columns, enum loss loss, struct err *e);

// Groups by the columns "a,b", whose texts begin behind `skip` others. The groups stay
// empty until there is room.
struct groups groups_of(const char *columns, size_t skip);
void groups_free(struct groups *g);

int groups_reserve(struct groups *g, size_t cap, struct err *e);

// The score of example i, whose texts are `kept`; it has none. Nothing without columns.
void groups_put(const struct groups *g, size_t i, const char *kept, struct scored s);
void groups_skip(const struct groups *g, size_t i);

// Leaves out examples without weight, and sorts the others; *n becomes their number.
int groups_sort(struct groups *g, size_t *n, struct err *e);

#endif
