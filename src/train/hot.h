// Hot rows: features that nearly every example has (a sex, an age group, "missing"). If
// threads shared them, each update would wait for the row's cache line to come from the
// other core, and threads would not pay. So each worker has copies of its own, and adds
// what it changed to the shared rows after every batch.
//
// A worker's own updates count at once, the others' a batch later. A row gets copies only
// after many updates, when its steps have become so small that a batch of them, from each
// worker, changes it little. Nothing is lost: a row is merged under a flag; who finds it
// taken merges the next time.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_HOT_H
#define TUG_TRAIN_HOT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "data/dataset.h"
#include "table/table.h"

enum { HOT_MAX = 128, HOT_MAP_BITS = 9, HOT_NONE = HOT_MAX };

// Which rows are hot in a data set; shared by the workers.
struct hot_rows {
    uint32_t n;
    uint32_t id[HOT_MAX];
    uint8_t map[1 << HOT_MAP_BITS]; // from a hash of the id to its number, or HOT_NONE
    atomic_flag merging[HOT_MAX];
};

// A worker's copies.
struct hot_copies {
    struct hot_rows *rows;
    struct table_slabs slabs;
    uint32_t width, count; // of a row; its column that counts updates
    float threshold;       // updates after which a row is copied
    bool copied[HOT_MAX];
    float *local,
        *base; // HOT_MAX rows each: as the worker has them; as they were when merged
};

// Finds the ids of more than one in 16 examples by looking at a sample. TUG_ENOMEM.
int hot_find(struct hot_rows *h, const struct dataset *d, uint64_t seed);

// Begins without copies. TUG_ENOMEM.
int hot_open(struct hot_copies *c, struct hot_rows *h, const struct table *t,
             uint32_t count, uint32_t workers);
void hot_close(struct hot_copies *c); // a zeroed one is fine

// Adds the changes to the shared rows and takes their values; copies the rows
// that have become hot.
void hot_merge(struct hot_copies *c);

// The same at the end of a stretch: waits for rows that others are merging, gives up all
// copies.
void hot_finish(struct hot_copies *c);

static inline uint32_t hot_hash(uint32_t id)
{
    return id * 2654435761u >> (32 - HOT_MAP_BITS);
}

// The worker's copy of row `id`, or NULL when there is none.
static inline float *hot_row(const struct hot_copies *c, uint32_t id)
{
    uint32_t i = c->rows->map[hot_hash(id)];
    return i != HOT_NONE && c->rows->id[i] == id && c->copied[i]
               ? c->local + (size_t)i * c->width
               : NULL;
}

#endif
