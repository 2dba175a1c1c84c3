// Looking into a run between two batches: values by their names on a line of text (--fetch),
// and parameters and the examples of the next batch in a file (--dump).
//
// Names are those of the model's description: "loss", "auc", "the bias", "layer 1 of 2" (what
// messages call the dense parameters), "layers" for all of them, and a feature's row by
// COLUMN=WORD or its key.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_LOOK_H
#define TUG_TRAIN_LOOK_H

#include "data/paths.h"
#include "train/run.h"

struct look;

enum { LOOK_MAX_NAMES = 256 };

// Whether --dump is not one of the files that are `read`, which it would overwrite. TUG_EUSAGE.
int look_check_dump(const char *path, const struct data_files *read, struct err *e);

// Before the data is read. *ret is NULL if no option asks for it. TUG_EUSAGE: a name that
// there is not, with those that there are. The file is begun, or of a run that goes on
// continued.
int look_open(struct look **ret, const struct run *r, struct err *e);
void look_close(struct look *l); // NULL is fine

// The columns that stay with the data: `group` (or NULL), and behind them those that are
// dumped; NULL: none. The look's.
const char *look_keep(struct look *l, const char *group);

// The keys of the rows that it says: where others have them they are asked for before.
size_t look_keys(const struct look *l, uint64_t ret[LOOK_MAX_NAMES]);

// Between two batches. `seen`: the examples of the pass so far. On a cluster the driver
// does it, which has no examples: only the layers are dumped.
int look_now(struct look *l, struct run *r, const struct metrics *seen, struct err *e);

#endif
