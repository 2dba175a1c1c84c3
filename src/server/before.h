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

#include "table/accessor.h"

struct before {
    size_t n, cap;
    uint32_t *handles; // of the rows that the last batch changed
    float *values;     // what a pull returned of them
    bool lost;         // there was no memory
    uint32_t *places;  // hash table over handles: number + 1; made when first asked for
    size_t n_places;
    bool indexed;
};

void before_free(struct before *b); // a zeroed one is fine

// A batch is about to be applied; then, before they are changed, its rows. Cannot fail:
// what finds no memory is lost.
void before_begin(struct before *b);
void before_add(struct before *b, const struct accessor *a, const uint32_t *handles,
                float *const *rows, size_t n);

// Whether rows can be looked up.
bool before_index(struct before *b);

// The pulled columns of a row before the last batch; NULL: it did not change in it.
const float *before_find(const struct before *b, const struct accessor *a,
                         uint32_t handle);

#endif
