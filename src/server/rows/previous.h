// Rows of a sync table as they were before its last batch.
//
// Shards complete a batch at different times. When a worker dies in between, the
// workers that take over its micro-batches need the rows that it had, even from shards
// that have applied the batch already. So a pull at the clock of the last batch is
// answered with these copies.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROWS_PREVIOUS_H
#define TUG_SERVER_ROWS_PREVIOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/key_set.h"

struct previous {
    size_t n, cap;
    uint64_t *keys;       // keys of the rows that the last batch changed
    float *values;        // values that a pull of these rows returned before that batch
    bool lost;            // the copies are incomplete for lack of memory
    struct key_set index; // position of each key; made when first needed
    bool indexed;
};

void previous_free(struct previous *b); // *b may be zeroed

// previous_begin drops the old copies when a batch is about to be applied. previous_take
// then adds rows before they are changed: it returns space for their n x width values,
// which the caller fills. It returns NULL if memory is out; all copies are then lost.
void previous_begin(struct previous *b);
float *previous_take(struct previous *b, uint32_t width, const uint64_t *keys, size_t n);
// Keeps the first n copies, and drops the others, whose rows were not changed after all.
void previous_shorten(struct previous *b, size_t n);

// Adds the copies in `more`, whose rows belong to other partitions. Returns false, with
// nothing changed, if memory is out.
bool previous_append(struct previous *b, uint32_t width, const struct previous *more);

// Makes the index of the copies by key. Returns false if the copies were lost for lack of
// memory.
bool previous_index(struct previous *b);

// Returns the `width` pulled columns of a row before the last batch; NULL if the row did
// not change in it.
const float *previous_find(const struct previous *b, uint32_t width, uint64_t key);

#endif
