// The options of `tug predict`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_PREDICT_OPTIONS_H
#define TUG_RUN_PREDICT_OPTIONS_H

#include "run/model.h"

struct predict_values {
    struct model_values model;
    const char *out, *keep;
    bool header, raw, stream, quiet, json, explain;
    int log_format;
    uint64_t top;
};

extern const struct option_table cli_predict_options;

#endif
