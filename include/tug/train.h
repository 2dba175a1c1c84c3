// tug: trains, evaluates and uses models inside a program.
//
// `tug train`, `tug eval` and `tug predict` as functions. Options have the commands' long
// names, as texts "name=value", such as "model=fm", "lr=0.05" and "test=day2.tsv"; a
// switch may be only "name", and an option with several values is given several times.
// The manual of each command and tug_model_option list the options. As with the commands,
// values may also come from TUG_<NAME> in the environment and from a file
// ("config=run.yaml"), and errors have the same texts.
//
// A model is trained by this process alone, on files or on rows in memory, or with other
// workers on a cluster (below). A trained model is stored as saves in the directory that
// the option "out" names, or else in a directory in $TMPDIR (/tmp), which tug_model_close
// removes. The same options and data give the same files as the command.
//
// Ownership: arrays and texts belong to the caller and are read during the call only,
// except `progress` and its ctx.
//
// Threads: any thread may call. Calls on the same model, except tug_model_interrupt, wait
// for each other without a time limit. A model keeps only the results of its last call
// (tug_model_result, _predictions, _spread, _label, _tables, the text of _explain);
// threads that share a model need a lock around a call and the reading of its results.
// Each call works with as many threads as the option "threads" says. Warnings are written
// to standard error; tug_last_warning (tug/tug.h) also returns those about scored data and
// about the options of a model.
// While a call trains, its option "log-level" selects the warnings of the whole process;
// if several calls train at the same time, the quietest level counts.
//
// On a cluster: tug_model_train trains with the other workers of a cluster, as tug train
// does there, if the options have a client (tug/tug.h) or the environment makes this
// process a worker (DMLC_ROLE, TRAINING_ROLE). The option "mode" selects the mode. All
// workers make the same calls in the same order, with the same options, and a call
// returns when all workers have done their part. A driver is not needed. All workers name
// the same files, which are divided among them; or each worker has files of its own
// (own_files; not in mode sync). The servers hold the rows. Only the first worker (rank
// 0) has the saves, so the option "out", tests, tug_model_evaluate, _predict and _save
// are of use only there. Results and records of training cover all workers together,
// except seconds; _spread and the progress within a pass cover this worker's part alone.
// A worker whose call fails leaves the cluster. If a worker dies or leaves, its examples
// are missing: the call fails with TUG_EIO at all other workers, and tug_last_error names
// the missing worker; the program then starts all workers again from the last save. On a
// cluster a call returns TUG_EUSAGE for rows in memory and for the options valid, refit,
// table, shuffle=global, score-by=workers, keep-names, merge-ids, publish, fetch and
// dump.
//
// Functions return 0 or a code of tug/tug.h, and tug_last_error() is the sentence:
// TUG_EUSAGE for a wrong option, or data that does not fit the model; TUG_EDATA for a
// wrong file, line or row (tug_last_error names it); TUG_EIO; TUG_ENOMEM. A call that
// fails or is interrupted leaves the model unchanged; with the option "out" an
// interrupted call saves its work so far, as the command does.
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

// The progress of a pass. tug_model_train gives it to the callback
// tug_model_options.progress a few times a second (with the option "log-every=N": once every
// N batches) and once at the end of each pass. The metrics are those of the first label; a
// metric that is not known is NAN.
struct tug_progress {
    uint32_t pass;     // number of this pass, from 1, over all calls for the model
    uint32_t passes;   // number of this call's last pass, counted in the same way
    double share;      // fraction of the pass that is done, 0 to 1; negative: not known
    bool done;         // the pass has ended
    uint64_t examples; // number of examples of the pass trained on so far
    // The loss and AUC of these examples, each predicted before it was trained on.
    double loss, auc;
    // The loss and AUC on the validation data, which are known when the pass has ended.
    double valid_loss, valid_auc;
};

// The record of a finished pass (the option "history" writes the records to a file, as
// lines of JSON). A metric that is not known is NAN.
struct tug_pass {
    uint32_t pass; // number of the pass, from 1, over all calls for this model
    // Number of examples trained on, without those held out for validation.
    uint64_t examples;
    // The loss and AUC of these examples, each predicted before it was trained on.
    double loss, auc;
    uint64_t valid_examples;      // number of validation examples; 0: no validation
    double valid_loss, valid_auc; // the loss and AUC of the validation examples
    double seconds; // time for reading, training and validation, but not for saves
    bool best;      // whether validation was better than after each earlier pass
};

