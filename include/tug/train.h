// tug: trains, evaluates and uses models inside a program.
//
// `tug train`, `tug eval` and `tug predict` as functions. Options have the commands' long
// names, as texts "name=value" (a switch also as "name"): "model=fm", "lr=0.05",
// "test=day2.tsv" (again for a second file). The manual of each command and
// tug_model_option list them. As there, values also come from TUG_<NAME> in the
// environment and from a file ("config=run.yaml"), and errors are the same sentences.
//
// A model is trained by this process alone, on files or on rows in memory, or with other
// workers on a cluster (below). A trained model is kept in saves: under the option "out",
// or in a directory in $TMPDIR (/tmp), which tug_model_close removes. The same options
// and data give the same files as the command.
//
// Ownership: arrays and texts belong to the caller and are read during the call only,
// except `progress` and its ctx.
//
// Threads: any thread may call. Calls on one model wait for each other without a limit,
// except tug_model_interrupt. The results that a call leaves in its model
// (tug_model_result, _predictions, _spread, _label, _tables, the text of _explain) are
// those of the last call: threads that share a model need a lock around a call and the
// reading of its results. Each call works with as many threads as the option "threads"
// says. Warnings go to standard error; "log-level" selects them for the whole process
// while a call trains, and of several calls at a time the quietest level counts.
//
// On a cluster: where the options have a client (tug/tug.h), or the environment makes
// this process a worker of one (DMLC_ROLE, TRAINING_ROLE), tug_model_train is what tug
// train is on a cluster, with the modes that the option "mode" names. All workers make
// the same calls, with the same options, one after the other, and a call returns when all
// have done their part. They need no driver. All give the same files, and share them out
// among them; or each has files of its own (own_files; not in mode sync). Rows are the
// servers'. The first worker (rank 0) has the saves, and so the option "out", tests,
// tug_model_evaluate, _predict and _save. Results and records of training are of all
// workers together, in each of them, but for seconds, which are its own; _spread and the
// progress within a pass are of its own part. A worker whose call fails leaves the
// cluster. Where one has died or left, what is trained lacks its examples: the call fails
// with TUG_EIO in all others, and names it; they start again from the last save. Not
// there, and TUG_EUSAGE: valid, refit, table, shuffle=global, score-by=workers,
// keep-names, merge-ids, publish, fetch, dump, and rows in memory.
//
// Functions return 0 or a code of tug/tug.h, and tug_last_error() is the sentence:
// TUG_EUSAGE for a wrong option, or data that does not fit the model; TUG_EDATA for a
// wrong file, line or row, which the sentence names; TUG_EIO; TUG_ENOMEM. A call that
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

// The progress of a pass of tug_model_train, reported a few times a second, and once at
// the end of each pass, in order. With several labels the metrics are those of the first.
// NAN: not known.
struct tug_progress {
    uint32_t pass, passes; // from 1, over all calls for this model
    double share;          // share of the pass that is done, 0 to 1; negative: not known
    bool done;             // the pass has ended
    uint64_t examples;     // of the pass so far
    double loss, auc;      // of these examples, each before it was trained on
    double valid_loss, valid_auc; // of a finished pass, with validation
};

// The record of a finished pass (the option "history" writes it to a file, as lines of
// JSON). NAN: not known.
struct tug_pass {
    uint32_t pass;           // from 1, over all calls for this model
    uint64_t examples;       // trained on, without those held out for validation
    double loss, auc;        // of these examples, each before it was trained on
    uint64_t valid_examples; // 0: no validation
    double valid_loss, valid_auc;
    double seconds; // reading, training and validation, without saves
    bool best;      // validation was better than after all passes before
};

struct tug_model_options {
    const char *const *options; // of `tug train`
    size_t n_options;
    // Called by the thread that called tug_model_train, during the call; NULL: no
    // reports, and nothing is printed. It may call tug_model_interrupt for its model, and
    // no other function of this header.
    void (*progress)(void *ctx, const struct tug_progress *p);
    void *ctx;
    // Trains in this process alone even if the environment gives it a role in a cluster
    // (DMLC_ROLE, TRAINING_ROLE). A process with the role of a server or scheduler can
    // only train so (else TUG_EUSAGE).
    bool alone;
    // The cluster to train on, as this worker of it. The client must outlive the model
    // and have no other use during a call. NULL: the cluster of the environment, which
    // the first tug_model_train joins until the model is closed.
    struct tug_client *client;
    bool own_files; // on a cluster: each worker has its own files, or none
    // Called after each pass, once and in order, by the same thread as `progress`,
    // whether or not that or the option "quiet" is set. May be NULL.
    void (*on_pass)(void *ctx, const struct tug_pass *p);
};

