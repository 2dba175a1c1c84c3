// A cut reads all rows of a store as they were at one moment, while training continues:
// the rows of the partitions that the store leads when the cut begins.
//
// cut_begin is quick; cut_next then gives the rows, partition by partition and sorted by
// key, in blocks as a rows_file wants them. Meanwhile a row of a partition that was not
// read out yet is copied before its first change. The copies may take `side_bytes`: if
// cut_has_room is false, a push must wait for further calls of cut_next; store_push would
// fail with TUG_EUSAGE.
//
// life.h says which rows each mode writes. A base and a delta write rows as published:
// from then on their change of score counts from 0. A delta also names the keys of rows
// that were removed or are not worth publishing. cut_begin takes the records of changed
// rows from the store. cut_end with committed == false returns them, as if there had been
// no cut (but a day that has ended stays ended). Written rows count as
// published with committed == true, except those that have changed since.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_CUT_H
#define TUG_STORE_CUT_H

#include "base/buf.h"
#include "store/rows_block.h"
#include "store/store.h"

struct cut_options {
    enum save_mode mode;
    bool keeps_day; // with SAVE_DAY: the caller ends the day later
    // Limit of the bytes of copies of rows; 0: a tenth of the table's
    // bytes, but at least 64 MiB.
    uint64_t side_bytes;
};

// Begins a cut. Returns TUG_EUSAGE if a cut or an admin operation is under way, or if the
// mode is a delta and the table does not record changes.
int cut_begin(struct store *s, const struct cut_options *o, struct err *e);
bool cut_going(const struct store *s);
// Return the mode of the current cut, and the latest day of its partitions.
enum save_mode cut_mode(const struct store *s);
uint32_t cut_day(const struct store *s);

// Returns the next block, of at most about `bytes` bytes, but with at least one row. The
// block is valid until the next call on the store. The kind ROWS_END means that all rows
// were read out. Any other kind with n == 0 means that there is no block yet, and that
// the function must be called again.
int cut_next(struct store *s, size_t bytes, struct rows_block *ret, struct err *e);

// Returns whether a push to these keys can be applied now.
bool cut_has_room(const struct store *s, const uint64_t *keys, size_t n);

// Returns whether the copies have taken half of their room.
bool cut_crowded(const struct store *s);

// Ends the cut. `committed`: all files are written and named in the manifest, so the
// admin operation STORE_PUBLISHED begins. On TUG_ENOMEM the cut has not ended, and the
// function must be called again. With SAVE_DAY the day ends at cut_begin (unless it is
// kept), and the rows are written as before the end of the day.
int cut_end(struct store *s, bool committed, struct err *e);

// Another store may have a copy of a partition (store_set_backup). In tables with
// config.deltas, these functions tell it which rows a save has published in the partition.
//
// cut_published_most returns, before cut_end, the most bytes that cut_get_published will
// append. cut_get_published must be called after cut_end with committed == true, and
// before anything else changes the partition; it returns 0 or TUG_ENOMEM.
// cut_put_published checks these bytes, which must be aligned to 8, and makes the copy's
// rows and notes for deltas equal to those of the other store after its operation
// STORE_PUBLISHED. On failure nothing has changed.
size_t cut_published_most(const struct store *s, uint32_t p);
int cut_get_published(const struct store *s, uint32_t p, struct buf *to);
int cut_put_published(struct store *s, uint32_t p, const void *bytes, size_t n,
                      struct err *e);

struct cut_stats {               // figures of the current cut
    uint64_t rows, extras, gone; // rows, extra rows and keys of removed rows that were
                                 // read out
    uint64_t copied, side_peak;  // number of rows copied so far; most bytes of copies at
                                 // one time
};
struct cut_stats cut_stats(const struct store *s);

#endif
