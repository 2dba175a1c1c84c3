// The rows of a run in one process whose features live: its two tables are stores
// (store/store.h), as a server's are, and threads step on the sparse one's rows in place
// (store/store_steps.h, train/living_steps.h). This is the one place where the local
// trainer makes stores; they are saved, loaded and looked up as all others are.
//
// Keys of the data at hand become ids when the data is read. A link leads from an id to
// its row: rows are made when an entry policy admits their keys, and removed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_LIVING_ROWS_H
#define TUG_TRAIN_LIVING_ROWS_H

#include <pthread.h>
#include <stdatomic.h>

#include "save/save.h"
#include "store/store_steps.h"
#include "train/parameters.h"

// Handles of no row: none yet; and none for all examples that were counted before, which
// is the policy's last word on the key.
#define LIVING_NONE TABLE_NONE
#define LIVING_REFUSED (TABLE_NONE - 1)

// Of each id. Handles are written with the partition's lock held, that of the row last; and
// read without it by who is pinned. In arrays of their own, for a pass over data that was
// counted reads the first alone, or the first two.
struct living_links {
    size_t n;
    _Atomic uint32_t *handle; // of the row; from TABLE_MAX_ROWS on there is none
    _Atomic uint32_t *extra;  // of its extra row, or TABLE_NONE; NULL: there are none
    uint16_t *partition;      // of its key
};

struct living_rows {
    struct store *sparse, *dense;
    float **blocks;     // the rows of the dense one
    struct model model; // on rows as they lie in the stores
    struct store_steps *steps;
    struct store_views views;
    uint64_t steps_before; // the table's step, less the run's batches
    struct table *ids;     // keys of the data at hand; it has no columns
    struct living_links links;
    float *zeros; // as wide as a row and an extra row: where there is nothing to read
    // Rows that evaluations have looked up.
    struct parameters cache;
    pthread_mutex_t lock; // of it
};

static inline uint32_t living_extra(const struct living_links *l, uint32_t id)
{
    return l->extra != NULL ? atomic_load_explicit(&l->extra[id], memory_order_acquire)
                            : TABLE_NONE;
}

static inline void living_link(const struct living_links *l, uint32_t id, uint32_t handle,
                               uint32_t extra)
{
    if (l->extra != NULL)
        atomic_store_explicit(&l->extra[id], extra, memory_order_release);
    atomic_store_explicit(&l->handle[id], handle, memory_order_release);
}

#endif
