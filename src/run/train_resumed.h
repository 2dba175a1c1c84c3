// A resumed run takes the options that the user leaves out from its save, so that one
// process continues a cluster's run and a cluster one of a single process, whose defaults
// differ.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_RESUMED_H
#define TUG_RUN_TRAIN_RESUMED_H

#include "run/train_config.h"

// If the run resumes from a save that this process can read, replaces *t and *o by copies,
// which `setup` owns, with the save's values of the options that nothing else gave.
// Leaves both as they are if there is no such save, or if another model or optimizer was
// given: the run is then refused, with the options that differ.
int train_take_saved(struct train_setup *setup, const struct train_options **t,
                     const struct options **o, const struct node *node, struct err *e);

#endif
