// Training again on everything: once with validation, which finds the number of passes, and
// then from the start for so many passes on all examples, those of the validation included.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_REFIT_H
#define TUG_TRAIN_REFIT_H

#include "train/config.h"

// As train_run, of a configuration with validation. What validation said, of the first run,
// stays in *ret beside the rest, which is of the second one.
int refit_run(const struct train_config *c, struct train_result *ret, struct err *e);

#endif
