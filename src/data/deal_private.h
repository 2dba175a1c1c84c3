// Where dealt lines came from: shared by dealing and the loading of buckets.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DEAL_PRIVATE_H
#define TUG_DATA_DEAL_PRIVATE_H

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

// dataset_piece.c: the header of the first file decides the schema; where columns lie in
// a file its own says (*ret, NULL where files have no headers).
int dataset_read_headers(struct reader *r, const struct pieces *p, uint32_t file,
                         const struct reader_layout **ret, struct err *e);

#endif
