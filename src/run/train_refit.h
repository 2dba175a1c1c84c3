// --refit in a process of a cluster. `tug launch` starts the cluster twice and tells its
// processes by the environment which of both runs they are in.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_REFIT_H
#define TUG_RUN_TRAIN_REFIT_H

#include "run/train_config.h"

// "search:FILE", where the first driver says what it found (refit_put_found); and then
// "all:FOUND".
#define TRAIN_STAGE_VARIABLE "TUG_REFIT_STAGE"

int train_check_refit(const struct train_config *c, struct err *e);

// Makes the configuration that of the run which the environment says.
int train_set_stage(struct train_setup *s, struct err *e);
int train_tell_found(const struct train_setup *s, const struct train_result *t,
                     struct err *e);

#endif
