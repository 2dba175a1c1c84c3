// A resumed run takes the options that the user leaves out from its save, so that one
// process can continue a cluster's run and a cluster that of one process, although their
// defaults differ. A new run that begins with a saved model takes the options that shape
// the model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_RESUMED_H
#define TUG_RUN_TRAIN_RESUMED_H

#include "run/train_config.h"
#include "train/saved/saved_run.h"

// If the run begins with a save that this process can read (--resume, --init-from),
// replaces *t and *o by copies, which `setup` owns, with the save's values of the options
// that were not given. Leaves both unchanged if there is no such save, or if another model
// or optimizer was given; a later check refuses that run and names the options that differ.
int train_take_saved(struct train_setup *setup, const struct train_options **t,
                     const struct options **o, const struct node *node, struct err *e);

// Does the same with `run`, the description of the run in the save in `dir`.
int train_take_run(struct train_setup *setup, const struct saved_run *run,
                   const char *dir, const struct train_options **t,
                   const struct options **o, const struct node *node, struct err *e);

// Appends to the error of a run the options that it names and that come from a save, since
// the user did not type them. Returns rc. train_configure and train_setup_run call it for
// their own errors.
int train_tell_taken(const struct train_setup *setup, int rc, struct err *e);

#endif
