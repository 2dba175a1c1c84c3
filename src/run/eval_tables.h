// Optional results of `tug eval` besides its metrics, and their JSON: metrics by the
// values of columns (--by), importance of columns (--importance), calibration
// (--calibration).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_EVAL_TABLES_H
#define TUG_RUN_EVAL_TABLES_H

#include "os/json.h"
#include "run/eval_options.h"
#include "train/evaluate/group_table.h"
#include "train/evaluate/importance.h"

// A zeroed struct is empty.
struct eval_tables {
    // The columns of the data by which `groups` groups examples; owned by the caller;
    // NULL: no groups are wanted.
    const char *by;
    struct group_table groups;
    bool has_importance, has_calibration; // whether these tables are wanted
    struct importance importance;
    struct calibration calibration;
    // has_curves: a report wants the curves. silent_importance: importance is measured
    // for a report only, and not printed.
    bool has_curves, silent_importance;
    struct curves curves;
};
void eval_tables_free(struct eval_tables *t);

// Returns TUG_EUSAGE if the options cannot be combined.
int eval_tables_check(const struct eval_values *v, const struct options *o,
                      struct err *e);

// Evaluates with `o` from eval_options_evaluation. *ret gets the optional results; the
// caller frees it, even after an error.
int eval_tables_find(const struct evaluation_options *o, const struct eval_values *v,
                     struct eval_tables *ret, struct metrics *ret_metrics, struct err *e);

json_t *importance_to_json(const struct importance *m);

// Adds to an object those of the members "by", "importance" and "calibration" that are
// wanted.
void eval_tables_add_json(json_t *to, const struct eval_tables *t);

#endif
