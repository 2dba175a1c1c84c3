// --merge-ids COLUMN:N for data in memory: lines with the same id become one example
// (data/dataset/dataset_merge.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_MERGE_H
#define TUG_TRAIN_MERGE_H

#include "data/dataset/dataset_merge.h"

enum { MERGE_COLUMN_MAX = 256, MERGE_LINES_MAX = 64 };

// The state of a load that merges lines. A zeroed struct merges no lines.
struct merge {
    char column[MERGE_COLUMN_MAX];
    struct dataset_merged done;
};

// Sets up a load of the whole source to merge lines by `text`, "COLUMN:N" (NULL: merges
// no lines). Returns TUG_EUSAGE if the text is not COLUMN:N.
int merge_begin(struct merge *m, const char *text, struct dataset_options *o,
                struct err *e);

// Reports how many lines were merged or left out. Returns TUG_EDATA if no example is
// left.
int merge_end(const struct merge *m, const struct dataset_options *o, struct err *e);

#endif
