// A table of metrics by group, the largest groups first. Each line has the column values
// that the examples of the group share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_GROUP_TABLE_H
#define TUG_TRAIN_EVALUATE_GROUP_TABLE_H

#include "base/key_texts.h"
#include "train/evaluate/groups.h"

struct group_line {
    const char *value; // the texts of the group's columns, joined by ','; "" if they are
                       // empty
    struct group_metrics metrics;
};

// A zeroed struct is an empty table.
struct group_table {
    struct group_line *line;
    size_t n;
    uint64_t groups;         // the number of all groups
    struct key_texts values; // the texts of the groups seen so far
};
void group_table_free(struct group_table *t);

// Stores the texts of an example's group for the table; `kept` holds the texts of the
// example's kept columns.
int group_table_meet(struct group_table *t, const struct groups *g, uint64_t group,
                     const char *kept, struct err *e);

// Fills the table with the `top` largest of the groups of the n examples in `g`.
// group_table_meet must have been called for each group. Sorts `g`.
int group_table_make(struct group_table *t, struct groups *g, size_t n, size_t top,
                     struct err *e);

#endif
