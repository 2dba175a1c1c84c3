// Merging by id: lines with the same text in a column become one example with the slots
// of all of them, like Paddle's merge_by_lineid.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_DATASET_MERGE_H
#define TUG_DATA_DATASET_DATASET_MERGE_H

#include "data/dataset/dataset.h"

// Counts of merged and dropped lines.
struct dataset_merged {
    uint64_t lines, examples; // number of lines before merging, and of examples after
                              // merging
    uint64_t groups;          // groups that are left out because they have another size
    uint64_t group_lines;     // lines in the groups that `groups` counts
    // Groups that are left out because two lines have the same slot, or different labels
    // or weights; file and line of two such lines in the first of these groups, and their
    // slot (MERGED_LABEL: the labels or weights differ).
    uint64_t conflicts;
    uint32_t file[2];
    uint64_t line[2];
    uint32_t slot;
};
#define MERGED_LABEL UINT32_MAX

// Replaces *d by a data set with one example for each group of o->merge lines with equal
// kept texts, in the order of the groups' first lines. Fills in *o->merged.
int dataset_merge(struct dataset **d, const struct dataset_options *o, struct err *e);

#endif
