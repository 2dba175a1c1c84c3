// The options, by name, that change the result of a run: those in a save, which a resumed
// run must have again, and further ones that all processes of one run must share.
// Differences are reported by the names of the options.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_SAVED_RUN_OPTIONS_H
#define TUG_TRAIN_SAVED_RUN_OPTIONS_H

#include "train/config.h"
#include "train/saved/saved_run.h"

// Fills in the options of a save. `model` is c->model, or c->model completed from
// the data. Whether the data is in memory or streamed is not included; ret->dims
// is the text of --dims.
void run_options_fill(const struct train_config *c, const struct model_options *model,
                      struct saved_options *ret);

// Fills in the plan of a save.
void run_options_plan(const struct train_config *c, struct saved_plan *ret);

// Room for the options that differ; an error has 200 more bytes for the sentence around
// them.
enum { RUN_OPTIONS_TEXT_MAX = ERR_TEXT_MAX - 200 };

// Lists the options that differ, each as " --lr 0.1, but this run has 0.5", with "; the
// earlier run had" between them; the text is empty if none differs. Leaves out values
// that differ only because the model or optimizer differs, and options that are not in
// `typed` (NULL: leaves none out). May return TUG_ENOMEM.
int run_options_differ(const struct saved_options *then, const struct saved_options *now,
                       const struct options *typed, char ret[RUN_OPTIONS_TEXT_MAX],
                       struct err *e);

// Returns 0 if a run with the options `now` would continue exactly like a run with the
// options `then`; else TUG_EUSAGE, with the options that differ. If `typed` is not NULL,
// only options that it contains count.
int run_options_same(const struct saved_options *then, const struct saved_options *now,
                     const struct options *typed, struct err *e);

// Checks that a run can begin with the rows of the model in `dir`, and with its layers if
// `layers` is true. Returns TUG_EUSAGE with the options that differ; `typed` is as in
// run_options_same.
int run_options_same_shape(const struct saved_options *then,
                           const struct saved_options *now, const struct options *typed,
                           bool layers, const char *dir, struct err *e);

// Checks that the saved model in `dir` has the structure of these options, as far as it
// does not depend on the data: the model, its dim, its layers. Returns TUG_EUSAGE with
// the options that differ.
int run_options_same_net(const struct model_options *then,
                         const struct model_options *now, const char *dir, struct err *e);

// Writes all options of a process of a cluster as text, which the caller frees. Leaves
// out paths, memory and number of threads. May return TUG_ENOMEM.
int run_options_print(const struct train_config *c, char **ret, struct err *e);

// Checks that this process has the options in the driver's text. Returns TUG_EUSAGE with
// those that differ; TUG_EDATA if the text is not one of run_options_print.
int run_options_agree(const struct train_config *c, const char *text, size_t n,
                      struct err *e);

#endif
