// Records of a partition that moves (partition.h), for the files that write them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_MOVES_RECORD_H
#define TUG_SERVER_MOVES_RECORD_H

#include "server/moves/partition.h"

struct parcel_copy;

enum record_kind {
    RECORD_ROWS = 1, // the tables, with the rows of those that have no slices
    RECORD_PUSH,
    RECORD_FACTS,
    RECORD_SLICE,   // a table's number, and a slice of its rows
    RECORD_REMOVED, // a table's number, and keys of rows that were copied and removed
};

// Append a head, which record_end completes. record_end removes the record, which began at
// `begin`, if rc is not 0, and returns rc.
int record_begin(const struct shard *s, enum record_kind kind, enum wire_space space,
                 uint32_t partition, struct buf *to, struct err *e);
int record_end(struct buf *to, size_t begin, int rc);
// Sets the error for bytes that were not appended.
int record_no_room(const struct buf *to, struct err *e);
// Appends a table to a record of kind RECORD_ROWS: with its rows, or with an empty parcel.
int record_add_table(struct shard_table *t, uint32_t partition, bool rows, struct buf *to,
                     struct err *e);

#endif
