// tug: models trained, evaluated and asked for predictions inside a program.
//
// `tug train`, `tug eval` and `tug predict` as functions. Options are those of the
// commands, by their long names, as texts "name=value" (a switch also as "name"): "model=fm",
// "lr=0.05", "test=day2.tsv" (again for a second file). Lists are in the manual of each command,
// and in tug_model_option. Values come from TUG_<NAME> in the environment and from a file
// ("config=run.yaml"), too, as they do there; errors are the same sentences.
//
// A model is trained by this process alone, on files or on rows in memory, or with other
// workers on a cluster (below). A trained model is kept in saves: under the option
// "out", or in a directory of the model's own in $TMPDIR (/tmp), which tug_model_close
// removes. The same options and the same text give the same files as the command does.
//
// Ownership: arrays and texts that are handed over are the caller's and are read during the
// call only, but for `progress` and its ctx.
//
// Threads: any thread may call. Calls on one model wait for each other, as long as they take, but
// for tug_model_interrupt. What a call leaves in its model to be read (tug_model_result,
// _predictions, _spread, _label, _tables, the text of _explain) is the last call's:
// threads that share a model hold a lock of their own around a call and what they read of it.
// Each call works with as many threads as the option "threads" says. Warnings go to standard error;
// "log-level" says which, for the whole process while a call trains, of several calls at the same
// time the quietest one's.
//
// On a cluster: where the options have a client (tug/tug.h), or the environment makes
// this process a worker of one (DMLC_ROLE, TRAINING_ROLE), tug_model_train is what tug
// train is on a cluster, with the modes that the option "mode" names. All workers make
// the same calls, with the same options, one after the other, and a call returns when all
// have done their part. Nobody has to drive them. All give the same files, and share them
// out among them; or each has files of its own (own_files; not in mode sync). Rows are
// the servers'. The first worker (rank 0) has the saves, and so the option "out", tests,
// tug_model_evaluate, _predict and _save. Results and records of training are of all
// workers together, in each of them, but for seconds, which are its own; _spread and the
// progress within a pass are of its own part. A worker whose call fails leaves the
// cluster. Where one has died or left, what is trained lacks its examples: the call fails
// with TUG_EIO in all others, and names it; they start again from the last save. Not
// there, and TUG_EUSAGE: valid, refit, table, shuffle=global, score-by=workers,
// keep-names, merge-ids, publish, fetch, dump, and rows in memory.
//
// Functions return 0 or a code of tug/tug.h, and tug_last_error() is the sentence; TUG_EUSAGE: an
// option, or data that does not fit the model; TUG_EDATA: a file, or a line or row of the data,
// which the sentence names; TUG_EIO; TUG_ENOMEM. A call that failed or was interrupted leaves the
// model as it was; one that has the option "out" saves what was done when it is interrupted, as the
// command does.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_H
#define TUG_TRAIN_H

#include <stddef.h>

#include "tug/arrow.h"
#include "tug/tug.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tug_model;

// How a pass of tug_model_train goes, a few times a second, and once at the end of each pass, in
// order. Of several labels the first one counts. NAN: there is none.
struct tug_progress {
    uint32_t pass, passes;        // from 1; of all calls for this model
    double share;                 // of the pass, 0 to 1; negative: not known
    bool done;                    // the pass is
    uint64_t examples;            // of the pass so far
    double loss, auc;             // of these, each before it was trained on
    double valid_loss, valid_auc; // of a pass that is done, with validation
};

// The record of a pass that has ended (option "history" writes it to a file, as lines of JSON).
// NAN: there is none.
struct tug_pass {
    uint32_t pass;           // from 1; of all calls for this model
    uint64_t examples;       // trained on, without those held out for validation
    double loss, auc;        // of these, each before it was trained on
    uint64_t valid_examples; // 0: there is no validation
    double valid_loss, valid_auc;
    double seconds; // reading, training and validation, without saves
    bool best;      // validation was better than after all passes before
};

struct tug_model_options {
    const char *const *options; // of `tug train`
    size_t n_options;
    // Called by the thread that called tug_model_train, while that waits; NULL: no
    // function is called, and nothing is printed. It may call tug_model_interrupt for its
    // model, nothing else of this header.
    void (*progress)(void *ctx, const struct tug_progress *p);
    void *ctx;
    // Train in this process alone although the environment gives it a role in a cluster
    // (DMLC_ROLE, TRAINING_ROLE). A process that is a server or the scheduler there cannot train
    // without: TUG_EUSAGE.
    bool alone;
    // The cluster to train on, as this worker of it; it has to outlive the model, and nothing else
    // goes on through it during a call. NULL: as the environment says, which the first
    // tug_model_train joins, for as long as there is the model.
    struct tug_client *client;
    bool own_files; // on a cluster: each worker has other files than the others, or none
    // Called after each pass, once and in order, by the same thread as `progress`, but without
    // regard to it or to the option "quiet". NULL: no function is called.
    void (*on_pass)(void *ctx, const struct tug_pass *p);
};