struct tug_model_options {
    const char *const *options; // options of `tug train`, as "name=value"
    size_t n_options;
    // Called by the thread that called tug_model_train, during the call; NULL: no
    // reports. It may call tug_model_interrupt for its model, and no other function of
    // this header.
    void (*progress)(void *ctx, const struct tug_progress *p);
    void *ctx;
    // Trains in this process alone even if the environment gives it a role in a cluster
    // (DMLC_ROLE, TRAINING_ROLE). In a process with the role of a server or scheduler
    // `alone` must be true (else TUG_EUSAGE).
    bool alone;
    // A client of the cluster to train on; the model trains as this worker. The client
    // must outlive the model, and the program must not use it during a call of
    // tug_model_train. NULL: the first tug_model_train joins the cluster of the
    // environment, if it names one, and tug_model_close leaves it.
    struct tug_client *client;
    // On a cluster: true if each worker passes its own files; a worker may pass no files.
    bool own_files;
    // Called after each pass, once and in order, by the thread that called
    // tug_model_train, also with the option "quiet"; NULL: not called.
    void (*on_pass)(void *ctx, const struct tug_pass *p);
};

// Opens a new model. `o` may be NULL: all options have their defaults. Options are
// checked now, except those about the data files. Returns TUG_EUSAGE, and leaves *ret
// unchanged, if an option is wrong, or is "data" (which tug_model_train gets instead),
// "json", "log-dir" or "cv".
TUG_API int tug_model_open(struct tug_model **ret, const struct tug_model_options *o);
// Opens a saved model: `path` is the directory of one save, or a directory of saves, in
// which the newest one is used. The save is read when the model is first used. If `o` is
// NULL, the model cannot be trained. Otherwise it can be trained further. Options that
// change the result must have the values of the earlier training; if the options name a
// model, its dim and layers are checked now. TUG_EDATA if there is no save, or the save
// does not name its model.
TUG_API int tug_model_load(struct tug_model **ret, const char *path,
                           const struct tug_model_options *o);
// Frees the model, removes its files in $TMPDIR, and leaves the cluster if
// tug_model_train has joined it. No other thread may be using it. NULL is fine.
TUG_API void tug_model_close(struct tug_model *m);

// Examples in memory (CSR): the features of row i are those from offsets[i] up to, but
// not including, offsets[i + 1].
struct tug_rows {
    size_t n;                // number of rows
    const float *labels;     // n labels; NULL: none, for predictions
    const uint64_t *offsets; // n + 1 positions in keys, fields and values, ascending
    const uint64_t *keys;    // keys of the features: indices or hashes
    const uint32_t *fields;  // one per feature (format libffm); NULL: none (libsvm)
    const float *values;     // one per feature, finite; NULL: all are 1
    const float *weights;    // n weights of examples, not negative; NULL: all are 1
    // For rows of a sparse matrix, whose keys are column numbers from 0: the number of
    // its columns. tug warns if the model was trained on a matrix of another width. 0:
    // the rows do not belong to a matrix.
    size_t columns;
};

// A dense matrix in memory, a row per example. The keys of the features are the numbers
// of the columns, from 0 (format libsvm); zeros are not features.
struct tug_matrix {
    size_t n, columns;
    const float *labels; // n labels; NULL: none, for predictions
    const void *values;  // address of the value at row 0, column 0
    bool doubles;        // true: values are doubles; false: floats
    // The distances in bytes from one row to the next, and from one column to the next.
    ptrdiff_t row_bytes, column_bytes;
    const float *weights; // n weights of examples, not negative; NULL: all are 1
};

// Columns in memory (format csv), through the Arrow C data interface: a stream, or a
// schema and an array of structs. Columns of numbers are numeric unless `categorical`
// names them; text, bool, dates, times, decimals and dictionaries are categories; a cell
// with a list has several values; nulls and NaN are missing values. Options about a
// column override this. A category's word is the text that polars writes for the cell
// into a csv file. If the schema's metadata has the key tug.python (with any value), it
// is the text that pandas and Python write. Labels are in `labels`, or in the column that
// the option "label" names; weights are in `weights`, or in the column that `weight` or
// the option "weight-column" names. The call that gets the columns releases them, also
// when it fails.
struct tug_columns {
    struct ArrowArrayStream *stream; // NULL: `schema` and `array` are used
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    // The label of each row, n_labels in all. NULL: a column has the labels, or there are
    // no labels.
    const float *labels;
    size_t n_labels;
    const char *const *categorical;
    size_t n_categorical;
    // The weights of the rows: either `weights`, n_weights numbers, finite, not negative
    // and not all 0; or `weight`, the name of a column of weights, which then is not a
    // feature. If both are NULL, the option "weight-column" names the column; without
    // this option all weights are 1. Predictions do not use weights.
    const float *weights;
    size_t n_weights;
    const char *weight;
};

