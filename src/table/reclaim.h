// When a row may be used again: epoch-based reclamation (Fraser 2004, section 5.2.3).
//
// A reader that pins itself notes the current epoch. A row taken out of the index is
// stamped with the current epoch, and the epoch advances. The row may be reused once no
// reader is pinned at an epoch <= its stamp: every reader that could have found the row
// has unpinned.
//
// Why no reader is missed: pinning is "note the epoch, then touch the counter"; erasing
// is "take out, then touch the counter"; the horizon is "touch the counter, then read all
// readers". The touches are read-modify-writes of one counter, so they are ordered. A
// reader that touched before the horizon was taken is seen; one that touched after it
// came after the row was taken out and cannot find it.
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
    _Atomic uint64_t epoch; // from 1: a reader's 0 means not pinned
    pthread_mutex_t lock;   // guards the list of readers
    struct table_reader *readers;
    uint32_t n_readers;
};

void reclaim_open(struct reclaim *r);
void reclaim_close(struct reclaim *r); // no reader may be open

// Returns the epochs of a table's readers, for a store that keeps more memory for its rows
// and frees it as rows are freed. The table owns them.
struct reclaim *table_reclaim(struct table *t);

int reclaim_join(struct reclaim *r, struct table_reader **ret, struct err *e);

// Returns the stamp for rows just taken out of the index.
uint64_t reclaim_stamp(struct reclaim *r);

// Erased rows of a stripe, oldest first, under the stripe's lock. The list lies outside
// the rows: a reader may still compare keys in them. A block has the stamp of its
// youngest row.
struct limbo_block;

struct limbo {
    struct limbo_block *first, *last;
    // An empty one, so that a boundary does not cost an allocation.
    struct limbo_block *spare;
    uint64_t horizon; // the horizon when it was last computed
};

void limbo_close(struct limbo *l);

// If memory is out, the row is not reused until the table is closed.
void limbo_push(struct limbo *l, uint32_t handle, uint64_t stamp);

// Returns a row that may be reused, TABLE_NONE if there is none under l->horizon.
uint32_t limbo_pop(struct limbo *l);

// Reads the readers' epochs again, if that can help. Call once per batch.
void limbo_refresh(struct limbo *l, struct reclaim *r);

#endif
