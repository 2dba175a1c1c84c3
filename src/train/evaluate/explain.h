// Explains predictions example by example: the part that each feature and each pair adds
// (model/explain.h), with the names that the features have in the data.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_EXPLAIN_H
#define TUG_TRAIN_EVALUATE_EXPLAIN_H

#include "model/explain.h"
#include "train/evaluate/evaluate.h"
#include "train/names.h"

struct explained_feature {
    uint64_t key;
    bool known; // the model was trained on this feature; an unknown feature adds nothing
    float value;
    const char *column; // the name of the feature's column
    bool in_column;     // the feature's column has a name, which may be empty
    const char *word; // NULL: only the key is known; "": the whole column is the feature
    bool place;       // `word` is an index into several numbers, from 0
};

struct explained {
    const char *file;
    uint64_t line;
    bool skipped; // the line could not be read, and the fields below are not set
    double prediction;
    size_t n; // number of features of the example
    const struct explained_feature *feature;
    struct model_explained parts; // what the features add to the score, in the order of
                                  // `feature`
};

// explain uses these members of `data`: team, parameters, source, reader, loss, bad
// lines, eager, hold_places and interrupted. It checks `interrupted` before each example.
// With `nameless` it does not look up words, so that columns may be missing in the data.
struct explain_options {
    struct evaluation_options data;
    size_t pairs; // at most this many pairs of an example are explained: the largest
    bool nameless;
    // Words that training has stored, for features whose words the data does not show.
    const struct names *stored;
    int (*each)(void *ctx, const struct explained *x, struct err *e);
    void *ctx;
};

// Reads the whole source once and calls `each` for every example, in the order of the
// text.
int explain(const struct explain_options *o, struct err *e);

#endif
