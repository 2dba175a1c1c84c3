// The origins of dealt lines, shared by dealing and the loading of buckets.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DEAL_INTERNAL_H
#define TUG_DATA_DEAL_INTERNAL_H

#include "data/deal.h"

struct deal_place {
    uint32_t file;
    uint64_t index;
    uint32_t bucket;
    uint64_t nth; // line of its cell, from 0
};

// The number of that line in its file, from 1; 0: the file has changed.
int deal_find_line(struct deal *d, struct pieces *p, const struct deal_place *at,
                   uint64_t *ret_line, struct err *e);

#endif
