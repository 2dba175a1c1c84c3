// Splits a score into its parts: the bias, each feature's linear term, pairs of features,
// layers.
//
// Linear terms and pairs are exact terms of a sum. The effect of a feature on layers is
// not a term of a sum: `layers` of a feature is by how much they add less when it is left
// out of the example and all else stays, and these differences do not add up to what
// layers add.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_EXPLAIN_H
#define TUG_MODEL_EXPLAIN_H

#include "model/model.h"

struct model_pair {
    uint32_t a, b; // features of the example, a < b
    double adds;
};

struct model_explained_feature {
    double linear; // its term
    double pairs;  // the sum of the pairs that it is in
    double layers; // see above
};

// The caller gives the arrays: a feature each, and room for `max_pairs`.
struct model_explained {
    double score, bias, linear, pairs, layers; // sums of all
    struct model_explained_feature *feature;
    struct model_pair *pair; // those that add or take most, the largest first
    size_t max_pairs, n_pairs;
    uint64_t all_pairs; // that there are
};

// For a batch of one example. TUG_EINTERNAL: the parts do not add up to the model's own
// score within what rounding explains; TUG_ENOMEM.
int model_explain(struct model_work *w, const struct model_batch *b,
                  struct model_explained *ret, struct err *e);

#endif
