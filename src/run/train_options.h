// The options of `tug train`, and the parsed texts among them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_OPTIONS_H
#define TUG_RUN_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/format/reader.h"
#include "model/model.h"
#include "options/options.h"
#include "train/config.h"

// The words of choices, in the order of their values.
#define TRAIN_FORMATS (READER_FORMATS(READER_FORMAT_WORD) + 1)
#define TRAIN_MODEL_WORD(name, about) " " #name
#define TRAIN_MODELS (MODELS(TRAIN_MODEL_WORD) + 1)
// Rules whose parameters a save of a run holds (train/saved/saved_options.c).
#define TRAIN_OPTIMIZERS_WITH(between)                                                   \
    "sgd" between "momentum" between "adagrad" between "adagrad-row" between             \
    "rmsprop" between "adam" between "ftrl"
#define TRAIN_OPTIMIZERS TRAIN_OPTIMIZERS_WITH(" ")
#define TRAIN_REDUCES "sum mean"
#define TRAIN_RULES "auto server worker"
#define TRAIN_SCORE_BY "driver workers"
#define TRAIN_VALUES "f32 bf16"
#define TRAIN_SHUFFLES "pieces global"
#define TRAIN_DATA_INS "auto memory stream"
#define TRAIN_RESUMES "no yes auto"
#define TRAIN_LOG_LEVELS "error warn info debug"

// Headings of options that only apply to some runs.
#define TRAIN_OF_CSV "CSV only"
#define TRAIN_OF_LAYERS "Models with layers"
#define TRAIN_OF_CLUSTERS "On a cluster"

struct train_options {
    // Settings, which saves keep as they are typed.
    MODEL_SETTINGS(SETTING_OPTION)
    LAYER_SETTINGS(SETTING_OPTION)
    TRAINING_SETTINGS(SETTING_OPTION, SETTING_NOTHING)
    PLAN_SETTINGS(SETTING_OPTION, SETTING_OPTION, SETTING_NOTHING)
    // Data:
    struct option_list data, test;
    const char *valid;
    uint64_t cv;
    const char *group, *merge_ids;
    const char *pipe_command;
    bool web_any_host;
    int format;
    // Options of format csv.
    const char *label, *drop, *numeric, *weight_column, *separator;
    const char *lists, *list_separator, *missing, *columns, *cross_columns, *quote,
        *decimal;
    bool allow_missing;
    const char *slots; // option of format multislot
    int data_in;
    uint64_t window_mb;
    // Model:
    int recipe, model;
    const char *dims;
    int loss;
    // The members from hidden to dense_optimizer are for models with layers.
    const char *hidden, *tower, *task_weights;
    double dense_lr;
    const char *dense_optimizer;
    // Training:
    uint64_t threads;
    const char *optimizer;
    // lr, latent_lr, l1, l2 and prior have a value only if options_given says so;
    // otherwise the optimizer's own values are used.
    double lr, latent_lr, l1, l2, prior;
    int schedule;
    double schedule_a, schedule_b;
    const char *mode;
    bool refit;
    const char *table; // settings of a table with a feature lifecycle
    // Options of training on a cluster.
    int rules, values, shuffle;
    uint64_t in_flight, dense_staleness;
    const char *shuffle_by;
    bool pack_keys, cache_keys, backup_pieces;
    int score_by; // index of the choice; 1: workers
    // Saving:
    const char *out;
    int resume;
    const char *init_from, *init_tables;
    const char *save_every, *publish;
    double publish_every;
    uint64_t publish_deltas;
    uint64_t keep_names;
    // Messages:
    uint64_t log_every, dot_every, fetch_every;
    const char *fetch, *dump, *dump_fields;
    const char *log_dir, *history, *tfevents, *report;
    const char *http, *http_cert, *http_key, *http_token_file;
    int log_level, log_format;
    bool quiet;
    bool json;
};

extern const struct option_table cli_train_options;

enum train_mode {
    TRAIN_SYNC,
    TRAIN_SSP,
    TRAIN_ASYNC,
    TRAIN_HALF_ASYNC,
    TRAIN_GEO,
    TRAIN_ELASTIC
};

// Returns whether workers train copies of the rows for several batches.
static inline bool train_mode_copies(enum train_mode m)
{
    return m == TRAIN_GEO || m == TRAIN_ELASTIC;
}

// The parsed texts among the options.
struct train_settings {
    enum train_mode mode;
    uint64_t mode_n;  // ssp: the staleness bound; geo, elastic: batches between exchanges
    double mode_rate; // elastic: the servers' rows are moved towards the workers' rows by
                      // this fraction of the difference, by all workers together
    const char *valid; // a path, or NULL
    // The part of the data that is held out; its share is 0 if no part is held out.
    struct held_out valid_part;
    // The number of passes, or of batches, between two saves; 0: not given in this unit.
    uint64_t save_passes, save_batches;
    char separator, list_separator;
};

// Parses the texts. Returns TUG_EUSAGE for a wrong text, and for options that contradict
// each other.
int train_options_check(const struct train_options *t, const struct options *o,
                        struct train_settings *ret, struct err *e);

// Reads a separator of columns as it is typed: one character, or tab. Returns TUG_EUSAGE
// if the text is neither.
int train_parse_separator(const char *text, char *ret, struct err *e);

#endif
