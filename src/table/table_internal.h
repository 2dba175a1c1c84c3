// The inside of a table, for the files of this folder.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TABLE_TABLE_INTERNAL_H
#define TUG_TABLE_TABLE_INTERNAL_H

#include <assert.h>
#include <pthread.h>
#include <stddef.h>

#include "table/index.h"
#include "table/reclaim.h"
#include "table/slabs.h"
#include "table/table.h"

enum {
    TABLE_STRIPE_BITS = 4,
    TABLE_STRIPES = 1 << TABLE_STRIPE_BITS,
};

// A stripe: the part of the table for a sixteenth of the hashes, which one lock guards. A
// thread that holds a stripe's lock may take the lock of slabs or of reclaim, and not the
// other way round. No thread locks two stripes.
struct stripe {
    // On cache lines of its own, because all threads read the first members of the index.
    _Alignas(128) struct index index;
    pthread_mutex_t lock;
    struct limbo limbo;
    // The unused rows of the chunk from which the stripe takes rows now.
    uint32_t next, end;
    uint32_t spare; // a row that was taken and then not needed, or TABLE_NONE
    uint64_t inserts, erases;
    bool ready; // the lock and the index were opened
};

struct table {
    struct table_slabs view; // must be the first member, because table_slabs() reads it
                             // there
    struct table_options options;
    uint64_t random_seed;
    struct stripe *stripes;
    struct slabs slabs;
    struct reclaim reclaim;
};

static_assert(offsetof(struct table, view) == 0, "table_slabs() reads it there");

static inline struct stripe *table_stripe(const struct table *t, uint64_t hash)
{
    return &t->stripes[hash >> (64 - TABLE_STRIPE_BITS)];
}

#endif
