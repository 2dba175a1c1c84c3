// Records of a partition that moves (partition.h), for the files that write them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_MOVES_RECORD_H
#define TUG_SERVER_MOVES_RECORD_H

#include "server/moves/partition.h"

struct parcel_copy;

enum record_kind {
    // The tables; with their rows, except of tables whose rows come in slices.
    RECORD_ROWS = 1,
    RECORD_PUSH,
    RECORD_FACTS,
    RECORD_SLICE,   // a table's number, and a slice of its rows
    RECORD_REMOVED, // a table's number, and keys of rows that were copied and removed
};

// record_begin appends a head, which record_end completes. If rc is not 0, record_end
// removes the record, which began at `begin`. It returns rc.
int record_begin(const struct shard *s, enum record_kind kind, enum wire_space space,
                 uint32_t partition, struct buf *to, struct err *e);
int record_end(struct buf *to, size_t begin, int rc);
// Sets the error that bytes could not be appended to *to.
int record_no_room(const struct buf *to, struct err *e);
// Appends a table to a record of kind RECORD_ROWS: with its rows, or with an empty parcel.
int record_add_table(struct shard_table *t, uint32_t partition, bool rows, struct buf *to,
                     struct err *e);

#endif
