// A parcel is all that a store has of one partition, as bytes: rows in the order in which
// they were made, extra rows, rows on disk, the state of the entry policy, the day, and
// the notes for deltas. A partition moves to another store, also of another process, by
// its parcel.
//
// A parcel shows the partition at one moment. Equal histories give equal bytes, except
// that which rows are on disk may differ.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_PARCEL_H
#define TUG_STORE_PARCEL_H

#include "base/buf.h"
#include "store/store.h"

// Appends the parcel of a partition to *to, whose length must be a multiple of 8 and is
// one again afterwards. If an admin operation is in progress, it is first done in the
// partition. No cut may be in progress. On failure the length of *to does not change.
int parcel_get(struct store *s, uint32_t partition, struct buf *to, struct err *e);

// Installs a parcel, which starts at a multiple of 8 bytes, in a store that has no row of
// the partition; the store owns the partition then. The bytes may come from another
// process: everything in them is checked. No cut or admin operation may be in progress.
// On failure the partition is empty and its owner does not change.
int parcel_put(struct store *s, uint32_t partition, const void *bytes, size_t n,
               struct err *e);

// Removes all rows of a partition, on disk too, without notes for deltas. The partition
// does not belong to this store then. No cut may be under way.
int store_drop(struct store *s, uint32_t partition, struct err *e);

#endif