// A model that has learnt nothing yet. `o` may be NULL: no options. They are looked at
// now, those of --data and its files excepted. TUG_EUSAGE: they cannot be; *ret is as it
// was. Not for programs: data (of tug_model_train), json, log-dir, cv.
TUG_API int tug_model_open(struct tug_model **ret, const struct tug_model_options *o);
// A saved model: the newest save in the directory `path`, or one save. It is read when it
// is first used. With options it can be trained further: they have to be those that it
// was trained with, as far as the result depends on them; where they name a model, its
// dim and layers are looked at now. NULL: it cannot be trained. TUG_EDATA: there is no
// save, or it does not say what model it is of.
TUG_API int tug_model_load(struct tug_model **ret, const char *path,
                           const struct tug_model_options *o);
// Frees it, and removes what it keeps in $TMPDIR; where it joined a cluster by itself it leaves.
// No other thread is in it. NULL is fine.
TUG_API void tug_model_close(struct tug_model *m);

// Examples in memory (CSR): those of row i are at offsets[i] to offsets[i + 1], excluded.
struct tug_rows {
    size_t n;                // rows
    const float *labels;     // n; NULL: none, for predictions
    const uint64_t *offsets; // n + 1, ascending
    const uint64_t *keys;    // of features: their indices, or hashes
    const uint32_t *fields;  // one a feature (format libffm); NULL: none (libsvm)
    const float *values;     // one a feature, finite; NULL: all are 1
    const float *weights;    // of the examples: n, not negative; NULL: all are 1
    // Of the matrix that they are, whose columns' numbers are the keys; 0: they are none. It says
    // that keys begin at 0, and is compared with the columns that the model learnt from.
    size_t columns;
};

// A dense matrix in memory, whose columns' numbers are the keys of features (format libsvm).
// Zeros are left out.
struct tug_matrix {
    size_t n, columns;
    const float *labels;               // n; NULL: none, for predictions
    const void *values;                // of row 0, column 0
    bool doubles;                      // else they are floats
    ptrdiff_t row_bytes, column_bytes; // from one row, and from one column, to the next
    const float *weights;              // of the examples, as above; NULL: all are 1
};

// Columns in memory (format csv), as the Arrow C data interface hands them over: a
// stream, or a schema and an array of structs. Numbers are numeric, unless they are named
// `categorical`; text, bool, dates, times, decimals and dictionaries are categories,
// lists several values; nulls and NaN are missing; weights of examples are a column,
// which the option weight-column names, or stand beside the columns. What the options say
// of a column goes first. The word of a cell is what polars writes for it into a csv
// file, or what pandas and Python write, where the schema's metadata has the key
// tug.python (its value does not matter). The column of the label is named by the option
// "label", or labels stand beside the columns. The call releases its arguments, also when it fails.
struct tug_columns {
    struct ArrowArrayStream *stream; // NULL: the next two
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    const float *labels; // beside the columns; NULL: none
    size_t n_labels;
    const char *const *categorical;
    size_t n_categorical;
    // Of the examples, beside the columns: one a row, finite, not negative and not all 0; or the
    // name of the column that has them, which then is not a feature. NULL: all are 1, or the option
    // weight-column names their column. Predictions do not look at them.
    const float *weights;
    size_t n_weights;
    const char *weight;
};

// Files, as --data takes them, or rows in memory: one of these. Rows are the same examples as
// the lines of text that say the same in that format, and give the same model, bit for bit; they
// are read where they lie. With data that is streamed (data-in) the order of examples may be
// another one than that of the text.
struct tug_data {
    const char *const *paths;
    size_t n_paths;
    const struct tug_rows *rows;       // or NULL
    const struct tug_matrix *matrix;   // or NULL
    const struct tug_columns *columns; // or NULL
};

// So many passes as the option "epochs" says, over all of the data. The next call
// continues from there, with optimizer, schedules, shuffles, and the best pass where
// there is validation: on the same data two calls of one pass are one call of two. Data
// of one run has one format and the same columns. `valid` (may be NULL): rows of that
// format, or one path, instead of the option of that name. TUG_EINTERRUPTED:
// tug_model_interrupt, or the function of tug_interrupt_by.
TUG_API int tug_model_train(struct tug_model *m, const struct tug_data *data,
                            const struct tug_data *valid);

// Metrics on data with labels, which tug_model_result then says. Options are those of `tug
// eval`, without from, data and json.
TUG_API int tug_model_evaluate(struct tug_model *m, const struct tug_data *data,
                               const char *const *options, size_t n_options);
// Returns the tables of the last tug_model_evaluate: a JSON object with the members by, importance
// and calibration, as far as the options of these names were given ("{}": none was), as in the last
// line of `tug eval --json`. The text is valid until the next call on the model. Returns NULL if
// the last call was another one, or failed.
TUG_API const char *tug_model_tables(const struct tug_model *m);