// Opens a new model. `o` may be NULL: no options. Options are checked now, except those
// about the data files. TUG_EUSAGE if one is wrong; *ret is unchanged then. Programs
// cannot set data (see tug_model_train), json, log-dir and cv.
TUG_API int tug_model_open(struct tug_model **ret, const struct tug_model_options *o);
// Opens a saved model: the newest save in the directory `path`, or one save. It is read
// at its first use. With options it can be trained further; options that change the
// result must be those that it was trained with; if they name a model, its dim and layers
// are checked now. NULL: it cannot be trained. TUG_EDATA if there is no save, or the save
// does not name its model.
TUG_API int tug_model_load(struct tug_model **ret, const char *path,
                           const struct tug_model_options *o);
// Frees the model, removes its files in $TMPDIR, and leaves a cluster that it joined
// itself. No other thread may be using it. NULL is fine.
TUG_API void tug_model_close(struct tug_model *m);

// Examples in memory (CSR): the features of row i are those from offsets[i] up to, but
// not including, offsets[i + 1].
struct tug_rows {
    size_t n;                // rows
    const float *labels;     // n labels; NULL: none, for predictions
    const uint64_t *offsets; // n + 1, ascending
    const uint64_t *keys;    // of the features: indices or hashes
    const uint32_t *fields;  // one per feature (format libffm); NULL: none (libsvm)
    const float *values;     // one per feature, finite; NULL: all are 1
    const float *weights;    // n weights of examples, not negative; NULL: all are 1
    // The number of columns of the matrix, whose columns' numbers are the keys; 0 if the
    // rows are not a matrix. It says that keys begin at 0, and is compared with the
    // columns that the model learnt from.
    size_t columns;
};

// A dense matrix in memory. The numbers of its columns are the keys of features (format
// libsvm); zeros are not features.
struct tug_matrix {
    size_t n, columns;
    const float *labels;               // n labels; NULL: none, for predictions
    const void *values;                // address of row 0, column 0
    bool doubles;                      // values are doubles, else floats
    ptrdiff_t row_bytes, column_bytes; // distance between rows, and between columns
    const float *weights;              // n weights of examples, as above; NULL: all are 1
};

// Columns in memory (format csv), through the Arrow C data interface: a stream, or a
// schema and an array of structs. Numbers are numeric unless `categorical` names their
// column; text, bool, dates, times, decimals and dictionaries are categories; lists are
// several values; nulls and NaN are missing. Options about a column override this. The
// word of a cell is the text that polars writes for it into a csv file, or, if the
// schema's metadata has the key tug.python (with any value), the text that pandas and
// Python write. The option "label" names the label's column, or labels are given beside
// the columns; weights likewise, by the option weight-column. The call releases its
// arguments, also when it fails.
struct tug_columns {
    struct ArrowArrayStream *stream; // NULL: the next two
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    const float *labels; // given beside the columns; NULL: none
    size_t n_labels;
    const char *const *categorical;
    size_t n_categorical;
    // Weights of the examples, given beside the columns: one per row, finite, not
    // negative and not all 0; or the name of their column, which is not a feature then.
    // NULL: all are 1, or the option weight-column names their column. Predictions ignore
    // them.
    const float *weights;
    size_t n_weights;
    const char *weight;
};

// Files, as in --data, or rows in memory: one of these. Rows in memory give the same
// model, bit for bit, as equal lines of text in that format; they are not copied. If the
// text is streamed (data-in), its examples may come in another order.
struct tug_data {
    const char *const *paths;
    size_t n_paths;
    const struct tug_rows *rows;       // or NULL
    const struct tug_matrix *matrix;   // or NULL
    const struct tug_columns *columns; // or NULL
};

// Trains as many passes over the data as the option "epochs" says. The next call
// continues from there, with optimizer, schedules, shuffles, and with validation the best
// pass: on the same data two calls of one pass equal one call of two. All data of a run
// has one format and the same columns. `valid` (may be NULL): rows of that format, or one
// path, instead of the option of that name. TUG_EINTERRUPTED: see tug_model_interrupt and
// tug_interrupt_by.
TUG_API int tug_model_train(struct tug_model *m, const struct tug_data *data,
                            const struct tug_data *valid);

// Evaluates on data with labels; tug_model_result then returns the metrics. Options are
// those of `tug eval`, without from, data and json.
TUG_API int tug_model_evaluate(struct tug_model *m, const struct tug_data *data,
                               const char *const *options, size_t n_options);
// Returns the tables of the last tug_model_evaluate: a JSON object with the members by, importance
// and calibration, as far as the options of these names were given ("{}": none was), as in the last
// line of `tug eval --json`. The text is valid until the next call on the model. Returns NULL if
// the last call was another one, or failed.
TUG_API const char *tug_model_tables(const struct tug_model *m);

// Predicts: probabilities, or numbers for a model with loss=squared; a model with several
// labels gives one for each, in the order of tug_model_label, example after example. They
// are written to `ret`, which has room for `room` floats; *ret_n is their number. If ret
// is NULL, the model keeps them for tug_model_predictions. Labels in the data are
// ignored. Options are those of `tug predict` about reading data, and raw; lines skipped
// by max-bad-lines give NAN. TUG_EUSAGE if there is too little room; *ret_n says how much
// is needed.
TUG_API int tug_model_predict(struct tug_model *m, const struct tug_data *data,
                              const char *const *options, size_t n_options, float *ret,
                              size_t room, size_t *ret_n);
