// Evaluation: exact metrics of a model on data, without learning from it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_EVALUATE_H
#define TUG_TRAIN_EVALUATE_EVALUATE_H

#include <stdatomic.h>

#include "data/dataset/dataset_swap.h"
#include "data/source/numbering.h"
#include "os/team.h"
#include "train/evaluate/curves.h"
#include "train/evaluate/evaluated.h"
#include "train/held_out.h"
#include "train/rows/parameters.h"

struct train_facts;

struct evaluation_options {
    struct team *team;
    const struct parameters *parameters;
    // Finds rows for the keys of the text and returns their ids, as
    // parameters_resolve_seen does; any thread calls it. NULL: uses the rows of
    // `parameters`.
    dataset_resolve_fn resolve;
    void *resolve_ctx;
    struct source *source;
    // If not NULL, this data of a training run is evaluated instead of the source.
    const struct dataset *data;
    const struct swap *swap; // columns of `data` that are swapped between examples
                             // (importance.c); NULL: none
    // With `data`: features whose row was never updated count as unseen.
    bool hide_new;
    struct reader *reader;
    enum loss loss;
    uint64_t max_bad_lines;
    uint64_t *bad_lines;
    // The name of the data in warnings about columns whose values the model does not
    // know; NULL: does not warn.
    const char *what;
    // Describes the data in a warning that its features are numbered in another way than
    // the model's; NULL: does not warn.
    const char *numbered;
    void (*warn)(void *ctx, const char *text); // receives the warning of `numbered`;
                                               // NULL: the log gets it
    void *warn_ctx;
    struct numbering *numbering; // collects the keys of the data that is loaded; NULL:
                                 // none
    // Evaluates only the examples of this part; share 0: evaluates all.
    struct held_out held_out;
    uint64_t seed;
    // Receives a sign of life for each stretch of examples; NULL: none is sent.
    struct train_facts *facts;
    const atomic_bool *interrupted; // ends the evaluation with TUG_EINTERRUPTED; NULL:
                                    // never
    // If set, called for every window, in the order of the text, with its predictions:
    // the predictions for the tasks of an example are adjacent. With hold_places, a
    // skipped line has the prediction NaN.
    int (*each)(void *ctx, const struct dataset *d, const float *predictions, size_t n,
                struct err *e);
    void *ctx;
    // The columns ("a,b") whose values form the group of an example, such as its user,
    // for the AUC by group; NULL: none. Needs the logistic loss. `data` must have been
    // loaded with these columns as kept texts.
    const char *group;
    // The columns that form the groups of `table`, which receives the `top` largest
    // groups; NULL: no table. The caller zeroes and frees the table.
    const char *by;
    size_t top;
    struct group_table *table;
    // If set, receives the calibration of the first label; needs the logistic loss.
    struct calibration *calibration;
    // If set, receives the curves of the first label; needs the logistic loss.
    struct curves *curves;
    // If set, receives the counts of known features by slot; the caller zeroes it, and
    // frees it by unseen_free.
    struct unseen *slots;
    // "COLUMN:N" (train/merge.h); NULL: merges no lines. Not with groups.
    const char *merge;
    // true: the caller needs only predictions and the share of known features, so no data
    // of an example is kept after its prediction.
    bool predict;
    bool raw;         // predictions are raw scores instead of probabilities
    bool eager;       // takes each chunk of the source as a window and scores it at once
    bool hold_places; // gives skipped lines a place, as dataset_options.hold_places does
    // Columns whose texts are kept, as in struct dataset_options.
    const char *keep, *keep_option;
};

// Loads the next data of o->source for scoring, at most max_chunks chunks of it (0, or
// with --merge-ids: all). Features that the model does not know do not get rows. After an
// error, *ret need not be closed.
int evaluation_load(const struct evaluation_options *o, size_t max_chunks,
                    struct dataset **ret, struct err *e);

// Gives the warning of o->numbered if the features of the loaded data, whose numbering is
// `numbering`, are numbered in another way than the model's.
void evaluation_compare(const struct evaluation_options *o, struct numbering *numbering);

// Reads the whole source once and computes the metrics of each task, from the examples
// that have its label. The metrics are exact and have the same bits for any number of
// threads. Groups and the share of known features are of the first task only.
int evaluate(const struct evaluation_options *o, struct metrics *ret, struct err *e);

// Evaluates a part of the data: stores the results of each task in ret, which has room
// for MODEL_MAX_TASKS and which the caller frees. Groups are those of the first task.
int evaluate_part(const struct evaluation_options *o,
                  struct evaluated ret[MODEL_MAX_TASKS], struct err *e);

#endif
