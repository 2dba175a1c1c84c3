// A resumed run takes options that the user did not give from its save. So a process can
// continue the run of a cluster, and a cluster the run of one process, although the
// defaults of a process and of a cluster differ. A new run that begins with a saved model
// takes the options that shape the model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_RESUMED_H
#define TUG_RUN_TRAIN_RESUMED_H

#include "run/train_config.h"
#include "train/saved/saved_run.h"

// If the run begins with a save that this process can read (--resume, --init-from),
// replaces *t and *o by copies in which the options that were not given have the save's
// values. `setup` owns the copies. Leaves *t and *o unchanged if there is no such save,
// or if another model or optimizer was given; a later check refuses that run and names
// the options that differ.
int train_take_saved(struct train_setup *setup, const struct train_options **t,
                     const struct options **o, const struct node *node, struct err *e);

// Does what train_take_saved does, with `run`, the description of the run in the save in
// `dir`.
int train_take_run(struct train_setup *setup, const struct saved_run *run,
                   const char *dir, const struct train_options **t,
                   const struct options **o, const struct node *node, struct err *e);

// Appends to an error the names of those of its options that come from a save, because
// the user did not type them. Returns rc. train_configure and train_setup_run call this
// for their own errors.
int train_tell_taken(const struct train_setup *setup, int rc, struct err *e);

#endif
