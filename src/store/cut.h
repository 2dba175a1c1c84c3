// A cut: all rows of a store as they are at one moment, read out while training goes on.
//
// cut_begin is quick; cut_next then gives the rows, partition by partition and sorted by
// key, in blocks as a rows_file wants them. Meanwhile rows of partitions that were not
// read out yet are copied before their first change. The copies are capped
// (`side_bytes`): without cut_has_room a push must wait until cut_next has come further;
// store_push fails with TUG_EUSAGE then, so ask first.
//
// What a mode writes: life.h. Rows of a base and a delta are written as published: their
// change of score begins anew. A delta also names the keys of rows that are gone, or not
// worth publishing. The mark of what has changed is moved at cut_begin and belongs to the
// cut: after cut_end with committed == false everything is as if it had never been (but
// for a day that has ended); with true, what was published counts as published, except
// rows changed since.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_CUT_H
#define TUG_STORE_CUT_H

#include "store/rows_block.h"
#include "store/store.h"

struct cut_options {
    enum save_mode mode;
    uint64_t side_bytes; // 0: a tenth of the table, 64 MiB at least
};

// TUG_EUSAGE: a cut or an admin operation goes on, or deltas are not noted in this table.
int cut_begin(struct store *s, const struct cut_options *o, struct err *e);
bool cut_going(const struct store *s);
// Of the cut that goes on: its mode, and the last day of the partitions.
enum save_mode cut_mode(const struct store *s);
uint32_t cut_day(const struct store *s);

// The next block, valid until the next call on the store; kind ROWS_END: that was all.
// About `bytes` at most in a block (one row at least). Any other kind with n == 0: enough
// was looked at for now, and nothing of it is to be written; call again.
int cut_next(struct store *s, size_t bytes, struct rows_block *ret, struct err *e);

// Whether a push to these keys can be applied now.
bool cut_has_room(const struct store *s, const uint64_t *keys, size_t n);

// All files are written and the manifest names them, or not. Once committed, an admin
// operation goes on (STORE_PUBLISHED). TUG_ENOMEM: the cut still goes on; try again. With
// SAVE_DAY, the day ends at cut_begin, with the rows written as of before.
int cut_end(struct store *s, bool committed, struct err *e);

struct cut_stats {               // of the cut that goes on
    uint64_t rows, extras, gone; // read out
    uint64_t copied, side_peak;  // rows; bytes
};
struct cut_stats cut_stats(const struct store *s);

#endif