// The data of a call: either files, as for --data, or rows, a matrix or columns in
// memory, which are not copied. Data in memory and the same data as lines of text give
// bit-identical models, unless the text is read as a stream (option "data-in"), which may
// change the order of examples.
struct tug_data {
    const char *const *paths;
    size_t n_paths;
    const struct tug_rows *rows;       // NULL: the data is not rows
    const struct tug_matrix *matrix;   // NULL: the data is not a matrix
    const struct tug_columns *columns; // NULL: the data is not columns
};

// Trains as many passes over the data as the option "epochs" says. A further call
// continues the run: it keeps the states of the optimizer, schedules, shuffles and, with
// validation, the best pass. So two calls of one pass over the same data equal one call
// of two passes. All data of a run has one format and the same columns. `valid` (may be
// NULL) is the validation data, in memory in the same format or as one path; it replaces
// the option "valid". TUG_EINTERRUPTED: see tug_model_interrupt and tug_interrupt_by.
TUG_API int tug_model_train(struct tug_model *m, const struct tug_data *data,
                            const struct tug_data *valid);

// Evaluates the model on data with labels; tug_model_result then returns the metrics.
// `options` are options of `tug eval`, except "from", "data" and "json".
TUG_API int tug_model_evaluate(struct tug_model *m, const struct tug_data *data,
                               const char *const *options, size_t n_options);
// Returns the tables of the last tug_model_evaluate as a JSON object, in the form of the
// last line of `tug eval --json`. The object has a member for each of the options "by",
// "importance" and "calibration" that the call had. If the call had the option "report",
// and the importance was measured, it has "importance", too. The text is valid until the
// next call on the model. Returns NULL if the last call on the model was not
// tug_model_evaluate, or failed.
TUG_API const char *tug_model_tables(const struct tug_model *m);

// Predicts probabilities, or, for a model with loss=squared, numbers. A model with
// several labels gives a prediction for each label, in the order of tug_model_label,
// example after example. The predictions are written to `ret`, which has room for `room`
// floats;
// *ret_n is their number. If `ret` is NULL, the model keeps them for
// tug_model_predictions. Labels in the data are ignored. `options` are the options of
// `tug predict` about reading data, and "raw"; a line that max-bad-lines skips gives NAN.
// TUG_EUSAGE if `room` is too small; *ret_n is then the room that is needed.
TUG_API int tug_model_predict(struct tug_model *m, const struct tug_data *data,
                              const char *const *options, size_t n_options, float *ret,
                              size_t room, size_t *ret_n);
// Returns the number of columns of the widest matrix (a tug_matrix, or tug_rows with
// `columns`) that the model was trained on, including training before it was saved and
// loaded. Returns 0 if it was not trained on a matrix, or its save does not hold the
// number.
TUG_API uint64_t tug_model_columns(struct tug_model *m);
// Returns the predictions of the last tug_model_predict with `ret` NULL, and their number
// in *ret_n. The array is valid until the next call on the model. Without such a call,
// the function returns NULL and *ret_n is 0.
TUG_API const float *tug_model_predictions(const struct tug_model *m, size_t *ret_n);

// Explains predictions as text, with one JSON object in a line (as printed by `tug
// predict --explain --json`): the bias, the contributions of each feature (by itself, by
// its pairs with other features, and through the layers), and the pairs with the largest
// contributions. `options` are the options of `tug predict` about reading data, and
// "top". *ret is valid until the next call on the model. TUG_EUSAGE if the model has
// several labels.
TUG_API int tug_model_explain(struct tug_model *m, const struct tug_data *data,
                              const char *const *options, size_t n_options,
                              const char **ret);

