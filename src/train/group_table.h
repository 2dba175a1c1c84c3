// A table of an evaluation's metrics by group, the largest groups first, with the values that
// the groups have in common.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_GROUP_TABLE_H
#define TUG_TRAIN_GROUP_TABLE_H

#include "base/key_texts.h"
#include "train/groups.h"

struct group_line {
    const char *value; // of several columns with ',' between; "": they are empty
    struct group_metrics metrics;
};

// A zeroed one is empty.
struct group_table {
    struct group_line *line;
    size_t n;
    uint64_t groups;         // in all
    struct key_texts values; // of the groups that were met
};
void group_table_free(struct group_table *t);

// An example of this group, whose columns' texts are `kept`, was met.
int group_table_meet(struct group_table *t, const struct groups *g, uint64_t group,
                     const char *kept, struct err *e);

// Fills in the `top` groups with most examples of those n that `g` holds, all of which were
// met. Sorts them.
int group_table_make(struct group_table *t, struct groups *g, size_t n, size_t top,
                     struct err *e);

#endif
