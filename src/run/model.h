// A saved model opened to score data; used by eval, predict and programs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_MODEL_H
#define TUG_RUN_MODEL_H

#include "data/format/reader.h"
#include "data/source/source.h"
#include "options/options.h"
#include "os/team.h"
#include "train/evaluate/evaluate.h"
#include "train/saved/saved.h"

// The values of the options that eval and predict share.
struct model_values {
    const char *from;
    struct option_list data;
    int format; // 0: the format of the training data
    const char *drop, *columns, *separator, *decimal, *slots, *pipe_command;
    bool allow_missing, web_any_host;
    uint64_t threads;
    uint64_t max_bad_lines;
};

// The options that set these values, for a command whose struct (OPTIONS_OF)
// has the values as member `model`.
#define MODEL_OPTIONS(heading, data_help)                                                \
    {"from", .group = heading, .required = true, STRING_AT(model.from, "DIR"),           \
     "the --out directory of a training run, whose newest save is taken, or one save "   \
     "in it"},                                                                           \
        {"data", .required = true, LIST_AT(model.data, "PATH"), data_help},              \
        {"format", CHOICE_AT(model.format, MODEL_FORMATS, "trained"),                    \
         "format of the data; by default that of the training data"},                    \
        {"drop", STRING_AT(model.drop, "COLUMN,..."),                                    \
         "csv: columns to ignore, which the model does not know"},                       \
        {"columns", STRING_AT(model.columns, "NAME,..."),                                \
         "csv: names of the columns of files without a header, if they differ from "     \
         "those of the training data"},                                                  \
        {"separator", .choices = "tab", STRING_AT(model.separator, "C"),                 \
         "csv: separator of columns, if it differs from that of the training data: one " \
         "character, or tab"},                                                           \
        {"decimal", STRING_AT(model.decimal, ",|."),                                     \
         "csv: decimal mark of numbers, if it differs from that of the training data"},  \
        {"allow-missing", FLAG_AT(model.allow_missing),                                  \
         "csv, multislot: feature columns of the model may be missing; they count as "   \
         "empty"},                                                                       \
        {"slots", STRING_AT(model.slots, "TEXT|FILE"),                                   \
         "multislot: the slots of a line, if they differ from those of the training "    \
         "data (see tug train)"},                                                        \
        {"pipe-command", STRING_AT(model.pipe_command, "COMMAND"),                       \
         "'sh -c COMMAND' reads each file, and tug reads the command's output instead "  \
         "of the file"},                                                                 \
        {"web-any-host", FLAG_AT(model.web_any_host),                                    \
         "for remote data (http, s3, webhdfs): allow a server to redirect to a "         \
         "loopback or link-local address, which is refused by default"},                 \
    {                                                                                    \
        "threads", U64_AT(model.threads, "N", "0", 0, 1024),                             \
            "number of threads; 0: one per core"                                         \
    }

struct opened_model {
    char dir[FILE_PATH_MAX];
    struct saved_run run;
    struct team *team;
    struct parameters parameters;
    const char *format; // format of the data
    struct reader *reader;
    struct source *source;
    uint64_t bad_lines;
    // The caller sets these before it opens the data. `eager`: takes lines as they
    // arrive. `interrupted`: when it becomes true, a wait for data or an evaluation ends;
    // may be NULL.
    bool eager;
    const atomic_bool *interrupted;
    // Receives warnings that the features of the data are numbered differently from those
    // of the model's data; NULL: the log gets them.
    void (*warn)(void *ctx, const char *text);
    void *warn_ctx;
};

// Opens a model and data to score. `labels`: each line must have a label.
int model_open(struct opened_model *m, const struct model_values *v, bool labels,
               struct err *e);
// These functions do what model_open does, in three steps: model_read reads the
// description; model_open_data opens data, in place of earlier data; model_load loads the
// rows.
int model_read(struct opened_model *m, const char *from, uint64_t threads, struct err *e);
int model_open_data(struct opened_model *m, const struct model_values *v, bool labels,
                    struct err *e);
int model_load(struct opened_model *m, struct err *e);
// If the model was trained on the output of a --pipe-command, and no command was given
// now, appends this fact to an error about reading the data. Returns rc.
int model_read_error(const struct opened_model *m, const struct model_values *v, int rc,
                     struct err *e);
void model_close(struct opened_model *m); // a zeroed struct is fine

struct evaluation_options model_evaluation(struct opened_model *m,
                                           const struct model_values *v);

// Returns the number of threads; 0 means all processors that this process may use.
int model_threads(uint64_t wanted);

// Explains the names of columns, in the help of options that take them.
#define GROUP_COLUMNS                                                                    \
    "Columns of csv by their names (also dropped ones), of criteo I1 to I13 and C1 to "  \
    "C26, of libffm a field's number, of multislot a slot's name"

// Explains the names of columns of features.
#define FEATURE_COLUMNS                                                                  \
    "Columns of csv by their names, of criteo I1 to I13 and C1 to C26, of libffm a "     \
    "field's number, of multislot a slot's name"

// The choices of the data format: "trained", followed by the formats.
#define MODEL_FORMATS "trained" READER_FORMATS(READER_FORMAT_WORD)

#endif