// Gets the i-th result, from 0, of the last tug_model_train or tug_model_evaluate.
// Returns false if there is no such result, or that call failed. *ret_name is valid until
// the next of these calls.
//
//   after evaluate   examples, auc, pr_auc, logloss, ne, copc, mae, rmse, gauc; NAN: the
//                    metric is not defined
//   after train      examples (trained on in a pass), held_out (by the option "valid"),
//                    epochs (of all calls), keys, skipped_lines, read_seconds, train_seconds,
//                    valid_seconds, save_seconds, test_seconds, other_seconds,
//                    total_seconds (of all these); train.auc, train.logloss of the last
//                    pass, with each example scored before it was trained on
//   also             with validation: best_epoch, and valid.auc, valid.logloss, ... of the
//                    pass that is kept; with the option `test`: test.auc, ...
//
// With several labels these are the results of the first label; results of the other
// labels are named "LABEL:auc", "test.LABEL:auc".
TUG_API bool tug_model_result(const struct tug_model *m, size_t i, const char **ret_name,
                              double *ret);

// Gets the record of the model's i-th pass for the label with this number; both count
// from 0. Works also for a model that was loaded from a save. Returns false if there is
// no such pass or label.
TUG_API bool tug_model_pass(const struct tug_model *m, size_t i, uint32_t label,
                            struct tug_pass *ret);

// Gets two histograms of scores (before the sigmoid), of the first label: the sums of the
// weights of examples with label 1, and of all other examples. They are those of the last
// tug_model_evaluate, or of the last pass of tug_model_train (each example scored before
// it was trained on). Buckets have equal width from -8 to 8; the first and last also
// count lower and higher scores. A program can compute the AUC over all workers from the
// sums of their histograms. Returns the number of buckets of each array, 0 if there is no
// prediction yet. The arrays are valid until the next call on the model.
TUG_API size_t tug_model_spread(const struct tug_model *m, const double **ret_positive,
                                const double **ret_negative);

// These functions return the number of labels of an example (0 before training), and the
// name of the i-th label ("" if it has no name; NULL if there is no such label). The text
// is valid until the next call on the model.
TUG_API uint32_t tug_model_labels(struct tug_model *m);
TUG_API const char *tug_model_label(struct tug_model *m, uint32_t i);

// Saves the model into `directory`, in the form in which tug train saves into --out. The
// directory must be empty or not exist. tug_model_load, tug eval, tug predict
// and --init-from read it. The save appears when it is complete. TUG_EUSAGE if the directory
// is not empty, or the model is not trained; TUG_EIO if it cannot be written.
TUG_API int tug_model_save(struct tug_model *m, const char *directory);

// Writes an HTML page about the training of the model: passes, options, the pass that is
// kept (see `tug report --help`). The option "report=FILE.html" of tug_model_evaluate writes a page
// that also shows metrics and predictions on data. `path` is a new file or an earlier
// report, which is replaced when the page is complete. TUG_EUSAGE if the file is something
// else, or the model is not trained; TUG_EIO if it cannot be written.
TUG_API int tug_model_report(struct tug_model *m, const char *path);

// Ends the current call on the model, with TUG_EINTERRUPTED; later calls are not affected.
// Any thread and a signal handler may call it.
TUG_API void tug_model_interrupt(struct tug_model *m);

// An option of a command. tug_model_option gets the i-th option, from 0, of the command
// "train", "eval" or "predict", and returns false if there is no such option or command.
// Texts are constants; `default_text` is NULL if the option does not have a default, or
// its default depends on other options.
struct tug_option {
    const char *name, *help, *default_text;
    bool is_switch; // whether its value is true or false
    bool is_list;   // whether it may be given several times
};
TUG_API bool tug_model_option(const char *command, size_t i, struct tug_option *ret);
// Guesses the option that a user meant by `name`: an option of the command with a similar
// name, or one that other programs call `name` ("lr" for "learning_rate"). Returns NULL
// if there is no such option.
TUG_API const char *tug_model_option_meant(const char *command, const char *name);
// For Python's package: tug_option_keywords changes the names of options in a sentence of
// the library to Python's keywords, in place, so that --pipe-command becomes pipe_command
// and --drop 'k' becomes drop='k'. A quoted command ('tug train --lr 1') stays as it is.
// tug_log_keywords(true) does the same to later warnings of this process.
TUG_API void tug_option_keywords(char *text);
TUG_API void tug_log_keywords(bool yes);

#ifdef __cplusplus
}
#endif

#endif
