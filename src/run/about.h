// The parts of a report besides a run's numbers: the command that repeats the run,
// options that differ from their defaults, data, machine, version, warnings, and the
// curves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_ABOUT_H
#define TUG_RUN_ABOUT_H

#include "run/result.h"
#include "run/train_config.h"
#include "train/saved/saved_run.h"

// These functions add to a result (of result_to_json) the members that docs/reports.md
// lists for --report. `o` has the command's options, and `v` their values.
void about_add_train(json_t *to, const struct result *r, const struct train_setup *s);
void about_add_eval(json_t *to, const struct result *r, const struct options *o,
                    const struct eval_values *v, const struct report_data *p);

// Returns the facts about a run that its save contains, in the form of a result. Needs
// json_begin. Returns NULL if there is not enough memory.
json_t *about_saved(const struct saved_run *run, const struct history *h,
                    const char *dir);

// Adds warnings, one for each line of `lines`, to the result of about_saved.
void about_add_warnings(json_t *to, const char *lines);

// Adds an evaluation to the result of about_saved. `files` is NULL if the data is in
// memory.
void about_add_evaluation(json_t *to, const struct metrics *m,
                          const struct eval_tables *t, const struct option_list *files);

#endif
