// The inside of a data set, shared by its loading and its reading.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_PRIVATE_H
#define TUG_DATA_DATASET_PRIVATE_H

#include "data/block.h"
#include "data/dataset.h"

// Memory of blocks: large mappings (with huge pages), filled one behind the other.
struct region {
    char *memory;
    size_t used, size;
};

struct dataset {
    struct block *block;
    size_t blocks;
    uint32_t *finder; // of example i: blocks from finder[i >> finder_shift] on
    uint32_t finder_shift;
    bool has_values, has_weights, at_end;
    uint32_t slots;
    uint64_t size, features, positives;

    struct region *region;
    size_t regions;
};

#endif
