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

// Appends the parcel of a partition to *to. The length of *to must be a multiple of 8 and
// stays one; on failure it does not change. If an admin operation is in progress, it is
// first done in this partition. No cut may be in progress.
int parcel_get(struct store *s, uint32_t partition, struct buf *to, struct err *e);

// Installs a parcel in a store that has no row of the partition; afterwards the store
// owns the partition. The parcel must be aligned to 8 bytes. It may come from another
// process, so everything in it is checked. No cut or admin operation may be in progress.
// On failure the partition is empty, and this store does not own it.
int parcel_put(struct store *s, uint32_t partition, const void *bytes, size_t n,
               struct err *e);

// Appends a parcel as parcel_get does, but without the rows, their changes and removals.
int parcel_get_empty(struct store *s, uint32_t partition, struct buf *to, struct err *e);

// A copy of a partition in slices, while the partition is in use. The copy of a row
// includes the pushes from before it was copied. So the target must apply later pushes to
// copied rows, after putting their slice, and must get the keys of copied rows that were
// removed. Rows are copied in the order in which they were made, except rows that got the
// handle of an earlier, removed row; with a cold tier by ascending key. The target puts an
// empty parcel and then the slices; the last slice replaces the partition's state.
struct parcel_copy;

// Returns whether the partitions of this store can be copied in slices. They cannot if the
// store has a budget that removes rows in the order in which they were made.
bool parcel_has_slices(const struct store *s);
int parcel_copy_open(struct parcel_copy **ret, struct store *s, uint32_t partition,
                     struct err *e);
void parcel_copy_close(struct parcel_copy *c); // NULL is fine
// Appends the next slice. *ret_last becomes true with the last slice; from then on the
// target must apply pushes to all their keys, not only to copied rows. No admin operation
// may be in progress. After a failure the copy must be closed.
int parcel_copy_next(struct parcel_copy *c, struct buf *to, bool *ret_last,
                     struct err *e);
// Returns about how many bytes are left to copy.
uint64_t parcel_copy_left(const struct parcel_copy *c);
// Sets ret_copied[i] to whether the row of keys[i] was copied and was not removed since.
void parcel_copy_find(const struct parcel_copy *c, const uint64_t *keys, size_t n,
                      bool *ret_copied);
// Returns the keys of copied rows that were removed since the last parcel_copy_told.
const uint64_t *parcel_copy_removed(const struct parcel_copy *c, size_t *ret_n);
void parcel_copy_told(struct parcel_copy *c);
// Checks the bytes of a slice, and puts its rows into the store. *ret_last becomes true
// after the last slice. After a failure the caller must call store_drop.
int parcel_slice_put(struct store *s, uint32_t partition, const void *bytes, size_t n,
                     bool *ret_last, struct err *e);

// Removes about `most` rows of a partition. Sets *ret_left to whether rows are left; if
// not, the store does not own the partition any more. No cut may be under way.
int store_drop_some(struct store *s, uint32_t partition, uint32_t most, bool *ret_left,
                    struct err *e);

// Removes all rows of a partition, in memory and on disk, and records nothing for deltas.
// Afterwards the store does not own the partition. No cut may be under way.
int store_drop(struct store *s, uint32_t partition, struct err *e);

#endif
