// Optional results of `tug eval` besides metrics: metrics by the values of columns
// (--by), the importance of columns (--importance), calibration (--calibration); as JSON.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_EVAL_TABLES_H
#define TUG_RUN_EVAL_TABLES_H

#include "base/json.h"
#include "run/eval_options.h"
#include "train/group_table.h"
#include "train/importance.h"

// A zeroed one is empty.
struct eval_tables {
    const char *by; // columns of `groups`, borrowed; NULL: not asked for
    struct group_table groups;
    bool has_importance, has_calibration; // asked for
    struct importance importance;
    struct calibration calibration;
};
void eval_tables_free(struct eval_tables *t);

// TUG_EUSAGE: options that do not go together.
int eval_tables_check(const struct eval_values *v, const struct options *o,
                      struct err *e);

// Evaluates, with `o` from eval_options_evaluation. The optional results go to *ret,
// which the caller frees, also after an error.
int eval_tables_find(const struct evaluation_options *o, const struct eval_values *v,
                     struct eval_tables *ret, struct metrics *ret_metrics, struct err *e);

// Members "by", "importance" and "calibration" of an object, where they were asked for.
void eval_tables_add_json(json_t *to, const struct eval_tables *t);

#endif
