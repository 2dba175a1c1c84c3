// Predictions taken apart, example by example: what each feature and pair adds
// (model/explain.h), with the names of the features as the data has them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EXPLAIN_H
#define TUG_TRAIN_EXPLAIN_H

#include "model/explain.h"
#include "train/evaluate.h"
#include "train/names.h"

struct explained_feature {
    uint64_t key;
    bool known; // the model was trained on it; else it adds nothing
    float value;
    const char *column; // its name
    bool in_column;     // it has a name, perhaps an empty one
    const char *word; // NULL: the key is all that is known; "": the column is the feature
    bool place;       // the word is a place of several numbers, from 0
};

struct explained {
    const char *file;
    uint64_t line;
    bool skipped; // the line could not be read; nothing below is set
    double prediction;
    size_t n; // features
    const struct explained_feature *feature;
    struct model_explained parts; // of these, in the same order
};

// Uses these options of an evaluation: team, parameters, source, reader, loss, bad lines,
// eager, hold_places, interrupted (checked before each example). With `nameless` words
// are not looked for: columns may be missing.
struct explain_options {
    struct evaluation_options data;
    size_t pairs; // of each example, the largest
    bool nameless;
    const struct names *stored; // words that training has kept, for what the data lacks
    int (*each)(void *ctx, const struct explained *x, struct err *e);
    void *ctx;
};

// Reads the whole source once, in the order of the text.
int explain(const struct explain_options *o, struct err *e);

#endif