// The columns of the widest matrix that it learnt from (rows with `columns`, or a
// tug_matrix), those before it was saved and loaded included; 0: none, or a save
// from before saves had it.
TUG_API uint64_t tug_model_columns(struct tug_model *m);
// Returns the predictions of the last tug_model_predict with ret NULL, and their number
// in *ret_n; valid until the next call on the model. NULL and 0 if there are none.
TUG_API const float *tug_model_predictions(const struct tug_model *m, size_t *ret_n);

// Explains predictions, one JSON object a line, as `tug predict --explain --json` prints
// them: the bias, the contributions of each feature by itself, by its pairs and to the
// layers, and the largest pairs. Options are those of `tug predict` about reading data,
// and top. *ret is valid until the next call on the model. TUG_EUSAGE if the model has
// several labels.
TUG_API int tug_model_explain(struct tug_model *m, const struct tug_data *data,
                              const char *const *options, size_t n_options,
                              const char **ret);

// Returns a result of the last tug_model_train or tug_model_evaluate, for i from 0 on;
// false if there is no such result, or the call failed. *ret_name is valid until the next
// of these calls.
//
//   after evaluate   examples, auc, pr_auc, logloss, ne, copc, mae, rmse, gauc; NAN: there is none
//   after train      examples (trained on in a pass), held_out (others, by the option valid),
//                    epochs (of all calls), keys, skipped_lines, read_seconds, train_seconds,
//                    valid_seconds, save_seconds, test_seconds, other_seconds,
//                    total_seconds (of all); train.auc, train.logloss of the last pass, each
//                    example before it was trained on; with validation best_epoch and
//                    valid.auc, ... of the kept pass; with the option test test.auc, ...
//
// With several labels these are of the first one, and further results are named
// "LABEL:auc", "test.LABEL:auc".
TUG_API bool tug_model_result(const struct tug_model *m, size_t i, const char **ret_name,
                              double *ret);

// Returns the record of one of the model's passes so far, for i from 0 on; also for a
// model that was loaded from a save. `label`: the number of the label, from 0. False if
// there is no such pass or label.
TUG_API bool tug_model_pass(const struct tug_model *m, size_t i, uint32_t label,
                            struct tug_pass *ret);

// Returns the distribution of predictions on the examples of the last tug_model_evaluate,
// or of the last pass of tug_model_train (each before it was trained on): the weights of
// examples with label 1, and of the others, by their score before the sigmoid, in buckets
// of equal width from -8 to 8; lower and higher scores are in the first and last. For the
// first label. Sums over workers give the AUC of all. Returns the number of buckets in
// both arrays; 0 if there is no distribution yet. Valid until the next call.
TUG_API size_t tug_model_spread(const struct tug_model *m, const double **ret_positive,
                                const double **ret_negative);

// The number of labels of an example (0 before training), and the name of the i-th ("" if
// it has none; NULL if there is no such label). The text is valid until the next call on
// the model.
TUG_API uint32_t tug_model_labels(struct tug_model *m);
TUG_API const char *tug_model_label(struct tug_model *m, uint32_t i);

// Saves the model into `directory`, which must be empty or not exist, in the form of tug
// train's --out, for tug_model_load, tug eval, tug predict and --init-from. The save
// appears when it is complete. TUG_EUSAGE if the directory is not empty, or the model is
// not trained; TUG_EIO if it cannot be written.
TUG_API int tug_model_save(struct tug_model *m, const char *directory);

// Ends the current call on the model, with TUG_EINTERRUPTED; later calls are not
// affected. May be called from any thread and from a signal handler.
TUG_API void tug_model_interrupt(struct tug_model *m);

// Returns an option of a command ("train", "eval", "predict"), for i from 0 on; false if
// there is no such option or command. Texts are constant; `default_text` is NULL if there
// is no default, or it depends on other options.
struct tug_option {
    const char *name, *help, *default_text;
    bool is_switch; // true or false
    bool is_list;   // may be given several times
};
TUG_API bool tug_model_option(const char *command, size_t i, struct tug_option *ret);
// Returns the option of the command that `name` probably means: one with a similar name,
// or the name that other programs use ("learning_rate": "lr"). NULL if there is none.
TUG_API const char *tug_model_option_meant(const char *command, const char *name);
// Writes the options that a sentence of the library names as Python's keywords, in place:
// pipe_command for --pipe-command. A quoted command ('tug train --lr 1') stays. And
// whether warnings of this process name them so, from now on.
TUG_API void tug_option_keywords(char *text);
TUG_API void tug_log_keywords(bool yes);

#ifdef __cplusplus
}
#endif

#endif
