// The options that a run's result depends on, by name: those that a save holds, which a
// resumed run must have again, and those that all processes of one run must have besides.
// Differences are reported by the names of the options.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_RUN_OPTIONS_H
#define TUG_TRAIN_RUN_OPTIONS_H

#include "train/config.h"
#include "train/saved_run.h"

// The options in a save; `model`: c->model, or completed from the data. How the data is
// held is not included; `dims` are as given.
void run_options_fill(const struct train_config *c, const struct model_options *model,
                      struct saved_options *ret);

// Room for the names of what differs, and around it for the sentence that holds them.
enum { RUN_OPTIONS_TEXT_MAX = ERR_TEXT_MAX - 200 };

// The options that differ, each as " --lr 0.1, this one has 0.5", joined by "; it had";
// empty: none. Values that only follow from another model or optimizer are left out.
// TUG_ENOMEM.
int run_options_differ(const struct saved_options *then, const struct saved_options *now,
                       char ret[RUN_OPTIONS_TEXT_MAX], struct err *e);

// 0 when `now` would go on exactly as `then`; TUG_EUSAGE naming the options that differ.
int run_options_same(const struct saved_options *then, const struct saved_options *now,
                     struct err *e);

// Whether the net of the save in `dir` is that of these options, as far as no data is needed:
// the model, its dim, its layers. TUG_EUSAGE naming what differs.
int run_options_same_net(const struct model_options *then,
                         const struct model_options *now, const char *dir, struct err *e);

// For a process of a cluster: all of them as text, which the caller frees. Paths are not
// among them, nor how much memory and how many threads it has. TUG_ENOMEM.
int run_options_print(const struct train_config *c, char **ret, struct err *e);

// Whether this process has the options of that text, the driver's. TUG_EUSAGE names those
// that differ; TUG_EDATA if it is not such a text.
int run_options_agree(const struct train_config *c, const char *text, size_t n,
                      struct err *e);

#endif
