// A resumed run takes the options that the user leaves out from its save, so that one
// process continues a cluster's run and a cluster one of a single process, whose defaults
// differ. A new run that begins with a saved model takes those that shape the model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_RESUMED_H
#define TUG_RUN_TRAIN_RESUMED_H

#include "run/train_config.h"
#include "train/saved/saved_run.h"

// If the run begins with a save that this process can read (--resume, --init-from),
// replaces *t and *o by copies, which `setup` owns, with the save's values of the options
// that nothing else gave. Leaves both as they are if there is no such save, or if another
// model or optimizer was given: the run is then refused, with the options that differ.
int train_take_saved(struct train_setup *setup, const struct train_options **t,
                     const struct options **o, const struct node *node, struct err *e);

// The same with the description of the run that the save in `dir` has.
int train_take_run(struct train_setup *setup, const struct saved_run *run,
                   const char *dir, const struct train_options **t,
                   const struct options **o, const struct node *node, struct err *e);

// Extends the error of a run by the options among those that it names which come from a
// save, because its user did not type them. Returns rc. For errors of train_configure and
// train_setup_run this was done.
int train_tell_taken(const struct train_setup *setup, int rc, struct err *e);

#endif
