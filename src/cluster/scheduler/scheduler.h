// The scheduler: it lets nodes in, gives out ids, ranks and the placement, holds
// barriers, notices deaths, leases data, and ends the cluster. It is a state machine: its
// van handler receives messages and the time, and it sends messages by the van.
//
// The cluster is ready (epoch 1) when all servers and workers that it was made for have
// joined. The placement is empty until then. Ranks follow the order in which processes
// joined. A worker that joins later gets the rank of a dead one, else the next.
//
// A node is declared dead when, for the time in the options, its link is closed without
// LEAVE and the node has not come back with its ticket, or no heartbeat of its process
// has arrived. The leases of a dead worker go to other workers. Its session is over:
// servers refuse its messages, so that each of its last pushes is applied once or not at
// all. If a server dies, the next member of the chain of each partition becomes its owner
// (scheduler_chains.c). If a partition has no other member, as without replicas, the run
// cannot continue: all nodes get STOP, which names the lost partitions.
//
// Servers may join later (`late` in JOIN), and may be drained (DRAIN, or a signal): their
// partitions then move one by one (scheduler_plan.c, scheduler_moves.c). A server without
// partitions may join and leave at any time.
//
// The run ends with RUN_OVER from a driver, when the last worker has left or died, or
// with STOP from a tool. Servers are stopped when no worker is left. scheduler_finished
// returns true when all have left, or the time for leaving is over.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_SCHEDULER_H
#define TUG_CLUSTER_SCHEDULER_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/bugs.h"
#include "cluster/leases/leases.h"
#include "cluster/roster.h"
#include "os/usage.h"
#include "van/van.h"

struct journal;

struct scheduler_options {
    uint64_t cluster;          // hash of the cluster's name, as in msg_hello
    uint32_t servers, workers; // number of processes of each role
    uint32_t partition_bits;
    uint32_t replicas;          // number of loops that hold a partition; 0: 1
    uint64_t gather_timeout_ns; // time limit for all nodes to join; after it, the nodes
                                // get STOP with the names of the missing nodes
    uint64_t dead_timeout_ns;   // time without a sign of life after which a node is dead
    uint64_t server_timeout_ns; // the same for servers; 0: dead_timeout_ns
    uint64_t leave_timeout_ns;  // time limit for all nodes to leave at the end
    uint64_t session_base;   // session numbers start above this one: the start time in ns
    uint8_t session_key[32]; // random key of sessions: see cluster/proof.h
    uint32_t pid;
    const char *host;
    // Whether the scheduler's process drives the run and, when scheduler_asked returns
    // true, ends the run in order, with a save. Processes that got a signal to end then
    // wait for the end of the run.
    bool ends_in_order;
    uint64_t bugs; // tests: injected bugs (cluster/bugs.h)
    // The journal keeps the scheduler's decisions (cluster/journal). A scheduler that is
    // opened later with the same journal continues from these decisions. NULL: nothing is
    // kept. Owned by the caller.
    struct journal *journal;
    leases_merge merge; // adds up the reports that the journal keeps, or NULL
    // For the status; both may be NULL. `usage` has the resources that the process uses.
    // run_facts writes the facts of the run that a driver in this process has, as the
    // member `name` of an open object.
    struct usage *usage;
    void (*run_facts)(void *ctx, const char *name, struct json_out *to);
    void *run_facts_ctx;
    // called with lines about joins, deaths and the end; may be NULL
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
};

struct scheduler;

int scheduler_open(struct scheduler **ret, const struct scheduler_options *o,
                   struct err *e);
void scheduler_close(struct scheduler *s);

// scheduler_handler returns the handler for the scheduler's van; scheduler_serve then
// gives the scheduler that van, which listens at `address`.
struct van_handler scheduler_handler(struct scheduler *s);
void scheduler_serve(struct scheduler *s, struct van *v, const char *address);

// Ends the cluster from inside the process, after a signal or a failure of the driver.
// `why` NULL: the work is done.
void scheduler_stop(struct scheduler *s, const struct err *why);

// Returns whether a signal has asked a process that the run needs to end. Always false
// unless the option ends_in_order is set.
bool scheduler_asked(const struct scheduler *s);

// Returns true when all nodes have left, or the time for leaving is over. *ret_why is
// then the cluster's result, with code 0 on success.
bool scheduler_finished(const struct scheduler *s, struct err *ret_why);
// Returns whether the scheduler has finished because its journal has failed. It then
// sends nothing any more, and another scheduler may lead the cluster.
bool scheduler_cannot_write(const struct scheduler *s);

// Empties the journal of a cluster that has ended, so that the next scheduler begins a
// new cluster. Call it last: a scheduler that is killed earlier ends again when it is
// started again, and does not wait for members that have left.
void scheduler_forget(struct scheduler *s);

// Returns true once this scheduler was replaced or cannot write its journal. The cluster
// may then have another scheduler, so nothing of this process may act for it any more.
bool scheduler_silent(const struct scheduler *s);

const struct roster *scheduler_roster(const struct scheduler *s);

// The progress of the newest plan. `left` and `done`: the number of moves;
// `bytes`: the bytes that the moves in `done` have copied; `longest_stop_ns`: about the
// longest time for which requests for a partition had to wait, from the moment at which
// its owner might hand it over until its new owner had it. `failed`: all moves that were
// ever given up.
struct scheduler_moves {
    uint64_t left, done, failed, bytes, longest_stop_ns;
};
struct scheduler_moves scheduler_moves(const struct scheduler *s);

// For a driver whose scheduler was started again. scheduler_note_of_pass returns the note
// that the driver gave with the open pass (msg_pass), empty if there is none.
// scheduler_over returns whether the run is over already.
struct wire_text scheduler_note_of_pass(const struct scheduler *s);
bool scheduler_over(const struct scheduler *s);

// Returns how many schedulers were started with the journal; 1 without one.
uint64_t scheduler_generation(const struct scheduler *s);

// Returns the address at which the scheduler with the same journal listened before, where
// members look for it; empty if this scheduler begins a new cluster.
const char *scheduler_address(const struct scheduler *s);

#endif
