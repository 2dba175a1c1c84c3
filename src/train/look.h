// Shows a run between two batches: prints values by name on a line (--fetch), and writes
// parameters and the examples of the next batch to a file (--dump).
//
// The names are those of the model's description: "loss", "auc", "the bias", "layer 1 of
// 2" (as in messages about dense parameters), "layers" for all layers, and COLUMN=WORD or
// a key for a feature's row.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_LOOK_H
#define TUG_TRAIN_LOOK_H

#include "data/source/paths.h"
#include "train/run.h"

struct look;

enum { LOOK_MAX_NAMES = 256 };

// Returns TUG_EUSAGE if --dump is one of the files `read`, which it would overwrite.
int look_check_dump(const char *path, const struct data_files *read, struct err *e);

// Opens the look before the data is read; *ret is NULL if no option asks for one. Creates
// the file of --dump, or continues it if the run is resumed. Returns TUG_EUSAGE for an
// unknown name, with a list of the known ones.
int look_open(struct look **ret, const struct run *r, struct err *e);
void look_close(struct look *l); // `l` may be NULL

// Returns the columns to keep with the data: `group` (or NULL), followed by those to
// dump; NULL if there are none. The text belongs to the look.
const char *look_keep(struct look *l, const char *group);

// Fills in the keys of the rows that --fetch prints, so that a driver can ask the servers
// for them first; returns their number.
size_t look_keys(const struct look *l, uint64_t ret[LOOK_MAX_NAMES]);

// Prints what --fetch names and writes what --dump asks for, between two batches. `seen`
// has the metrics of the pass so far. On a cluster the driver calls this function; the
// driver has no examples, so it dumps only layers.
int look_now(struct look *l, struct run *r, const struct metrics *seen, struct err *e);

#endif
