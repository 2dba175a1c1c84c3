// The output of a training on the command line: its log and its result. Used by `tug
// train` and by the roles of a cluster that trains.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TRAIN_OUTPUT_H
#define TUG_CLI_TRAIN_OUTPUT_H

#include "run/train_cv.h"

// Sets the level of messages and opens the file of --log-dir. `node` NULL: this process
// trains alone.
int train_open_log(const struct train_options *t, const struct options *o,
                   const struct node *node, struct err *e);

// Prints the result, as text or JSON. In the first run of --refit on a cluster, passes
// the result to the launcher instead.
int train_print(const struct train_setup *s, const struct train_result *t,
                uint32_t servers, uint32_t workers, struct err *e);

// Writes the page of --report, if it is wanted, about a run that was interrupted after some
// data was read; `why` stands among the page's warnings. Adds to *why if this fails.
void train_report_interrupted(struct train_setup *s, const struct train_result *t,
                              uint32_t servers, uint32_t workers, struct err *why);

// Prints the results of cross-validation.
int train_print_cv(const struct train_setup *s, const struct cv *c, struct err *e);

#endif
