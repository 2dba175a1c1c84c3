// A server process: see server.h. The first loop runs in the caller's thread.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <pthread.h>

#include "base/alloc.h"
#include "os/log.h"

static const uint64_t poll_ns = 200000000; // interval at which the flags that signals set
                                           // are checked
// Time in ns for the message that a loop leaves to reach the scheduler.
static const uint64_t leave_ns = 2000000000;

struct loop {
    const struct server_options *options;
    const atomic_bool *leave; // set when the server was asked to end and may leave now
    uint16_t number;
    struct shard *shard;
    struct van *van;
    pthread_t thread;
    bool started;
    bool named;     // whether the prefix of log lines has the server's rank
    struct err end; // the error with which the loop ended; code 0: none
};

static int open_loop(struct loop *l, struct err *e)
{
    const struct server_options *o = l->options;
    struct shard_options so = {
        .member = node_member(o->node, WIRE_SERVER, ""),
        .max_bytes = o->max_bytes / o->loops,
        .memory = o->node->options.memory,
        .budget = &o->node->budget,
        .log = o->log,
        .log_ctx = o->log_ctx,
        .roots = o->roots,
        .usage = o->usage,
        .app = o->app,
        .app_ctx = o->app_ctx,
    };
    so.member.loop = l->number;
    so.member.loops = (uint16_t)o->loops;
    if (o->sparse_loops > 0)
        so.member.tables = l->number < o->sparse_loops ? WIRE_TABLES_SPARSE
                                                       : WIRE_TABLES_DENSE;
    TRY(shard_open(&l->shard, &so, e));
    struct van_handler h = shard_handler(l->shard);
    TRY(node_van(o->node, &l->van, &h, true, e));
    char address[VAN_ADDRESS_MAX];
    TRY(node_listen(o->node, l->van, l->number, address, e));
    TRY(member_set_address(shard_member(l->shard), address, e));
    shard_serve(l->shard, l->van, van_now(l->van));
    if (o->listens != NULL)
        o->listens(o->listens_ctx, l->number, address);
    return 0;
}

static void close_loop(struct loop *l)
{
    // The shard is closed before the van, because it keeps message bodies
    // that belong to the van.
    shard_close(l->shard);
    van_free(l->van);
}

static bool interrupted(const struct loop *l)
{
    const struct server_options *o = l->options;
    return (o->interrupted != NULL && atomic_load(o->interrupted)) ||
           atomic_load(l->leave);
}

static void server_serve(struct loop *l)
{
    while (!shard_finished(l->shard, &l->end)) {
        if (interrupted(l)) {
            err_set(&l->end, TUG_EINTERRUPTED, "interrupted");
            return;
        }
        if (van_poll(l->van, van_now(l->van) + poll_ns, &l->end) != 0)
            return;
        if (l->number == 0 && !l->named && member_ready(shard_member(l->shard))) {
            uint32_t rank = member_rank(shard_member(l->shard));
            l->named = true;
            log_set_rank((int)rank);
            log_info("joined the cluster at %s as server %u%s",
                     l->options->node->scheduler, rank,
                     l->options->node->options.late
                         ? ": partitions move here from the other servers"
                         : "");
        }
    }
}

// Tells the scheduler that this loop leaves. Otherwise the scheduler would notice only
// after a time limit that the loop is gone.
static void leave(struct loop *l)
{
    struct member *m = shard_member(l->shard);
    uint64_t until = van_now(l->van) + leave_ns;
    member_leave(m, &l->end);
    while (!member_left(m) && van_now(l->van) < until)
        if (van_poll(l->van, until, NULL) != 0)
            return;
}

static void *run_loop(void *arg)
{
    server_serve(arg);
    leave(arg);
    return NULL;
}

static int run_loops(struct loop *loops, uint32_t n, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 1; i < n && rc == 0; i++) {
        if (pthread_create(&loops[i].thread, NULL, run_loop, &loops[i]) == 0)
            loops[i].started = true;
        else
            rc = err_set(e, TUG_EIO, "cannot start the thread of loop %u", i);
    }
    if (rc == 0)
        run_loop(&loops[0]);
    for (uint32_t i = 1; i < n; i++)
        if (loops[i].started)
            pthread_join(loops[i].thread, NULL);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = loops[i].end.code;
        if (rc != 0 && e != NULL)
            *e = loops[i].end;
    }
    return rc;
}

int server_run(const struct server_options *o, struct err *e)
{
    atomic_bool leave = false;
    if (o->loops == 0 || o->loops > SERVER_MAX_LOOPS ||
        (o->sparse_loops > 0 && o->sparse_loops >= o->loops))
        return err_set(e, TUG_EUSAGE,
                       "--loops %u --sparse-loops %u: there must be 1 to %d loops, and "
                       "one left for dense tables",
                       o->loops, o->sparse_loops, SERVER_MAX_LOOPS);
    struct loop *loops = mem_zalloc(o->loops * sizeof(*loops));
    if (loops == NULL)
        return err_nomem(e, "the server's loops");
    int rc = 0;
    for (uint32_t i = 0; i < o->loops && rc == 0; i++) {
        loops[i].options = o;
        loops[i].leave = &leave;
        loops[i].number = (uint16_t)i;
        rc = open_loop(&loops[i], e);
    }
    o->node->asked = o->asked;
    o->node->leave = &leave;
    if (rc == 0)
        rc = node_heartbeat(o->node, NULL, e);
    if (rc == 0)
        rc = run_loops(loops, o->loops, e);
    node_heartbeat_end(o->node); // heartbeats set `leave`, a variable of this function
    for (uint32_t i = 0; i < o->loops; i++)
        close_loop(&loops[i]);
    mem_free(loops);
    return rc;
}
