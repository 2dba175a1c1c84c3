// A scheduler's state in a journal, and the messages that wait until it is durable: see
// scheduler_keep.c.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_SCHEDULER_KEEP_H
#define TUG_CLUSTER_SCHEDULER_SCHEDULER_KEEP_H

#include <assert.h>

#include "cluster/scheduler/scheduler_internal.h"

// The kinds of rows. Journals hold the numbers, so a new kind gets the next one, and no kind
// gets a number that another kind ever had.
enum row_kind {
    ROW_NONE = 0,
    ROW_META = 1,
    ROW_CLUSTER = 2,
    ROW_GROUP = 3,
    ROW_OWNERS = 4,
    ROW_WANTED = 5,
    ROW_MOVES = 6,
    ROW_PROCESS = 7,
    ROW_NODE = 8,
    ROW_COLLECTED = 9,
    ROW_FORGETS = 10,
    ROW_KINDS,
    ROW_LEASES = 32, // plus one of enum leases_row
};
static_assert(ROW_KINDS <= ROW_LEASES, "the kinds of rows overlap those of leases");

// Returns how many rows of this kind there are.
uint32_t scheduler_rows_count(const struct scheduler *s, enum row_kind kind);
// Appends row i of this kind to `to`. Returns 0 or TUG_ENOMEM.
int scheduler_row_write(struct scheduler *s, enum row_kind kind, uint32_t i,
                        struct buf *to);
// Restores row i of this kind. Returns TUG_EDATA if the bytes are not a valid row.
int scheduler_row_read(struct scheduler *s, enum row_kind kind, uint32_t i,
                       const void *bytes, size_t n);

// Reads the state from the journal in the options and makes the scheduler continue from
// there, or begins the journal of a new cluster.
int scheduler_keep_open(struct scheduler *s, struct err *e);
void scheduler_keep_close(struct scheduler *s);
// Makes the restored nodes' times of silence begin now.
void scheduler_keep_serve(struct scheduler *s);
// Writes the changed rows to the journal, and when they are durable sends
// the messages that wait.
void scheduler_keep_tick(struct scheduler *s);

#endif
