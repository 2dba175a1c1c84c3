// When a row may be used again: epoch-based reclamation (Fraser 2004, section 5.2.3).
//
// A reader that pins itself writes down the epoch of that moment. A row taken out of the
// index gets a stamp, the epoch of then, and the epoch advances. The row may be used
// again once no reader is pinned at an epoch <= its stamp: every reader that could have
// found the row has unpinned.
//
// Why no reader is missed: pinning is "write the epoch down, then touch the counter";
// erasing is "take out, then touch the counter"; the horizon is "touch the counter, then
// look at all readers". The touches are read-modify-writes of one counter, so they are
// ordered. A reader that touched before the horizon was taken is seen; one that touched
// after it came after the row was taken out and cannot find it.
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
    pthread_mutex_t lock;   // of the list
    struct table_reader *readers;
    uint32_t n_readers;
};

void reclaim_open(struct reclaim *r);
void reclaim_close(struct reclaim *r); // no reader may be open

int reclaim_join(struct reclaim *r, struct table_reader **ret, struct err *e);

// For rows just taken out of the index.
uint64_t reclaim_stamp(struct reclaim *r);

// Erased rows of a stripe, oldest first, under the stripe's lock. They are kept apart
// from the rows: a reader may still compare keys with what lies there. A block has the
// stamp of its youngest row.
struct limbo_block;

struct limbo {
    struct limbo_block *first, *last;
    struct limbo_block
        *spare;       // an empty one, so that a boundary does not cost an allocation
    uint64_t horizon; // as last seen
};

void limbo_close(struct limbo *l);

// Out of memory, the row is not used again before the table is closed.
void limbo_push(struct limbo *l, uint32_t handle, uint64_t stamp);

// A row that may be used again, TABLE_NONE if there is none under l->horizon.
uint32_t limbo_pop(struct limbo *l);

// Looks at the readers again, if that can help. Once per batch.
void limbo_refresh(struct limbo *l, struct reclaim *r);

#endif
