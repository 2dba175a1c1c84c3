// The origins of dealt lines, shared by the files that deal and that load buckets.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_DEAL_INTERNAL_H
#define TUG_DATA_DATASET_DEAL_INTERNAL_H

#include "data/dataset/deal.h"

struct deal_place {
    uint32_t file;
    uint64_t index;
    uint32_t bucket;
    uint64_t nth; // number of the line in its cell, from 0
};

// Gets in *ret_line the line number, from 1, that the line at place `at` has in its file;
// 0 if the file has changed.
int deal_find_line(struct deal *d, struct pieces *p, const struct deal_place *at,
                   uint64_t *ret_line, struct err *e);

#endif
