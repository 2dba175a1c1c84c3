// Evaluation: scores of a model on data that it does not learn from; exact metrics.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_H
#define TUG_TRAIN_EVALUATE_H

#include <stdatomic.h>

#include "base/team.h"
#include "data/dataset_swap.h"
#include "data/numbering.h"
#include "train/calibration.h"
#include "train/evaluated.h"
#include "train/held_out.h"
#include "train/parameters.h"

struct evaluation_options {
    struct team *team;
    const struct parameters *parameters;
    // NULL: rows are those that `parameters` has. Else called first for the keys of the
    // text, from any thread; gives ids as parameters_resolve_seen does.
    dataset_resolve_fn resolve;
    void *resolve_ctx;
    struct source *source;
    // Instead of the source: the data of a training run, at hand already.
    const struct dataset *data;
    const struct swap *swap; // of that data's examples; NULL: they are scored as they are
    // Rows of that data that were never updated count as unseen.
    bool hide_new;
    struct reader *reader;
    enum loss loss;
    uint64_t max_bad_lines;
    uint64_t *bad_lines;
    // The name of the data, for warnings about columns whose values the model does not
    // know; NULL: no warnings.
    const char *what;
    // Describes the data in a warning where its features are numbered another way than
    // the model's; NULL: no warning.
    const char *numbered;
    void (*warn)(void *ctx, const char *text); // gets the warning; NULL: the log
    void *warn_ctx;
    struct numbering *numbering; // gets the keys of what is loaded; or NULL
    struct held_out held_out;    // only these are scored; share 0: all
    uint64_t seed;
    const atomic_bool *interrupted; // gives up with TUG_EINTERRUPTED; NULL: never
    // When set, called for every window with its predictions, in the order of the text,
    // those of an example's tasks one behind the other. Scores of skipped lines are NaN
    // if places are held for them.
    int (*each)(void *ctx, const struct dataset *d, const float *predictions, size_t n,
                struct err *e);
    void *ctx;
    // The columns "a,b" whose values are the group of an example, such as its user, for
    // the AUC by group; NULL: none. For the logistic loss. Data at hand has been loaded
    // with them as what is kept.
    const char *group;
    // Likewise for a table of the `top` largest groups; NULL: none. The table is the
    // caller's, zeroed.
    const char *by;
    size_t top;
    struct group_table *table;
    // When set, of the first label, with the logistic loss.
    struct calibration *calibration;
    const char
        *merge; // "COLUMN:N": see train/merge.h; NULL: each line stays. Without groups
    // For who wants predictions and no metrics (but for the features that are known):
    // nothing of an example is held once it was predicted.
    bool predict;
    bool raw;         // predictions are scores, before they become probabilities
    bool eager;       // windows are the source's chunks, each scored as soon as it comes
    bool hold_places; // of lines that are skipped: see data/dataset.h
    const char *keep, *keep_option; // likewise
};

// Loads what comes next of o->source, at most max_chunks of it (0, or --merge-ids:
// all), as what is to be scored: features that the model does not know have no row.
// Nothing is open after an error.
int evaluation_load(const struct evaluation_options *o, size_t max_chunks,
                    struct dataset **ret, struct err *e);

// Warns as `numbered` says, of data that was loaded with `numbering`.
void evaluation_compare(const struct evaluation_options *o, struct numbering *numbering);

// Reads the whole source once. Metrics are exact and have the same bits for any number of
// threads; there are those of each of the model's tasks, of examples that have its label.
// Groups and known features are reported for the first one only.
int evaluate(const struct evaluation_options *o, struct metrics *ret, struct err *e);

// Likewise for a part of the evaluation: the results for each of the model's tasks are in
// ret, at most MODEL_MAX_TASKS, for the caller to free. Groups are the first one's.
int evaluate_part(const struct evaluation_options *o,
                  struct evaluated ret[MODEL_MAX_TASKS], struct err *e);

#endif
