// The command line's output of a training: its log, and the result. Shared by `tug train`
// and by the roles of a cluster that trains.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TRAIN_OUTPUT_H
#define TUG_CLI_TRAIN_OUTPUT_H

#include "run/train_cv.h"

// The level of messages, and the file of --log-dir; `node` NULL: this process trains alone.
int train_open_log(const struct train_options *t, const struct options *o,
                   const struct node *node, struct err *e);

// Prints what came of it, as text or JSON; or, of the first run of --refit on a cluster, says
// to the launcher what it found.
int train_print(const struct train_setup *s, const struct train_result *t,
                uint32_t servers, uint32_t workers, struct err *e);

// Prints what cross-validation found.
int train_print_cv(const struct train_setup *s, const struct cv *c, struct err *e);

#endif
