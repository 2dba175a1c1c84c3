// --refit in a process of a cluster. `tug launch` starts the cluster twice; an
// environment variable tells each process which of the two runs it is in.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_REFIT_H
#define TUG_RUN_TRAIN_REFIT_H

#include "run/train_config.h"

// The environment variable that selects the run of --refit. "search:FILE": the first run,
// whose driver writes its result to FILE (refit_put_found). "all:FOUND": the second run,
// with the result of the first.
#define TRAIN_STAGE_VARIABLE "TUG_REFIT_STAGE"

int train_check_refit(const struct train_config *c, struct err *e);

// train_set_stage makes the configuration of the run that the environment selects;
// train_tell_found writes the result of the first run.
int train_set_stage(struct train_setup *s, struct err *e);
int train_tell_found(const struct train_setup *s, const struct train_result *t,
                     struct err *e);

#endif