// Predictions: probabilities, or numbers of a model with loss=squared; of a model with several
// labels one for each, in the order of tug_model_label, example after example. They go to `ret`,
// which has room for `room` floats; *ret_n is how many there are. With ret NULL the model keeps
// them for tug_model_predictions. Labels in the data are passed over. Options are those of `tug
// predict` that say how data is read, and raw; lines that are skipped by max-bad-lines give
// NAN. TUG_EUSAGE: there is too little room; *ret_n says how much there has to be.
TUG_API int tug_model_predict(struct tug_model *m, const struct tug_data *data,
                              const char *const *options, size_t n_options, float *ret,
                              size_t room, size_t *ret_n);
// The columns of the widest matrix that it learnt from (rows with `columns`, or a
// tug_matrix), those before it was saved and loaded included; 0: none, or a save
// from before saves had it.
TUG_API uint64_t tug_model_columns(struct tug_model *m);
// Those of the last tug_model_predict with ret NULL, and in *ret_n how many; valid until the next
// call on the model. NULL and 0: there are none.
TUG_API const float *tug_model_predictions(const struct tug_model *m, size_t *ret_n);

// Predictions taken apart, one JSON object a line, as `tug predict --explain --json`
// prints them: the bias, what each feature adds by itself, by its pairs and to the
// layers, and the largest pairs. Options are those of `tug predict` that say how data
// is read, and top. *ret is valid until the next call on the model. TUG_EUSAGE: the
// model has several labels.
TUG_API int tug_model_explain(struct tug_model *m, const struct tug_data *data,
                              const char *const *options, size_t n_options,
                              const char **ret);

// The results of the last tug_model_train or tug_model_evaluate, by numbers from 0
// on; false: there is no such result, or the call failed. *ret_name is valid until
// the next one of these.
//
//   after evaluate   examples, auc, pr_auc, logloss, ne, copc, mae, rmse, gauc; NAN: there is none
//   after train      examples (trained on in a pass), held_out (others, by the option valid),
//                    epochs (of all calls), keys, skipped_lines, read_seconds, train_seconds,
//                    valid_seconds, save_seconds, test_seconds, other_seconds,
//                    total_seconds (of all); train.auc, train.logloss of the last pass, each
//                    example before it was trained on; with validation best_epoch and
//                    valid.auc, ... of the kept pass; with the option test test.auc, ...
//
// Of several labels these are the first one's, and further ones "LABEL:auc", "test.LABEL:auc".
TUG_API bool tug_model_result(const struct tug_model *m, size_t i, const char **ret_name,
                              double *ret);

// The record of a pass, by numbers 0 and on, of each of the model's passes so far; also of a model
// that was loaded from a save. `label`: of several labels which one, from 0. False: there are no
// more, or no such label.
TUG_API bool tug_model_pass(const struct tug_model *m, size_t i, uint32_t label,
                            struct tug_pass *ret);

// How predictions spread: of the examples of the last tug_model_evaluate, or of the last pass
// of tug_model_train (each before it was trained on), the weight of those with label 1 and of
// those without, by their score before the sigmoid, in buckets of equal width from -8 to 8; what
// is less or more is in the first and last. By the first label. Of many workers' they can be added,
// and give their AUC. The number of buckets, which both arrays have; 0: there is nothing yet. Valid
// until the next call.
TUG_API size_t tug_model_spread(const struct tug_model *m, const double **ret_positive,
                                const double **ret_negative);

// Labels of an example, and what the i-th is called ("" where it has no name; NULL: there is no
// such label). 0: nothing was trained yet. The text is valid until the next call on the model.
TUG_API uint32_t tug_model_labels(struct tug_model *m);
TUG_API const char *tug_model_label(struct tug_model *m, uint32_t i);

// Into `directory`, which is empty or not there: a saved model, as --out of tug train
// makes it, which tug_model_load, tug eval, tug predict and --init-from take. It is there
// when it is complete. TUG_EUSAGE: there is another one or something else in it, or nothing was
// trained; TUG_EIO: it cannot be written.
TUG_API int tug_model_save(struct tug_model *m, const char *directory);

// Ends the call that is at work on the model, with TUG_EINTERRUPTED; later calls are not
// concerned. From any thread, and from the handler of a signal.
TUG_API void tug_model_interrupt(struct tug_model *m);

// An option of a command ("train", "eval", "predict"), by numbers 0 and on; false: there
// are no more, or no such command. Texts are constant; `default_text` may be NULL: there
// is no default, or it depends on others.
struct tug_option {
    const char *name, *help, *default_text;
    bool is_switch; // true or false
    bool is_list;   // may be given several times
};
TUG_API bool tug_model_option(const char *command, size_t i, struct tug_option *ret);
// The option of the command that `name` probably stands for: it is near, or what other programs
// say ("learning_rate": "lr"). NULL: none.
TUG_API const char *tug_model_option_meant(const char *command, const char *name);
// Writes the options that a sentence of the library names as Python's keywords, in place:
// pipe_command for --pipe-command. What is in a command ('tug train --lr 1') stays. And whether
// warnings of this process name them so, from now on.
TUG_API void tug_option_keywords(char *text);
TUG_API void tug_log_keywords(bool yes);

#ifdef __cplusplus
}
#endif

#endif
