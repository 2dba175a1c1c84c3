// Lets threads of this process update rows of a store in place.
//
// A thread first passes the distinct keys of its batch to the partitions that they belong
// to (store_arrive): under the partition's lock the entry policy decides, rows are made,
// statistics are added and embeddings are earned. So the set of rows and their counters
// are as exact as with store_push. Then the thread updates its rows without a lock: only
// the floats of weights and states are shared (base/relaxed.h).
//
// Rows are given as handles. A handle stays valid while any thread that may have read it
// is pinned. The memory of a removed row (budgets) is reused only when all these threads
// have unpinned (table/reclaim.h). Before rows are removed, a caller that keeps handles
// between batches gets the keys of these rows; it must not use their handles any more.
//
// While this is open, the store may be used only by its functions, or while no thread
// works: the owner does saves, loads and admin operations when all threads wait. It is
// not possible for a store with a cold tier.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_STORE_STEPS_H
#define TUG_STORE_STORE_STEPS_H

#include "store/store.h"

// Called with the partition's lock held, with keys of this partition whose rows will be
// removed.
typedef void (*store_removed_fn)(void *ctx, const uint64_t *keys, size_t n);

struct store_steps;
int store_steps_open(struct store_steps **ret, struct store *s, store_removed_fn removed,
                     void *ctx, struct err *e);
void store_steps_close(struct store_steps *x); // NULL is fine

// A thread's own data for the use of a struct store_steps.
struct store_stepper;
int store_stepper_open(struct store_stepper **ret, struct store_steps *x, struct err *e);
// Frees a stepper, which may be NULL; the thread must be unpinned.
void store_stepper_close(struct store_stepper *t);
void store_stepper_pin(struct store_stepper *t);
void store_stepper_unpin(struct store_stepper *t);

// A key of a batch, with its statistics.
struct store_arrival {
    uint64_t key;    // used if the key has no row
    uint32_t handle; // handle of the row; TABLE_NONE: none
    uint32_t extra;  // handle of the extra row; TABLE_NONE: none
    float show, click, slot;
    uint32_t id; // a number of the caller's, which the store does not use
};

struct store_arriving {
    uint32_t partition;
    uint64_t step; // the table's global step, as for store_set_step
    bool again; // whether the examples were counted in an earlier pass, as in store_push
};

// Take and release the partition's lock, which must be held from reading the handles of
// arrivals until their results are stored. The thread must be pinned.
void store_steps_lock(struct store_steps *x, uint32_t partition);
void store_steps_unlock(struct store_steps *x, uint32_t partition);

// Passes n distinct keys to the partition. Fills in the handles of rows that are made,
// and of extra rows that are earned. On TUG_ENOMEM all keys were counted, but some have
// no row.
int store_arrive(struct store_stepper *t, const struct store_arriving *w,
                 struct store_arrival *a, size_t n, struct err *e);
// Removes rows beyond the partition's budget; rows that have just arrived may be among
// them.
void store_arrived(struct store_stepper *t, uint32_t partition);

// Finds the handles of the rows of n keys that the caller will change. No other thread
// may update rows meanwhile.
int store_steps_find(struct store_steps *x, const uint64_t *keys, size_t n,
                     uint32_t *ret_handles, uint32_t *ret_extras, struct err *e);

// Sizes the index of each partition p of an empty store for about keys[p] keys, so that
// it need not grow in steps. The store's entry policy must admit every key.
void store_steps_expect(struct store_steps *x, const uint64_t *keys);

// Returns the row of a key; NULL if the key has no row. The caller must know that the row
// is not removed while it is used. Rows never move in memory.
float *store_steps_row(struct store *s, uint64_t key);

// The memory of rows and extra rows. extras.slab is NULL without extra rows.
struct store_views {
    struct table_slabs rows, extras;
};
struct store_views store_steps_views(const struct store_steps *x);

#endif
