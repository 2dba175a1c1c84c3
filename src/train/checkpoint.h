// Checkpoints of a run: writing them, and beginning with one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CHECKPOINT_H
#define TUG_TRAIN_CHECKPOINT_H

#include "train/run.h"
#include "train/saved_run.h"

// Checks, before anything else, that --out can be written to and that a save can describe
// the run. The directory is locked until file_unlock_dir(*ret_lock): two runs would
// remove each other's saves. *ret_resumes: there is a run to go on with.
int checkpoint_check_out(const struct train_config *c, int *ret_lock, bool *ret_resumes,
                         struct err *e);

// Returns a save's description of the run, which the caller frees (saved_run_free,
// mem_free); NULL if memory is out.
struct saved_run *checkpoint_describe(const struct run *r,
                                      const struct train_result *result, bool finished,
                                      struct err *e);

// Saves where the run stands under --out.
int checkpoint_save(struct run *r, bool finished, struct train_result *result,
                    struct err *e);

// Finds the save that the run begins with: the newest under --out (--resume), or another
// run's (--init-from). The schema of its data is how this run's is read.
int checkpoint_find(struct run *r, struct err *e);
void checkpoint_forget(struct run *r);

// rc, how opening the data failed: the error also names the options in which the run differs
// from the one that it resumes.
int checkpoint_also_differs(const struct run *r, int rc, struct err *e);

// Whether the run can be saved with the data that it has, which it must have had before.
int checkpoint_check_data(struct run *r, struct err *e);

// Goes on from that save, or begins with its tables.
int checkpoint_start(struct run *r, struct err *e);

// Returns whether the save that the run resumes from is of a finished run.
bool checkpoint_was_over(const struct run *r);

#endif
