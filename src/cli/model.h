// A saved model opened for eval, predict and table: what these commands share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_MODEL_H
#define TUG_CLI_MODEL_H

#include "base/options.h"
#include "base/team.h"
#include "data/reader.h"
#include "data/source.h"
#include "train/evaluate.h"
#include "train/saved.h"

// The values of the options that eval and predict have in common.
struct model_values {
    const char *from;
    struct option_list data;
    int format; // 0: as the model was trained
    uint64_t threads;
    uint64_t max_bad_lines;
};

struct opened_model {
    char dir[FILE_PATH_MAX];
    struct manifest manifest;
    struct team *team;
    struct parameters parameters;
    const char *format; // of the data
    struct reader *reader;
    struct source *source;
    uint64_t bad_lines;
};

// All of it, for scoring data. `labels`: whether each line must have one.
int model_open(struct opened_model *m, const struct model_values *v, bool labels,
               struct err *e);
void model_close(struct opened_model *m);

struct evaluation_options model_evaluation(struct opened_model *m,
                                           const struct model_values *v);

// 0 means all processors that this process may use.
int model_threads(uint64_t wanted);

// The word of data formats behind "as trained" in an option's choices.
#define MODEL_FORMATS "trained criteo libsvm libffm csv"

#endif
