// Merging by id: lines that have the same text in a column become one example that has
// the slots of all of them, as Paddle's merge_by_lineid has it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_MERGE_H
#define TUG_DATA_DATASET_MERGE_H

#include "data/dataset.h"

// Counts of merged and dropped lines.
struct dataset_merged {
    uint64_t lines, examples; // before and after
    uint64_t groups;          // that are left out because they have another size,
    uint64_t group_lines;     // and their lines
    // Groups that are left out because two lines have the same slot, or different labels
    // or weights; two such lines of the first one, and the slot (MERGED_LABEL).
    uint64_t conflicts;
    uint32_t file[2];
    uint64_t line[2];
    uint32_t slot;
};
#define MERGED_LABEL UINT32_MAX

// Replaces *d by the merged one: of groups of o->merge lines whose kept texts are the
// same, in the order of their first lines. Fills in *o->merged.
int dataset_merge(struct dataset **d, const struct dataset_options *o, struct err *e);

#endif
