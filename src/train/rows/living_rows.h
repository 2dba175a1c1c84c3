// The rows of a run in one process with a feature lifecycle. The two tables are stores
// (store/store.h), as on a server, and threads update the rows of the sparse one in place
// (store/store_steps.h, train/rows/living_steps.h). Only this file makes stores for a local
// trainer; they are saved, loaded and looked up like all others.
//
// When data is read, its keys become ids. A link leads from an id to its row. The row is
// made when an entry policy admits the key, and may be removed again.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_LIVING_ROWS_H
#define TUG_TRAIN_ROWS_LIVING_ROWS_H

#include <pthread.h>
#include <stdatomic.h>

#include "save/save.h"
#include "store/store_steps.h"
#include "train/rows/parameters.h"

// Special handles. LIVING_NONE: the id has no row yet. LIVING_REFUSED: the id never gets
// a row, because the entry policy refused it after all its examples were counted.
#define LIVING_NONE TABLE_NONE
#define LIVING_REFUSED (TABLE_NONE - 1)

// Links from each id to its row. A writer holds the lock of the id's partition and writes
// the handle last; threads that have pinned the table read without the lock. Each member
// is an array of its own, because later passes over counted data read only the first one
// or two arrays.
struct living_links {
    size_t n;
    _Atomic uint32_t *handle; // handle of the row; values from TABLE_MAX_ROWS on mean no
                              // row
    _Atomic uint32_t *extra;  // handle of the extra row, or TABLE_NONE; NULL: the table
                              // has no extra rows
    uint16_t *partition;      // partition of the key
};

struct living_rows {
    struct store *sparse, *dense;
    float **blocks;     // the rows of the dense table
    struct model model; // the model, on rows as the stores hold them
    struct store_steps *steps;
    struct store_views views;
    uint64_t steps_before; // the table's global step before the first batch of this run
    // Maps the keys of the data in memory to ids; its rows have no columns.
    struct table *ids;
    struct numbering known; // keys that this process has trained on
    struct living_links links;
    // Zeros, as many as a row and an extra row have, which stand for a missing row.
    float *zeros;
    // Copies of the rows that evaluations have looked up.
    struct parameters cache;
    pthread_mutex_t lock; // protects the cache
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
