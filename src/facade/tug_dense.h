// Dense variables (tug/table.h), from the inside: a variable begins with a block
// of its own, so that a range of it is a range of keys; what is left of its last
// block is never looked at.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_TUG_DENSE_H
#define TUG_FACADE_TUG_DENSE_H

#include "facade/tug_client.h"
#include "table/initial.h"
#include "tug/table.h"

struct variable {
    uint64_t n;     // floats
    uint64_t block; // key of its first block
    uint64_t at;    // its first float among all variables'
    uint64_t stream;
    struct initial initial;
    bool sent;   // its gradient, in the batch that goes on
    uint64_t ts; // of that push; 0: none is under way
};

struct tug_dense {
    struct tug_client *client;
    uint32_t table, dim;
    struct variable *variables;
    size_t n;
    uint64_t floats, blocks;
    uint64_t *keys; // all blocks
    float *rows;    // of all blocks
    bool in_batch;
};

// Rows of all blocks from the servers, and to them.
int dense_pull_rows(struct tug_dense *d);
int dense_assign_rows(struct tug_dense *d);
void dense_unpack(const struct tug_dense *d, float *ret);
// First values into the rows, as a table of this number would begin.
void dense_initial(struct tug_dense *d, uint64_t seed);
// Whether something may be asked and waited for now: TUG_EUSAGE.
int dense_ready(const struct tug_dense *d);
// Abandons the requests under way.
void dense_leave_batch(struct tug_dense *d);

#endif
