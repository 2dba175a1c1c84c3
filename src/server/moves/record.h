// Records of a partition that moves (partition.h), for the files that write them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_MOVES_RECORD_H
#define TUG_SERVER_MOVES_RECORD_H

#include "server/moves/partition.h"

struct parcel_copy;

enum record_kind {
    // The tables. Their rows are included, except for tables whose rows come in slices.
    RECORD_ROWS = 1,
    RECORD_PUSH,
    RECORD_FACTS,
    RECORD_SLICE,   // a table's number, and a slice of its rows
    RECORD_REMOVED, // a table's number, and keys of rows that were removed after they had
                    // been copied
    // Only in channels of replicas (server/chain):
    RECORD_TABLE, // a table was made
    RECORD_TICK,  // a tick of a worker in an ssp table
    RECORD_STEP,  // the steps of a session
    RECORD_PART,  // a part of a synchronous batch
    RECORD_BATCH, // a synchronous batch was applied
    // Rows have changed in a way for which there is no record: a replica leaves its chain,
    // and is filled again. The content is a sentence with the reason.
    RECORD_REFILL,
    RECORD_PUBLISHED, // a save was committed: a table's number, the checksum of the
                      // manifest, and for each place what was published (store/cut.h)
    RECORD_DAY,       // a table's number: a day has ended
    RECORD_OPERATION, // an admin operation
    RECORD_LOAD,      // a load of a table from a save
};

// record_begin appends a head. record_end completes the head of the record that begins at
// `begin`, or removes the record if rc is not 0; it returns rc.
int record_begin(const struct shard *s, enum record_kind kind, enum wire_space space,
                 uint32_t partition, struct buf *to, struct err *e);
int record_end(struct buf *to, size_t begin, int rc);
// Sets the error that *to could not grow. Returns its code.
int record_no_room(const struct buf *to, struct err *e);
// Appends a table to a record of kind RECORD_ROWS, with its rows if `rows` is true, else
// with an empty parcel.
int record_add_table(struct shard_table *t, uint32_t partition, bool rows, struct buf *to,
                     struct err *e);

#endif
