// The rows of a run in one process whose features live: its two tables are stores
// (store/store.h), as a server's are, and threads step on the sparse one's rows in place
// (store/store_steps.h, train/local_steps.h). This is the one place where the local
// trainer makes stores; they are saved, loaded and looked up as all others are.
//
// Keys of the data at hand become ids when the data is read. What an id's row is, a link
// says: rows come when an entry policy admits their keys, and go.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_LOCAL_ROWS_H
#define TUG_TRAIN_LOCAL_ROWS_H

#include <pthread.h>
#include <stdatomic.h>

#include "save/save.h"
#include "store/store_steps.h"
#include "train/config.h"
#include "train/parameters.h"

// Handles of no row: none yet; and none for all examples that were counted before, which
// is the policy's last word on the key.
#define LOCAL_NONE TABLE_NONE
#define LOCAL_REFUSED (TABLE_NONE - 1)

// Of each id. Handles are written with the partition's lock held, that of the row last; and
// read without it by who is pinned. In arrays of their own, for a pass over data that was
// counted reads the first alone, or the first two.
struct local_links {
    size_t n;
    _Atomic uint32_t *handle; // of the row; from TABLE_MAX_ROWS on there is none
    _Atomic uint32_t *extra;  // of its extra row, or TABLE_NONE; NULL: there are none
    uint16_t *partition;      // of its key
};

struct local_rows {
    struct store *sparse, *dense;
    float *bias;        // the row of the dense one
    struct model model; // on rows as they lie in the stores
    struct store_steps *steps;
    struct store_views views;
    struct table *ids; // keys of the data at hand; it has no columns
    struct local_links links;
    float *zeros; // as wide as a row and an extra row: where there is nothing to read
    // What evaluations have looked up.
    struct parameters cache;
    pthread_mutex_t lock; // of it
};

// Opens the stores that run_tables says; `m` is the model on rows of its own.
int local_rows_open(struct local_rows **ret, const struct train_config *c,
                    const struct model *m, struct err *e);
void local_rows_close(struct local_rows *l); // NULL is fine

// From here on threads step; whatever is loaded was loaded before.
int local_rows_begin(struct local_rows *l, struct err *e);

// Before other data is read, and after it: ids begin anew, and are linked with what rows
// there are. For dataset_load in between; ctx: struct local_rows.
int local_rows_new_data(struct local_rows *l, struct err *e);
int local_rows_resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids);
int local_rows_link(struct local_rows *l, struct err *e);

// For evaluations: ids of rows in l->cache, as parameters_resolve_seen gives them.
int local_rows_evaluate(struct local_rows *l, struct err *e); // begins one
int local_rows_resolve_seen(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids);

// TUG_EDATA: a row is not finite.
int local_rows_check(struct local_rows *l, struct err *e);

// The tables into the save in `dir` (train/saved.h), and the way back.
int local_rows_save(struct local_rows *l, const char *dir, struct save_manifest *m,
                    struct err *e);
int local_rows_load(struct local_rows *l, const char *dir, bool sparse, bool dense,
                    struct err *e);

static inline uint32_t local_extra(const struct local_links *l, uint32_t id)
{
    return l->extra != NULL ? atomic_load_explicit(&l->extra[id], memory_order_acquire)
                            : TABLE_NONE;
}

static inline void local_link(const struct local_links *l, uint32_t id, uint32_t handle,
                              uint32_t extra)
{
    if (l->extra != NULL)
        atomic_store_explicit(&l->extra[id], extra, memory_order_release);
    atomic_store_explicit(&l->handle[id], handle, memory_order_release);
}

#endif
