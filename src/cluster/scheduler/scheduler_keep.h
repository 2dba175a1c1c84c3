// A scheduler's state in a journal: its rows (scheduler_rows.c), when they are written
// (scheduler_keep.c), and how a scheduler continues from them (scheduler_restore.c).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_SCHEDULER_KEEP_H
#define TUG_CLUSTER_SCHEDULER_SCHEDULER_KEEP_H

#include <assert.h>

#include "cluster/bugs.h"
#include "cluster/scheduler/outbox.h"
#include "cluster/scheduler/scheduler_internal.h"

struct journal;

// The kinds of rows. Journals hold the numbers, so a new kind gets the next number, and
// never a number that another kind once had.
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
    ROW_BACKUPS = 11,
    ROW_UNBACKED = 12,
    ROW_KINDS,
    ROW_LEASES = 32, // plus a value of enum leases_row
};
static_assert(ROW_KINDS <= ROW_LEASES, "the kinds of rows overlap those of leases");

// Each row of a group in the journal begins with this head, and has n bytes.
struct row_head {
    uint32_t kind, index;
    uint64_t n;
};

enum keep_state {
    KEEP_WRITES, // changes are written, and messages wait until they are durable
    KEEP_ENDED,  // the cluster has ended: nothing is written, and messages are sent
    KEEP_FAILED, // the journal has failed: nothing is written, and messages are dropped
};

struct kept_rows {
    struct buf *rows; // the rows of one kind, as they are in the journal
    uint32_t n, cap;
};

struct keep {
    struct journal *journal;
    enum keep_state state;
    struct kept_rows of[ROW_KINDS];
    struct buf group, row;
    // Number of the barrier whose collective result the journal has.
    uint64_t collected;
    uint64_t least_bytes; // size of the journal when it was last replaced
    struct outbox out;
    uint32_t pid; // process id of the scheduler that wrote the state
};

// Returns how many rows of this kind there are.
uint32_t scheduler_rows_count(const struct scheduler *s, enum row_kind kind);
// Appends row i of this kind to `to`. Returns 0 or TUG_ENOMEM.
int scheduler_row_write(struct scheduler *s, enum row_kind kind, uint32_t i,
                        struct buf *to);
// Restores row i of this kind. Returns TUG_EDATA if the bytes are not a valid row.
int scheduler_row_read(struct scheduler *s, enum row_kind kind, uint32_t i,
                       const void *bytes, size_t n);

// Returns the injected bug that leaves out changes of this kind of row, which may be a
// kind of the leases; NO_BUG: no bug does.
enum bug scheduler_row_bug(uint32_t kind);

// Reads the state from the journal in the options and makes the scheduler continue from
// there, or begins the journal of a new cluster.
int scheduler_keep_open(struct scheduler *s, struct err *e);
void scheduler_keep_close(struct scheduler *s);
// Sends a message once the state is durable; an answer to a heartbeat at once, if the
// answer contains no decision.
void scheduler_keep_send(struct scheduler *s, van_link link, uint16_t type,
                         uint64_t request, const void *msg);
// Returns whether the scheduler must be silent, even to heartbeats: etcd does not answer,
// so it is not known whether this scheduler still leads.
bool scheduler_is_mute(const struct scheduler *s);
// Returns whether a message may be sent although a group is not durable, if it contains no
// decision.
bool scheduler_keep_speaks(const struct scheduler *s);
// Writes the changed rows to the journal, and when they are durable sends
// the messages that wait.
void scheduler_keep_tick(struct scheduler *s);

// Reads the rows of the journal into a new scheduler, and sets s->restored if the journal
// has any rows.
int scheduler_restore(struct scheduler *s, struct err *e);
// Makes the restored nodes' times of silence begin now.
void scheduler_restore_serve(struct scheduler *s);

#endif
