// Checkpoints of a run: writes saves, and lets a run begin with one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CHECKPOINT_H
#define TUG_TRAIN_CHECKPOINT_H

#include "train/run.h"
#include "train/saved/saved_run.h"

// Checks, before anything else, that --out can be written to and that a save can describe
// the run. Locks the directory until file_unlock_dir(*ret_lock), because two runs would
// remove each other's saves. Sets *ret_resumes if a saved run exists that this run
// continues.
int checkpoint_check_out(const struct train_config *c, int *ret_lock, bool *ret_resumes,
                         struct err *e);

// Returns the note about the pass that was open when the scheduler was killed
// (train/saved/kept_run.h), if this run goes on with that pass; else NULL. Such a run
// loads no rows: the servers still have them.
const struct kept_run *checkpoint_kept(const struct train_config *c);

// Returns the description of the run for a save. The caller frees it (saved_run_free,
// then mem_free). Returns NULL if memory is out.
struct saved_run *checkpoint_describe(struct run *r, const struct train_result *result,
                                      bool finished, struct err *e);

// Writes a save of the run's current state under --out.
int checkpoint_save(struct run *r, bool finished, struct train_result *result,
                    struct err *e);

// Finds the save with which the run begins: the newest save under --out (--resume), or a
// save of another run (--init-from). Reads the save's schema, which then decides how
// this run's data is read.
int checkpoint_find(struct run *r, struct err *e);
void checkpoint_forget(struct run *r);

// Called when opening the data has failed with code `rc`. Adds to the error the options
// in which this run differs from the run that it resumes. Returns rc.
int checkpoint_also_differs(const struct run *r, int rc, struct err *e);

// Checks that the run can be saved with its data and, if it resumes a run, that the data
// is the same as before.
int checkpoint_check_data(struct run *r, struct err *e);

// Resumes from the save that checkpoint_find has found (--resume), or begins a new run
// with the tables of that save (--init-from).
int checkpoint_start(struct run *r, struct err *e);

// Warns if the features of the data and of the model of --init-from are numbered
// differently (from 0 or from 1). Called when all data was read.
void checkpoint_compare_numbering(struct run *r);

// Sets nothing_to_do and within_pass of the result: whether the resumed save was
// made after all requested passes or at the end of the run, and whether it was made
// in the middle of a pass.
void checkpoint_tell_over(const struct run *r, struct train_result *ret);

#endif
