// The scheduler: it lets nodes in, gives out ids, ranks and the placement, holds
// barriers, notices deaths, leases data, and ends the cluster. A state machine: messages
// and the time go in by its van handler, messages go out by the van.
//
// The cluster is ready (epoch 1) when all servers and workers that it was made for have
// joined. The placement is empty until then. Ranks follow the order in which processes
// joined. A worker that joins later gets the rank of a dead one, else the next.
//
// A node is dead when its link has closed without LEAVE and it does not come back with
// its ticket, or no heartbeat of its process has come, for the time of the options. A
// dead worker's leases go to others; its session is over: servers refuse it, so that what
// it had in flight is applied once or not at all. A dead server means that the run cannot
// continue (there are no spares yet): all nodes get STOP, which names the lost
// partitions.
//
// The run ends with RUN_OVER (a driver's), when the last worker has left or died, or with
// STOP from a tool. Servers are stopped when no worker is left. scheduler_finished
// returns true when all have left, or the time for leaving is over.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_H
#define TUG_CLUSTER_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/roster.h"
#include "van/van.h"

struct scheduler_options {
    uint64_t cluster;          // see msg_hello
    uint32_t servers, workers; // processes
    uint32_t partition_bits;
    uint64_t gather_timeout_ns; // for all to come; then STOP naming who is missing
    uint64_t dead_timeout_ns;   // without a sign of life
    uint64_t leave_timeout_ns;  // for all to leave at the end
    uint64_t session_base;      // sessions begin above it: the start time in ns
    uint8_t session_key[32];    // random: see cluster/proof.h
    uint32_t pid;
    const char *host;
    // Its process drives the run, and ends it in order, with a save, when scheduler_asked says
    // so: processes that a signal asks to end wait for that.
    bool ends_in_order;
    bool without_late_marks; // tests: see leases_forget_late_marks
    bool without_signs; // tests: who sends no heartbeats is not asked before it is dead
    bool without_forgiving; // tests: while it was stopped the others were silent
    void (*log)(void *ctx, const char *line); // joins, deaths, the end; may be NULL
    void *log_ctx;
};

struct scheduler;

int scheduler_open(struct scheduler **ret, const struct scheduler_options *o,
                   struct err *e);
void scheduler_close(struct scheduler *s);

// The handler for the scheduler's van; then scheduler_serve tells which van that is.
struct van_handler scheduler_handler(struct scheduler *s);
void scheduler_serve(struct scheduler *s, struct van *v, const char *address);

// Asks for the end from inside the process (a signal, the driver failed).
void scheduler_stop(struct scheduler *s, int code, const char *why);

// A process that the run needs was asked to end by a signal (with ends_in_order).
bool scheduler_asked(const struct scheduler *s);

// Returns true when all have left (or the time for it is over): *ret_why is the cluster's
// result, with code 0 on success.
bool scheduler_finished(const struct scheduler *s, struct err *ret_why);

const struct roster *scheduler_roster(const struct scheduler *s);

#endif
