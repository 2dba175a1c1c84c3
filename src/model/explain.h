// Splits a score into its parts: the bias, each feature's linear term, pairs of features,
// layers.
//
// Linear terms and pairs are exact terms of a sum. The effect of a feature on
// layers is not such a term: `layers` of a feature is the difference in the layers'
// term with and without this feature in the example. These differences do not add
// up to the layers' term.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_EXPLAIN_H
#define TUG_MODEL_EXPLAIN_H

#include "model/model.h"

struct model_pair {
    uint32_t a, b; // indices of two features of the example, a < b
    double adds;
};

struct model_explained_feature {
    double linear; // the feature's linear term
    double pairs;  // sum of the pairs that contain the feature
    double layers; // what the feature changes in the score of the layers
};

// The result. The caller provides the arrays: `feature` with an element for each feature,
// and `pair` with room for `max_pairs`.
struct model_explained {
    double score, bias, linear, pairs, layers; // the score, and the sums of its parts
    struct model_explained_feature *feature;
    struct model_pair *pair; // the pairs with the largest absolute terms, in
                             // descending order
    size_t max_pairs, n_pairs;
    uint64_t all_pairs; // number of all pairs
};

// Explains a batch of one example. Returns TUG_EINTERNAL if the terms and the
// model's score differ by more than rounding errors, or TUG_ENOMEM.
int model_explain(struct model_work *w, const struct model_batch *b,
                  struct model_explained *ret, struct err *e);

#endif
