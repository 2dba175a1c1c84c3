// A model of tug/train.h from the inside: what training (tug_train.c), scoring (tug_score.c)
// and the rest (tug_model.c) share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_MODEL_INTERNAL_H
#define TUG_FACADE_MODEL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/options.h"
#include "base/temp_home.h"
#include "facade/given_rows.h"
#include "run/model.h"
#include "train/history.h"
#include "tug/train.h"

enum { VALUE_NAME_MAX = 96 };

struct model_value {
    char name[VALUE_NAME_MAX];
    double value;
};

struct tug_model {
    pthread_mutex_t mutex; // of all calls but tug_model_interrupt
    atomic_bool stop;      // the call that is at work is to end
    bool trains;           // there are options
    char **words;          // "--name=value"
    size_t n_words;
    void (*progress)(void *ctx, const struct tug_progress *p);
    void (*on_pass)(void *ctx, const struct tug_pass *p);
    void *ctx;
    struct history history; // of its passes
    // On a cluster (model_cluster.h); else all of it is 0.
    struct tug_client *client; // the program's, or where it joins by itself its own
    bool joins, own_files;
    bool begun;                  // servers have the rows
    bool elsewhere;              // it was trained, and the first worker has the saves
    uint32_t passes;             // done there
    double *positive, *negative; // tug_model_spread; NULL: there is none
    struct temp_home home;       // of saves
    char from[FILE_PATH_MAX];    // the newest save; "": nothing was trained
    bool own;                    // it was made by this model: training goes on beside it
    struct opened_model *opened; // of `from`; NULL: not yet
    struct model_value *value;   // of the last training or evaluation
    size_t n_values, cap_values;
    float *predictions;
    size_t n_predictions;
    char *explained, *tables;    // texts that the last call left
    char warned[NUMBERING_TEXT]; // the last warning of how data is numbered
};

// Fills in a program's report of a pass, for one of its labels.
struct tug_pass model_pass(const struct history_pass *p, uint32_t label);

// The predictions by label, for tug_model_spread. Without memory there is none.
struct metrics_stream;
void model_spread(struct tug_model *m, const struct metrics_stream *seen);

// Begins a call on the model, without an interrupt or predictions. One that finds values
// takes away the earlier ones (n_values).
void model_begin(struct tug_model *m);
int model_end(struct tug_model *m, int rc);

// Makes m->home if it is missing.
int model_make_home(struct tug_model *m, struct err *e);

// Words of options, "--name=value", which the caller frees; room for one more.
int model_words(const char *const *options, size_t n, char ***ret, struct err *e);
void model_words_free(char **words, size_t n);

// A command's options out of words, in *values. Refuses those in `not_here` (separated by
// spaces), unless they come from the environment.
int model_parse(struct options **ret, const struct option_table *t, char *const *words,
                size_t n, const char *not_here, void *values, struct err *e);

// Reads the description in `m->from`, with the schema of the data, without rows.
int model_opened(struct tug_model *m, struct err *e);
void model_forget_opened(struct tug_model *m);

void model_add(struct tug_model *m, double value, const char *format, ...)
    PRINTF_LIKE(3, 4);

struct metrics;
// Adds all metrics as "PREFIXname", and those of further labels as "PREFIXlabel:name".
// `label`: names, `bytes` apart.
void model_add_metrics(struct tug_model *m, const char *prefix,
                       const struct metrics *metrics, uint32_t labels, const char *label,
                       size_t bytes);

#endif
