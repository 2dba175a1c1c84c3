// A cluster inside one process; see embedded.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/embedded.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "cluster/node.h"
#include "cluster/scheduler/scheduler.h"
#include "os/clock.h"
#include "server/server.h"

#define PATIENCE_NS (10 * SECOND_NS) // time limit for the other threads of this process
#define POLL_NS (SECOND_NS / 5)

struct embedded {
    char cluster[32], address[VAN_ADDRESS_MAX], token[TOKEN_TEXT_MAX];
    uint32_t loops;
    atomic_bool stop;

    struct node host, server; // nodes of the scheduler and of the server, as if each were
                              // a process of its own
    struct scheduler *scheduler;
    struct van *van; // the van of the scheduler
    pthread_t host_thread, server_thread;
    bool host_runs, server_runs;
    struct roots *roots;
};

static void *run_host(void *arg)
{
    struct embedded *l = arg;
    while (!scheduler_finished(l->scheduler, NULL) && !atomic_load(&l->stop))
        if (van_poll(l->van, van_now(l->van) + POLL_NS, NULL) != 0)
            break;
    return NULL;
}

static void *run_server(void *arg)
{
    struct embedded *l = arg;
    struct server_options o = {.node = &l->server,
                               .loops = l->loops,
                               .roots = l->roots,
                               .interrupted = &l->stop};
    // Errors are ignored here: clients get them from the scheduler.
    (void)server_run(&o, NULL);
    return NULL;
}

static int embedded_start(pthread_t *thread, bool *runs, void *(*run)(void *),
                          struct embedded *l, struct err *e)
{
    if (pthread_create(thread, NULL, run, l) != 0)
        return err_set(e, TUG_EIO, "cannot start a thread of the local cluster");
    *runs = true;
    return 0;
}

static int open_host(struct embedded *l, struct err *e)
{
    struct node_options no = {.cluster = l->cluster, .token = l->token};
    struct token token;
    TRY(token_make(&token, e));
    token_write(l->token, &token);
    TRY(node_open(&l->host, &no, e));
    struct scheduler_options o = {
        .cluster = l->host.cluster,
        .servers = 1,
        .workers = 1,
        .partition_bits = ROSTER_PARTITION_BITS,
        .gather_timeout_ns = PATIENCE_NS,
        .dead_timeout_ns = PATIENCE_NS,
        .leave_timeout_ns = PATIENCE_NS,
        .session_base = clock_unix_ns(),
        .pid = (uint32_t)getpid(),
        .host = l->host.host,
    };
    TRY(node_random(o.session_key, e));
    TRY(scheduler_open(&l->scheduler, &o, e));
    struct van_handler h = scheduler_handler(l->scheduler);
    TRY(node_van(&l->host, &l->van, &h, false, e));
    TRY(node_listen(&l->host, l->van, 0, l->address, e));
    scheduler_serve(l->scheduler, l->van, l->address);
    return embedded_start(&l->host_thread, &l->host_runs, run_host, l, e);
}

static int open_server(struct embedded *l, struct err *e)
{
    struct node_options no = {
        .cluster = l->cluster, .scheduler = l->address, .token = l->token};
    // The server may use all paths, because only this process knows the cluster's
    // secrets.
    static const char *const top = "/";
    struct roots_options ro = {.save = top, .cold = top, .load = &top, .n_load = 1};
    TRY(roots_open(&l->roots, &ro, e));
    TRY(node_open(&l->server, &no, e));
    return embedded_start(&l->server_thread, &l->server_runs, run_server, l, e);
}

int embedded_open(struct embedded **ret, uint32_t loops, struct err *e)
{
    struct embedded *l = mem_zalloc(sizeof(*l));
    if (l == NULL)
        return err_nomem(e, "a local cluster");
    uint64_t name = mix64(clock_unix_ns() ^ (uint64_t)getpid() << 48);
    snprintf(l->cluster, sizeof(l->cluster), "local-%016llx", (unsigned long long)name);
    l->loops = loops;
    int rc = open_host(l, e);
    if (rc == 0)
        rc = open_server(l, e);
    if (rc != 0)
        embedded_close(l);
    else
        *ret = l;
    return rc;
}

const char *embedded_scheduler(const struct embedded *l)
{
    return l->address;
}

const char *embedded_token(const struct embedded *l)
{
    return l->token;
}

const char *embedded_cluster(const struct embedded *l)
{
    return l->cluster;
}

void embedded_close(struct embedded *l)
{
    if (l == NULL)
        return;
    atomic_store(&l->stop, true);
    if (l->server_runs)
        pthread_join(l->server_thread, NULL);
    if (l->host_runs)
        pthread_join(l->host_thread, NULL);
    node_close(&l->server);
    van_free(l->van);
    scheduler_close(l->scheduler);
    node_close(&l->host);
    roots_close(l->roots);
    explicit_bzero(l->token, sizeof(l->token));
    mem_free(l);
}
