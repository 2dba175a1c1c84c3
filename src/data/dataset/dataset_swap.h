// Examples that take the features of some slots from other examples, as permutation
// importance (Breiman 2001, section 10) needs them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_DATASET_SWAP_H
#define TUG_DATA_DATASET_DATASET_SWAP_H

#include "data/dataset/dataset.h"

struct swap {
    struct shuffle partners; // the permutation that selects the partner of each example
    const bool *slots; // for each slot of the data set, whether its features are swapped
};

// The memory of one thread; a zeroed struct is empty.
struct swap_scratch {
    struct batch own, others;
};
void swap_scratch_free(struct swap_scratch *t);

// Unpacks like dataset_gather, but the features of the swapped slots are those of each
// example's partner. Labels, weights, and features of other slots are the examples' own.
// Features are sorted by slot if they are sorted in the data.
int dataset_gather_swapped(const struct dataset *d, const uint64_t *order, size_t n,
                           const struct swap *s, struct swap_scratch *t, struct batch *b);

#endif
