// Dense variables (tug/table.h) inside the library. Each variable begins with a new
// block, so that a range of a variable is a range of keys; the unused end of its last
// block is never read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_TABLES_TUG_DENSE_H
#define TUG_DOORS_TABLES_TUG_DENSE_H

#include "doors/tables/tug_client.h"
#include "table/initial.h"
#include "tug/table.h"

struct variable {
    uint64_t n;     // number of floats
    uint64_t block; // key of the first block
    uint64_t at;    // position of the first float in the array of all variables
    uint64_t stream;
    struct initial initial;
    bool sent;   // the gradient was sent in the current batch
    uint64_t ts; // timestamp of that push; 0: no push is in flight
};

struct tug_dense {
    struct tug_client *client;
    uint32_t table, dim;
    struct variable *variables;
    size_t n;
    uint64_t floats, blocks;
    uint64_t *keys; // keys of all blocks
    float *rows;    // rows of all blocks
    bool in_batch;
};

// dense_pull_rows pulls the rows of all blocks from the servers into d->rows.
// dense_assign_rows sets the servers' rows to d->rows.
int dense_pull_rows(struct tug_dense *d);
int dense_assign_rows(struct tug_dense *d);
void dense_unpack(const struct tug_dense *d, float *ret);
// Fills d->rows with the initial values of the variables. `seed` is the table's number.
void dense_initial(struct tug_dense *d, uint64_t seed);
// Returns TUG_EUSAGE if no request may be made now: in a callback, or in a batch.
int dense_ready(const struct tug_dense *d);
// Cancels the requests of the current batch that are in flight.
void dense_leave_batch(struct tug_dense *d);

#endif
