// A scheduler's state in a journal, and the messages that wait until it is durable: see
// scheduler_keep.c.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_SCHEDULER_KEEP_H
#define TUG_CLUSTER_SCHEDULER_SCHEDULER_KEEP_H

#include "cluster/scheduler/scheduler_internal.h"

// The kinds of rows, with the numbers that journals have.
enum row_kind {
    ROW_NONE,
    ROW_META,
    ROW_CLUSTER,
    ROW_GROUP,
    ROW_OWNERS,
    ROW_WANTED,
    ROW_MOVES,
    ROW_PROCESS,
    ROW_NODE,
    ROW_COLLECTED,
    ROW_FORGETS,
    ROW_KINDS,
    ROW_LEASES = 32, // and the kinds of enum leases_row
};

// Returns how many rows of this kind there are.
uint32_t scheduler_rows_count(const struct scheduler *s, enum row_kind kind);
// Appends a row. Returns 0 or TUG_ENOMEM. *s is not changed.
int scheduler_row_write(struct scheduler *s, enum row_kind kind, uint32_t i,
                        struct buf *to);
// Takes a row of a journal. Returns TUG_EDATA if it does not fit.
int scheduler_row_read(struct scheduler *s, enum row_kind kind, uint32_t i,
                       const void *bytes, size_t n);

// Reads the state from the journal in the options and makes the scheduler continue from
// there, or begins the journal of a new cluster.
int scheduler_keep_open(struct scheduler *s, struct err *e);
void scheduler_keep_close(struct scheduler *s);
// Tells the restored nodes' clocks that they begin now.
void scheduler_keep_serve(struct scheduler *s);
// Makes the rows that have changed durable, and then sends the messages that wait.
void scheduler_keep_tick(struct scheduler *s);

#endif
