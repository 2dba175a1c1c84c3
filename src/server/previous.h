// Rows of a sync table as they were before its last batch.
//
// Shards complete a batch at different times. When a worker dies in between, those that
// take over its micro-batches need the rows that it had, also from shards that have gone
// on: a pull at the clock of the last batch is answered with these.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_PREVIOUS_H
#define TUG_SERVER_PREVIOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/key_set.h"

struct previous {
    size_t n, cap;
    uint64_t *keys;       // of the rows that the last batch changed
    float *values;        // what a pull returned of them
    bool lost;            // there was no memory
    struct key_set index; // made when first asked for
    bool indexed;
};

void previous_free(struct previous *b); // a zeroed one is fine

// A batch is about to be applied; then, before they are changed, its rows: where their n
// x width values are to be put. NULL: there was no memory, and they are lost.
void previous_begin(struct previous *b);
float *previous_take(struct previous *b, uint32_t width, const uint64_t *keys, size_t n);

// Whether rows can be looked up.
bool previous_index(struct previous *b);

// Returns the `width` pulled columns of a row before the last batch; NULL if the row did
// not change in it.
const float *previous_find(const struct previous *b, uint32_t width, uint64_t key);

#endif
