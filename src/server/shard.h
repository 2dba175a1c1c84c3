// A shard is one loop of a server: a node of its own, with its own partitions of every
// table. It runs in one thread, without locks. It is a state machine behind a van
// handler, and contains its member.
//
// A push is applied exactly once in each of its partitions. For each session a shard keeps
// the low-water mark and, for each number above it, the partitions in which that push was
// applied. It keeps the same record for each identity (pass, piece, group) of a push, until
// the scheduler says that the piece is done. So a push that is sent again, by the same worker
// or by another one that took over the piece, is acknowledged and not applied. A push is
// applied before it is acknowledged, atomically in each partition.
//
// A request may have another epoch than the shard. If its epoch is older, it is served, or
// answered by the newer roster if it asks for a partition that the shard does not own. If its
// epoch is newer, the shard fetches the newer roster first and then decides. Requests of a
// session that has ended are refused.
//
// Modes of a table:
//   async  a push is applied at once; a pull returns the current rows
//   ssp    the same, but a pull at clock c waits until each living worker has finished or has
//          sent a tick of at least c - staleness; a worker counts from its first tick on
//   sync   a clock is one batch, cut into micro-batches; a push stands for an aligned dyadic
//          range of them. When all have arrived, each key's contributions are added by the
//          fixed tree (table/tree_sum.h), divided by the examples with `mean`, and applied
//          once. A pull at clock c waits until all clocks before c are applied. If two
//          pushes have nested ranges, the larger one counts (its sums have the same bits).
//          A push is acknowledged when it has been kept.
// Pulls that wait do not block other requests.
//
// A store has the rows of a table (store/store.h). Admin operations for a whole table
// (shrink, day, clear, load) are numbered and done once, like pushes. Those that walk over
// rows do it in slices between requests, and are answered at the end. Saves are described
// in save.h.
//
// Pushes are checked: keys must be sorted by partition, values must be finite, and widths
// and counts must fit the table. Any other push is refused as a whole with one sentence.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SHARD_H
#define TUG_SERVER_SHARD_H

#include "base/err.h"
#include "cluster/member.h"
#include "os/budget.h"
#include "os/usage.h"
#include "protocol/spec.h"
#include "server/saves/roots.h"
#include "table/tree_sum.h"

enum {
    SHARD_MICROS = TREE_LEAVES, // number of micro-batches of a batch in mode sync
    SHARD_MAX_CLOCKS = 4, // number of batches of a sync table that can be open at the
                          // same time
};

struct shard_options {
    struct member_options member; // the shard sets its callbacks and their ctx
    uint64_t hold_timeout_ns; // a pull that has waited for longer is answered by an error
                              // that names the workers for which it waits; 0: 10 minutes
    uint64_t max_bytes; // limit of the bytes of rows; a push beyond it is refused; 0:
                        // none
    uint64_t memory;    // the limit of rows and buffers of the process that the user has
                        // given, for the status; 0: none
    struct budget *budget; // budget of the process's buffers; NULL: no limit
    // 0: admin operations, saves and moves work for 2 ms at a time between requests.
    // Other values are for tests and simulations, which must not depend on the clock: one
    // step of the work is done at a time, and counts as having taken this long.
    uint64_t slice_ns;
    // Time after which a save is given up if its client is not connected or marks are
    // missing; 0: 1 minute.
    uint64_t save_timeout_ns;
    // With replicas: how long a loop may send rows of partitions that it leads after it has
    // asked another member of their chains for a lease; 0: 250 ms.
    uint64_t lease_ns;
    // Is called with log lines about refused peers. May be NULL.
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
    // The directories for files (server/saves/roots.h); NULL: none.
    const struct roots *roots;
    // The process's use of the machine, for the status; NULL: not reported.
    struct usage *usage;
    // Handles APP messages (tug/kvapp.h), and sends the answers. May be NULL.
    void (*app)(void *ctx, van_link link, uint32_t node, struct van_message *m);
    void *app_ctx;
    // Writes the object "door" of the status: facts about the part of the
    // library through which programs use this server (such as kvapp). NULL: the
    // status has no such object.
    void (*door)(void *app_ctx, struct json_out *o);
    bool without_threads; // tests: the loop itself writes files
};

struct shard;

int shard_open(struct shard **ret, const struct shard_options *o, struct err *e);
void shard_close(struct shard *s); // call it before the shard's van is freed; NULL is
                                   // fine
struct van_handler shard_handler(struct shard *s);
// Joins the cluster through v.
void shard_serve(struct shard *s, struct van *v, uint64_t now);

struct member *shard_member(struct shard *s);

// Returns true when the shard has left the cluster, or the cluster has ended.
// ret_why->code is 0 if the run ended well.
bool shard_finished(const struct shard *s, struct err *ret_why);

#endif
