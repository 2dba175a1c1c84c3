// A model of tug/train.h from the inside: what training (tug_train.c), scoring (tug_score.c)
// and the rest (tug_model.c) share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_MODELS_MODEL_INTERNAL_H
#define TUG_DOORS_MODELS_MODEL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "doors/models/given_rows.h"
#include "doors/models/temp_home.h"
#include "options/options.h"
#include "os/file.h"
#include "run/model.h"
#include "runtime/last_error.h"
#include "train/history.h"
#include "tug/train.h"

enum { VALUE_NAME_MAX = 96 };

struct model_value {
    char name[VALUE_NAME_MAX];
    double value;
};

struct tug_model {
    pthread_mutex_t mutex; // held by every call except tug_model_interrupt
    atomic_bool stop;      // set by tug_model_interrupt to end the call that runs
    bool trains;           // the model has options, so it can be trained
    char **words;          // the options, as "--name=value"
    size_t n_words;
    void (*progress)(void *ctx, const struct tug_progress *p);
    void (*on_pass)(void *ctx, const struct tug_pass *p);
    void *ctx;
    struct history history; // records of the model's passes
    // The members down to `passes` are used on a cluster only
    // (model_cluster.h); else they are 0.
    // The program's client, or, if `joins`, a client of the model's own.
    struct tug_client *client;
    bool joins, own_files;
    bool begun; // training has begun, so the servers have the model's rows
    // Whether the model was trained on a cluster whose worker 0 is another process, so that
    // its saves are there.
    bool elsewhere;
    uint32_t passes;             // number of passes trained on the cluster
    double *positive, *negative; // the histograms of tug_model_spread; NULL: none yet
    struct temp_home home;       // the directory of saves without the option "out"
    char from[FILE_PATH_MAX];    // path of the newest save; "": not trained yet
    // Whether this model wrote the save `from`, so that training continues in its
    // directory.
    bool own;
    struct opened_model *opened; // the model in `from`; NULL: not opened yet
    struct model_value *value;   // results of the last training or evaluation
    size_t n_values, cap_values;
    float *predictions;
    size_t n_predictions;
    char *explained, *tables;     // the texts that the functions of these names return
    char warned[NUMBERING_TEXT];  // the last warning about the numbering of keys
    char warnings[WARNINGS_TEXT]; // warnings of the last training, each on a line
};

// Returns the result that a page about the opened model shows.
json_t *model_page(const struct tug_model *m);

// Returns the public record of a pass, for the label with this number.
struct tug_pass model_pass(const struct history_pass *p, uint32_t label);

// Copies the histograms of predictions for tug_model_spread. If memory is short, the
// model has no histograms.
struct metrics_stream;
void model_spread(struct tug_model *m, const struct metrics_stream *seen);

// Begins a call on the model: locks the model, and drops the interrupt and the predictions
// of the last call. If the call computes results, its caller also sets n_values to 0.
void model_begin(struct tug_model *m);
int model_end(struct tug_model *m, int rc);

// Creates the directory m->home unless it exists.
int model_make_home(struct tug_model *m, struct err *e);

// Makes the words "--name=value" of options. The list has memory for one more word; the
// caller frees it by model_words_free.
int model_words(const char *const *options, size_t n, char ***ret, struct err *e);
void model_words_free(char **words, size_t n);

// Parses words by a command's table of options into *values. Refuses the options in
// `not_here` (names with spaces between them), unless they come from the environment.
int model_parse(struct options **ret, const struct option_table *t, char *const *words,
                size_t n, const char *not_here, void *values, struct err *e);

// Opens the save m->from unless it is open: reads the model's description and the schema
// of its data, but no rows.
int model_opened(struct tug_model *m, struct err *e);
void model_forget_opened(struct tug_model *m);

void model_add(struct tug_model *m, double value, const char *format, ...)
    PRINTF_LIKE(3, 4);

struct metrics;
// Adds the metrics of the first label as "PREFIXNAME", and those of further labels as
// "PREFIXLABEL:NAME". `label` points at an array of the labels' names; each name has
// `bytes` bytes.
void model_add_metrics(struct tug_model *m, const char *prefix,
                       const struct metrics *metrics, uint32_t labels, const char *label,
                       size_t bytes);

#endif
