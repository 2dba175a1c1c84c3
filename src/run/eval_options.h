// The options of `tug eval` and their meaning.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_EVAL_OPTIONS_H
#define TUG_RUN_EVAL_OPTIONS_H

#include "run/model.h"

struct eval_values {
    struct model_values model;
    const char *group, *by, *only, *report;
    uint64_t top;
    bool importance, calibration, quiet, json;
    int log_format;
};

// Fills the options of an evaluation of the data that *m has open. --merge-ids has the
// value that it had in the model's training.
int eval_options_evaluation(struct opened_model *m, const struct eval_values *v,
                            struct evaluation_options *ret, struct err *e);

extern const struct option_table cli_eval_options;

#endif
