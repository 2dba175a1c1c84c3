// tug: predicts with a saved model in a program that answers requests.
//
// A scorer opens a model that `tug train --out` has saved. Its predictions are
// bit-identical to those of tug_model_predict, but any number of threads can predict at
// the same time: they share the model, do not wait for each other, and allocate nothing
// once their memory is as large as their batches. If `follow` is set, it loads new saves as
// they are published: bases and checkpoints replace the model, deltas change it. A call
// sees the rows of one save from its first example to its last. New calls use a save
// within a second after it was renamed into place, unless it takes longer to load. A save
// that is damaged, incomplete or of another model is refused with a warning, and the last
// good one stays in use. A scorer reads files and nothing else: the publishing process
// may stop, die and restart.
//
//     struct tug_scorer *s;
//     const struct tug_scorer_options o = {.follow = true};
//     if (tug_scorer_open(&s, "model", &o) != 0)
//         ... tug_last_error() ...
//     tug_scorer_predict(s, &rows, false, predictions, rows.n, NULL);     // any thread
//
// serving.md in the documentation (share/doc/tug) describes serving; score.c among the
// examples is a complete program.
//
// Memory: a row takes the bytes of its key and its weights, 64 bytes for model fm with dim
// 8. A scorer that follows deltas keeps all rows twice; other scorers do so only while a
// new save is loaded.
//
// Ownership: arguments belong to the caller and are read during the call only.
//
// Threads: any thread may call all functions except tug_scorer_close at any time. At most
// 512 threads may predict at once; a call by a further thread returns TUG_EUSAGE.
// Functions return 0 or a code of tug/tug.h, and tug_last_error() is the sentence. Only
// tug_scorer_open waits, at most wait_seconds and the time of loading.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SCORE_H
#define TUG_SCORE_H

#include "tug/train.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tug_scorer;

struct tug_scorer_options {
    bool follow; // a thread of the scorer loads new saves as they come
    // Seconds that tug_scorer_open waits for the first save; 0: the save must exist.
    double wait_seconds;
    uint32_t poll_ms; // milliseconds between checks for a new save, with `follow`; 0: 200
    // Threads that load a save, at most 1,023; 0: one per core, at most 8.
    uint32_t threads;
};

// Opens the newest save in the directory `path`, or one save (which cannot be followed).
// `o` may be NULL. *ret is set only on success. TUG_EDATA if there is no save, or it is
// damaged, of another version, or of tables that are not a model; TUG_EUSAGE if an option
// is invalid; TUG_EINTERRUPTED: see tug_interrupt_by.
TUG_API int tug_scorer_open(struct tug_scorer **ret, const char *path,
                            const struct tug_scorer_options *o);
// Ends the scorer's thread and frees the scorer. No other thread may be using it. NULL is
// fine.
TUG_API void tug_scorer_close(struct tug_scorer *s);

// Predicts for rows whose features are keys. The predictions are scores if `raw` is true;
// otherwise they are probabilities, or, for a model with loss=squared, numbers. A model
// with several labels gives a prediction for each label, example after example. Labels
// and weights of the rows are ignored; models with fields use the rows' fields. `ret` has
// room for `room` floats, of which rows->n x tug_scorer_labels are written. *ret_save
// (may be NULL) becomes the number of the save that was used. TUG_EUSAGE if the rows
// cannot be scored (tug_last_error names row and key), or there is too little room. For a
// model of libsvm or libffm data or of a matrix the call warns once, on standard error or
// by tug_last_warning, in two cases: the keys seem to count from 0 and those of the
// training data counted from 1, or the other way round; or rows->columns is not the width
// of the training matrix. tug_scorer_predict_text warns in the same way.
TUG_API int tug_scorer_predict(struct tug_scorer *s, const struct tug_rows *rows,
                               bool raw, float *ret, size_t room, uint32_t *ret_save);

// Predicts for lines of text in the format of the training data. csv begins with a header;
// its columns may be in another order than in training, and the label may be missing. In
// other formats lines are as in `tug predict`. Empty lines are skipped. `text` has `bytes`
// bytes and need not end with a newline or a 0. *ret_n becomes the number of predictions,
// also if there was too little room (TUG_EUSAGE). TUG_EDATA if a line is wrong;
// tug_last_error names the line. If the model knows less than 5 % of the values of a
// column, the call warns once and names the column and three of the values, on standard
// error or, after tug_keep_warnings(true), only by tug_last_warning.
// tug_scorer_predict_columns does the same.
TUG_API int tug_scorer_predict_text(struct tug_scorer *s, const char *text, size_t bytes,
                                    bool raw, float *ret, size_t room, size_t *ret_n,
                                    uint32_t *ret_save);

// Predicts for columns in memory, as tug_model_predict does (tug/train.h). The call
// releases the columns, also when it fails. TUG_EDATA if a row is wrong; tug_last_error
// names the row. TUG_EUSAGE if the model was not trained on csv or columns, or there is
// too little room.
TUG_API int tug_scorer_predict_columns(struct tug_scorer *s,
                                       const struct tug_columns *columns, bool raw,
                                       float *ret, size_t room, size_t *ret_n,
                                       uint32_t *ret_save);

// Gets the key and the field of a feature by its name, such as "site=f3845767" or
// "C9=7cc72ec2", so that a program can compute them once and keep them. Features that the
// model has not seen have keys, too. TUG_EUSAGE if the model's data has no names (libsvm,
// libffm), or no such column; TUG_EDATA if the column cannot have such a word (ids of
// multislot are whole numbers).
TUG_API int tug_scorer_feature(struct tug_scorer *s, const char *name, uint64_t *ret_key,
                               uint32_t *ret_field);

// Returns the format of the training data ("libsvm", "csv", ...), valid as long as the
// scorer. In libsvm and libffm keys are the numbers in the data; in all other formats
// they are hashes of column and word, which tug_scorer_feature returns.
TUG_API const char *tug_scorer_format(struct tug_scorer *s);

// These functions return the number of labels of an example, and the name of the i-th
// label ("" if it has no name; NULL if there is no such label), which is valid as long as
// the scorer.
TUG_API uint32_t tug_scorer_labels(struct tug_scorer *s);
TUG_API const char *tug_scorer_label(struct tug_scorer *s, uint32_t i);

// Loads a new save now, if there is one. A scorer with `follow` does this by itself
// (TUG_EUSAGE). *ret_taken (may be NULL) becomes true if a new save is now in use. If the
// save is refused, the scorer stays unchanged and warns, and the call returns 0;
// tug_scorer_status gives the reason.
TUG_API int tug_scorer_refresh(struct tug_scorer *s, bool *ret_taken);

enum { TUG_SCORER_TEXT = 1024 };
struct tug_scorer_status {
    uint32_t save;    // number of the save in use
    bool is_delta;    // the save is a delta
    uint64_t step;    // number of batches of the training that led to this save
    uint64_t rows;    // number of rows (features) of the model
    uint64_t taken;   // number of saves loaded, including the first
    uint64_t refused; // number of saves refused
    char refusal[TUG_SCORER_TEXT]; // why the newest save was refused; "": it is in use
};
TUG_API void tug_scorer_status(struct tug_scorer *s, struct tug_scorer_status *ret);

#ifdef __cplusplus
}
#endif

#endif
