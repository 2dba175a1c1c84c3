// Decides when the memory of an erased row may be reused: epoch-based reclamation (Fraser
// 2004, section 5.2.3).
//
// A reader that pins itself stores the current epoch. A row taken out of the index is
// stamped with the current epoch, and the epoch advances. The row may be reused once no
// reader is pinned at an epoch <= its stamp: every reader that could have found the row
// has unpinned.
//
// Why no reader is missed: a pin stores the epoch, then touches the counter; an erase
// takes the row out of the index, then touches the counter; computing the horizon touches
// the counter, then reads all readers. The touches are read-modify-writes of one counter,
// so they are ordered. The horizon sees a reader that touched before it. A reader that
// touched later pinned itself after the row was taken out, and cannot find the row.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TABLE_RECLAIM_H
#define TUG_TABLE_RECLAIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "table/table.h"

struct reclaim {
    // Counts from 1, because a reader with epoch 0 is not pinned.
    _Atomic uint64_t epoch;
    pthread_mutex_t lock; // guards the list of readers
    struct table_reader *readers;
    uint32_t n_readers;
};

void reclaim_open(struct reclaim *r);
void reclaim_close(struct reclaim *r); // all readers must be closed

// Returns the reclaimer of a table, which the table owns. A store uses it for extra rows,
// whose memory it frees as the table frees rows.
struct reclaim *table_reclaim(struct table *t);

int reclaim_join(struct reclaim *r, struct table_reader **ret, struct err *e);

// Returns the stamp for rows that were just taken out of the index. Advances the epoch.
uint64_t reclaim_stamp(struct reclaim *r);

// The erased rows of a stripe that wait to be reused, oldest first; the stripe's lock
// guards them. The list is not kept in the memory of the rows, because readers may
// still compare the keys there. All rows in a block of the list have the stamp of the
// row that was erased last.
struct limbo_block;

struct limbo {
    struct limbo_block *first, *last;
    // An empty block that is kept, so that alternating pushes and pops at the end of a
    // block do not allocate memory each time.
    struct limbo_block *spare;
    uint64_t horizon; // the horizon as last computed: see limbo_refresh
};

void limbo_close(struct limbo *l);

// Adds a row. If memory is out, the row is never reused.
void limbo_push(struct limbo *l, uint32_t handle, uint64_t stamp);

// Returns a row that may be reused because its stamp is below l->horizon; TABLE_NONE if
// there is no such row.
uint32_t limbo_pop(struct limbo *l);

// Updates the horizon from the epochs of all readers, if rows wait to be reused. Called
// once for each batch.
void limbo_refresh(struct limbo *l, struct reclaim *r);

#endif
