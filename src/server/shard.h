// A shard: one loop of a server, a node of its own, with its own partitions of every
// table. One thread, no locks. A state machine behind a van handler, with its member
// inside.
//
// A push happens exactly once in every partition it touches. For each session a shard
// remembers the low-water mark and, for each number above it, in which partitions it was
// applied; for each identity (pass, piece, group) likewise, until the scheduler says that
// the piece is done. So a push that is sent again, by the same worker or by another one
// that took over the piece, is acknowledged and not applied. A push is applied before it
// is acknowledged, atomically in each partition.
//
// A request under another epoch than the shard's: an older one is answered by the newer
// roster if it asks for a partition that is not the shard's (else served); for a newer
// one the shard fetches the roster first and then decides. Requests of a session that
// has ended are refused.
//
// Modes of a table:
//   async  a push is applied at once; a pull sees what is there
//   ssp    likewise, but a pull at clock c waits until every living worker's tick is at
//          least c - staleness, or it has finished; a worker counts from its first tick on
//   sync   a clock is one batch, cut into micro-batches; pushes stand for aligned dyadic
//          ranges of them. When all are in, each key's contributions are added by the fixed
//          tree (table/tree_sum.h), divided by the examples with `mean`, and applied once.
//          A pull at clock c waits until all clocks before c are applied. Of two pushes for
//          nested ranges the larger counts (they hold the same bits). A push is
//          acknowledged when it is in.
// Held pulls hold up nothing else.
//
// The rows of a table lie in a store (store/store.h). Admin operations for a whole table
// (shrink, day, clear, load) are numbered and happen once, like pushes; those that
// walk over rows do it in slices between requests, and are answered at the end. Saves
// are described in save.h.
//
// Bytes from outside: keys must come by ascending partition; values must be finite;
// widths and counts must fit. Other pushes are refused as a whole with one sentence.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SHARD_H
#define TUG_SERVER_SHARD_H

#include "base/budget.h"
#include "base/err.h"
#include "cluster/member.h"
#include "protocol/spec.h"
#include "server/roots.h"
#include "table/tree_sum.h"

enum {
    SHARD_MICROS = TREE_LEAVES, // micro-batches of a batch (sync)
    SHARD_MAX_CLOCKS = 4,       // batches of a sync table that are open at the same time
};

struct shard_options {
    struct member_options member; // its callbacks and their ctx are the shard's own
    uint64_t hold_timeout_ns; // a pull held for longer is answered by an error that names
                              // the workers waited for; 0: 10 minutes
    uint64_t max_bytes;       // of rows; a push beyond it is refused; 0: no limit
    struct budget *budget;    // of the process's buffers; NULL: no limit
    uint64_t slice_ns;        // of admin operations and saves between requests; 0: 2 ms
    uint64_t save_timeout_ns; // a save is given up whose asker, or whose marks, have been
                              // away for so long; 0: 1 minute
    // Lines for people: who was not let in. May be NULL.
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
    const struct roots *roots; // files are below them (server/roots.h); NULL: none
    // APP messages (tug/kvapp.h): the answer, if any, is sent by who is called. May be
    // NULL.
    void (*app)(void *ctx, van_link link, uint32_t node, struct van_message *m);
    void *app_ctx;
    // Tests only: the loop writes files itself, a defect that the simulator must find.
    bool without_threads;
    bool without_repeat_check, without_epoch_check, acknowledge_before_apply;
    bool without_session_check; // who has no session, or one that has ended
    bool without_order_check, without_marks, without_late_workers;
    bool without_roster_of_saves;
};

struct shard;

int shard_open(struct shard **ret, const struct shard_options *o, struct err *e);
void shard_close(struct shard *s); // before its van is freed; NULL is fine
struct van_handler shard_handler(struct shard *s);
void shard_serve(struct shard *s, struct van *v, uint64_t now); // joins through v

struct member *shard_member(struct shard *s);

// True when it has left the cluster, or the cluster has ended: code 0 when all was well.
bool shard_finished(const struct shard *s, struct err *ret_why);

// For tests and for placement moves: hands all rows of a partition, and what is
// remembered of pushes to it, to another shard. Nothing of it stays behind.
int shard_move(struct shard *from, struct shard *to, uint32_t partition,
               enum wire_space space, struct err *e);

#endif
