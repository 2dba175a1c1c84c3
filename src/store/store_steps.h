// Rows of a store that threads of this process step on in place.
//
// A thread brings its batch's distinct keys to their partitions first: under the
// partition's lock the entry policy decides, rows are made, statistics added up, and
// embeddings earned (store_arrive). So which rows there are, and their counters, are as
// exact as by store_push. Then it steps on the rows that it was given, without a lock:
// floats of their groups' weights and states are shared (base/relaxed.h), nothing else.
//
// Rows are given as handles. One stays what it is while a thread is pinned that may have
// read it: what is removed meanwhile (a budget) is used again only when all have unpinned
// (table/reclaim.h). Who keeps handles between batches is told which keys have lost their
// rows, before these rows go, and must not give them out from then on.
//
// While it is open, the store is used through it alone, or while no thread is at work:
// saves, loads and admin operations are the owner's, between two stretches of batches. It
// cannot be had of a store with a cold tier.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_STORE_STEPS_H
#define TUG_STORE_STORE_STEPS_H

#include "store/store.h"

// Called with the partition's lock held, of keys of this partition.
typedef void (*store_removed_fn)(void *ctx, const uint64_t *keys, size_t n);

struct store_steps;
int store_steps_open(struct store_steps **ret, struct store *s, store_removed_fn removed,
                     void *ctx, struct err *e);
void store_steps_close(struct store_steps *x); // NULL is fine

// One thread's.
struct store_stepper;
int store_stepper_open(struct store_stepper **ret, struct store_steps *x, struct err *e);
void store_stepper_close(struct store_stepper *t); // NULL is fine; unpinned
void store_stepper_pin(struct store_stepper *t);
void store_stepper_unpin(struct store_stepper *t);

// A key of a batch, and what the batch says of it.
struct store_arrival {
    uint64_t key;    // looked at where there is no row
    uint32_t handle; // TABLE_NONE: there is no row
    uint32_t extra;  // of its extra row; TABLE_NONE: there is none
    float show, click, slot;
    uint32_t id; // the caller's
};

struct store_arriving {
    uint32_t partition;
    uint64_t step; // the table's global step now
    bool again;    // as in store_push
};

// Of the partition, for the time from reading the handles of arrivals to writing down
// what has become of them. The thread is pinned.
void store_steps_lock(struct store_steps *x, uint32_t partition);
void store_steps_unlock(struct store_steps *x, uint32_t partition);

// n distinct keys of the partition arrive: handles and extras are filled in where rows
// are made and extra rows earned. TUG_ENOMEM: all were counted, but some have no row.
int store_arrive(struct store_stepper *t, const struct store_arriving *w,
                 struct store_arrival *a, size_t n, struct err *e);
// Rows beyond the partition's budget go, perhaps of those that have just arrived.
void store_arrived(struct store_stepper *t, uint32_t partition);

// Handles of n keys, while no thread is at work. Their rows are about to change.
int store_steps_find(struct store_steps *x, const uint64_t *keys, size_t n,
                     uint32_t *ret_handles, uint32_t *ret_extras, struct err *e);

// Of an empty store whose policy lets in every key: keys[p] of them will come to
// partition p. A hint, so that the index needs not grow step by step.
void store_steps_expect(struct store_steps *x, const uint64_t *keys);

// The row of a key, to be stepped on by who knows that it stays: it never moves. NULL:
// there is none.
float *store_steps_row(struct store *s, uint64_t key);

// Where rows and extra rows lie. extras.slab is NULL where there are none.
struct store_views {
    struct table_slabs rows, extras;
};
struct store_views store_steps_views(const struct store_steps *x);

#endif
