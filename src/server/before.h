// Rows of a sync table as they were before its last batch.
//
// Shards complete a batch at different times. When a worker dies in between, those that
// take over its micro-batches need the rows that it had, also from shards that have gone
// on: a pull at the clock of the last batch is answered with these.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_BEFORE_H
#define TUG_SERVER_BEFORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct before {
    size_t n, cap;
    uint64_t *keys;   // of the rows that the last batch changed
    float *values;    // what a pull returned of them
    bool lost;        // there was no memory
    uint32_t *places; // hash table over keys: number + 1; made when first asked for
    size_t n_places;
    bool indexed;
};

void before_free(struct before *b); // a zeroed one is fine

// A batch is about to be applied; then, before they are changed, its rows: where their n
// x width values are to be put. NULL: there was no memory, and they are lost.
void before_begin(struct before *b);
float *before_take(struct before *b, uint32_t width, const uint64_t *keys, size_t n);

// Whether rows can be looked up.
bool before_index(struct before *b);

// The `width` pulled columns of a row before the last batch; NULL: it did not change in
// it.
const float *before_find(const struct before *b, uint32_t width, uint64_t key);

#endif
