// --merge-ids COLUMN:N: lines with the same id become one example (data/dataset_merge.h), of
// data in memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_MERGE_H
#define TUG_TRAIN_MERGE_H

#include "data/dataset_merge.h"

enum { MERGE_COLUMN_MAX = 256, MERGE_LINES_MAX = 64 };

// A load that merges; zeroed it does not.
struct merge {
    char column[MERGE_COLUMN_MAX];
    struct dataset_merged done;
};

// Asks for it as `text` says (NULL: nothing is merged), of all of the source. TUG_EUSAGE
// when that is no COLUMN:N.
int merge_begin(struct merge *m, const char *text, struct dataset_options *o,
                struct err *e);

// Says what became of the lines. TUG_EDATA when nothing is left.
int merge_end(const struct merge *m, const struct dataset_options *o, struct err *e);

#endif
