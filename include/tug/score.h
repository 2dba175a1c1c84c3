// tug: a saved model that scores, in a program that answers requests.
//
// A scorer opens what `tug train --out` writes and predicts as tug_model_predict does,
// bit for bit, but from any number of threads at the same time: they share the model, do
// not wait for each other, and allocate nothing once their memory is as large as their
// batches. With `follow` it takes new saves as they are published: bases and checkpoints
// replace the model, deltas change it. A call sees the rows of one save from its first
// example to its last. New calls read a save within a second after it was renamed into
// place, unless it takes longer to load; a save that is damaged, incomplete or of another
// model is refused with a warning, and the last good one goes on being served. A scorer
// reads files and nothing else: the process that publishes may stop, die and come again.
//
//     struct tug_scorer *s;
//     const struct tug_scorer_options o = {.follow = true};
//     if (tug_scorer_open(&s, "model", &o) != 0)
//         ... tug_last_error() ...
//     tug_scorer_predict(s, &rows, false, predictions, rows.n, NULL);     // any thread
//
// serving.md of the documentation has the whole of it, score.c of the examples is a program.
//
// Memory: a row is its key and its weights, 64 bytes for fm of 8 dimensions. It is held
// twice where deltas are followed, and while a new save is loaded.
//
// Ownership: arguments are the caller's and are read during the call only.
//
// Threads: any thread may call all functions but tug_scorer_close at any time. At most 512 at once
// predict; one more is TUG_EUSAGE. Functions return 0 or a code of tug/tug.h, and tug_last_error()
// is the sentence. Only tug_scorer_open waits, at most wait_seconds and the time of loading.
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
    bool follow; // new saves are taken as they come, by a thread of the scorer's
    // How long there may be no save at all yet; 0: there has to be one.
    double wait_seconds;
    uint32_t
        poll_ms; // how often the directory is looked at, in a scorer that follows; 0: 200
    uint32_t threads; // that load saves, at most 1,023; 0: one per core, at most 8
};

// The newest save in the directory `path`, or one save (which cannot be followed). `o`
// may be NULL. *ret is set only when all is well. TUG_EDATA: there is none, or it is
// damaged, of another version, or of tables that are not a model; TUG_EUSAGE: an option that
// cannot be; TUG_EINTERRUPTED: the function of tug_interrupt_by.
TUG_API int tug_scorer_open(struct tug_scorer **ret, const char *path,
                            const struct tug_scorer_options *o);
// Frees it, when its thread has ended. No other thread is in it. NULL is fine.
TUG_API void tug_scorer_close(struct tug_scorer *s);

// Predictions for rows by keys: probabilities, or numbers of a model with loss=squared
// (`raw`: scores); of a model with several labels one for each, example after example.
// Labels and weights of the rows are not looked at; fields are, by models that have them.
// `ret` has room for `room` floats, rows->n x tug_scorer_labels of which are written.
// *ret_save (may be NULL): the number of the save that they are of. TUG_EUSAGE: the rows
// cannot be scored (the sentence names row and key), or there is too little room.
// A model that learnt from libsvm or libffm data or a matrix is warned of once on standard error
// (or tug_last_warning) if the keys seem to begin at another number, or rows->columns is another
// width, than where it learnt; so are lines of text.
TUG_API int tug_scorer_predict(struct tug_scorer *s, const struct tug_rows *rows,
                               bool raw, float *ret, size_t room, uint32_t *ret_save);

// The same for lines of text, as the data was that the model learnt from: features by
// the names of their columns. csv begins with a header, whose columns may be in another
// order and need no label; in other formats lines are as in `tug predict`. An empty line
// is passed over. `text` has `bytes` bytes and need not end with a newline or a 0.
// *ret_n: predictions, also where there was too little room for them (TUG_EUSAGE).
// TUG_EDATA naming the line. Each column of which the model knows less than 5 % of the
// values is warned of on standard error, once, by its name and three of them; likewise of
// columns in memory.
TUG_API int tug_scorer_predict_text(struct tug_scorer *s, const char *text, size_t bytes,
                                    bool raw, float *ret, size_t room, size_t *ret_n,
                                    uint32_t *ret_save);

// The same for columns in memory, as tug_model_predict takes them (tug/train.h), with what it
// makes of them. They are released by the call, also when it fails. TUG_EDATA naming the
// row. TUG_EUSAGE: the model did not learn from csv or columns, or there is too little room.
TUG_API int tug_scorer_predict_columns(struct tug_scorer *s,
                                       const struct tug_columns *columns, bool raw,
                                       float *ret, size_t room, size_t *ret_n,
                                       uint32_t *ret_save);

// The key of a feature by its name, and its field: "site=f3845767", "C9=7cc72ec2". A program that
// keeps them need not hash again. Words that the model has not seen have keys, too. TUG_EUSAGE: the
// data of this model has no names (libsvm, libffm), or no such column; TUG_EDATA: the column cannot
// have such a word (ids of multislot are whole numbers).
TUG_API int tug_scorer_feature(struct tug_scorer *s, const char *name, uint64_t *ret_key,
                               uint32_t *ret_field);

// The format of the data that the model learnt from ("libsvm", "csv", ...), valid as long
// as the scorer is. Of libsvm and libffm keys are the numbers in the data; of all others
// they are hashes of column and word, which tug_scorer_feature tells.
TUG_API const char *tug_scorer_format(struct tug_scorer *s);

// Labels of an example, and what the i-th is called ("" where it has no name; NULL:
// there is no such label), valid as long as the scorer is.
TUG_API uint32_t tug_scorer_labels(struct tug_scorer *s);
TUG_API const char *tug_scorer_label(struct tug_scorer *s, uint32_t i);

// Takes a new save now, if there is one, in a scorer that does not follow (TUG_EUSAGE: it
// does). *ret_taken (may be NULL): whether there was one. One that is refused leaves the scorer as
// it was, is a warning, and 0: tug_scorer_status says why.
TUG_API int tug_scorer_refresh(struct tug_scorer *s, bool *ret_taken);

enum { TUG_SCORER_TEXT = 1024 };
struct tug_scorer_status {
    uint32_t save;                 // number of the save that is served
    bool is_delta;                 // which it is
    uint64_t step;                 // of its training: batches
    uint64_t rows;                 // of features
    uint64_t taken;                // saves, the first one included
    uint64_t refused;              // saves that were not taken
    char refusal[TUG_SCORER_TEXT]; // of the newest save; "": it is the one that is served
};
TUG_API void tug_scorer_status(struct tug_scorer *s, struct tug_scorer_status *ret);

#ifdef __cplusplus
}
#endif

#endif
