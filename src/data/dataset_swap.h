// Examples that have the features of some slots from other examples: what permutation
// importance (Breiman 2001, section 10) asks a model to score.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_SWAP_H
#define TUG_DATA_DATASET_SWAP_H

#include "data/dataset.h"

struct swap {
    struct shuffle partners; // of all examples: whose features each one gets
    const bool *slots;       // of each slot of the data set: whether it is swapped
};

// One thread's memory; zeroed it is empty.
struct swap_scratch {
    struct batch own, others;
};
void swap_scratch_free(struct swap_scratch *t);

// Like dataset_gather. Labels, weights, and features of other slots are the examples'
// own; features are in the order of slots if they are so in the data.
int dataset_gather_swapped(const struct dataset *d, const uint64_t *order, size_t n,
                           const struct swap *s, struct swap_scratch *t, struct batch *b);

#endif
