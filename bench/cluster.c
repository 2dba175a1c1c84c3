// tug bench cluster: a scheduler, servers and workers as processes of this machine, one
// command. The workers measure; their records come through a pipe.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "bench/cluster.h"
#include "cluster/scheduler.h"
#include "server/server.h"

enum { MAX_PROCESSES = 128, MAX_FIGURES = 64, MAX_TURNS = 256, END_SECONDS = 10 };

// A measurement: over several turns the median, each added over all workers.
struct figure {
    char name[40];
    uint32_t n; // records
    double rates[MAX_TURNS], p50[MAX_TURNS], p99[MAX_TURNS];
    double bytes; // sent and received for a key; 0: not counted
};

struct net_bench {
    const struct bench_options *o;
    double began;
    int addresses[2]; // a pipe: one record of VAN_ADDRESS_MAX for each process
    int results[2];
    pid_t pids[MAX_PROCESSES];
    uint32_t n_pids;
    struct node node; // the scheduler's
    char token[TOKEN_TEXT_MAX];
    struct van *van;
    struct scheduler *scheduler;
    struct figure *figures;
    size_t n_figures;
    struct err error; // the first that a process reported
};

// A server or worker.

static int be(struct net_bench *b, enum wire_role role, struct err *e)
{
    char address[VAN_ADDRESS_MAX];
    if (read(b->addresses[0], address, sizeof(address)) != sizeof(address))
        return err_set(e, TUG_EIO, "the scheduler did not start");
    struct node n;
    struct node_options o = {
        .scheduler = address, .spin_us = b->o->spin_us, .token = b->token};
    TRY(node_open(&n, &o, e));
    // server_run has its own.
    int rc = role == WIRE_SERVER ? 0 : node_heartbeat(&n, NULL, e);
    struct server_options so = {.node = &n, .loops = 1};
    struct bench_worker w = {b->o, &n, b->began, b->results[1]};
    if (rc == 0)
        rc = role == WIRE_SERVER ? server_run(&so, e) : bench_cluster_worker(&w, e);
    node_close(&n);
    return rc;
}

static _Noreturn void be_process(struct net_bench *b, enum wire_role role)
{
    struct bench_record failure = {.name = "error"};
    struct err e = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(b->addresses[1]);
    close(b->results[0]);
    int rc = be(b, role, &e);
    if (rc != 0) {
        err_wrap(&e, "%s", role == WIRE_SERVER ? "a server" : "a worker");
        memcpy(failure.error, e.text, sizeof(e.text));
        if (write(b->results[1], &failure, sizeof(failure)) != sizeof(failure))
            rc = TUG_EIO;
    }
    _exit(err_exit_code(rc));
}

static int start(struct net_bench *b, enum wire_role role, uint32_t n, struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        pid_t pid = fork();
        if (pid == 0)
            be_process(b, role);
        if (pid < 0)
            return err_sys(e, TUG_EIO, "cannot start a process");
        b->pids[b->n_pids++] = pid;
    }
    return 0;
}

// The parent: the scheduler.

static int open_scheduler(struct net_bench *b, char address[VAN_ADDRESS_MAX],
                          struct err *e)
{
    struct node_options no = {
        .spin_us = b->o->spin_us, .token = b->token, .sockets = b->o->sockets};
    struct scheduler_options so = {
        .servers = (uint32_t)b->o->servers,
        .workers = (uint32_t)b->o->workers,
        .partition_bits = ROSTER_PARTITION_BITS,
        .gather_timeout_ns = 60 * SECOND_NS,
        .dead_timeout_ns = 30 * SECOND_NS,
        .leave_timeout_ns = END_SECONDS * SECOND_NS,
        .session_base = clock_unix_ns(),
        .pid = (uint32_t)getpid(),
        .host = "here",
    };
    TRY(node_open(&b->node, &no, e));
    so.cluster = b->node.cluster;
    TRY(node_random(so.session_key, e));
    TRY(scheduler_open(&b->scheduler, &so, e));
    struct van_handler h = scheduler_handler(b->scheduler);
    TRY(node_van(&b->node, &b->van, &h, true, e));
    TRY(node_listen(&b->node, b->van, 0, address, e));
    scheduler_serve(b->scheduler, b->van, address);
    return 0;
}

static struct figure *figure_of(struct net_bench *b, const char *name)
{
    size_t i = 0;
    while (i < b->n_figures && strcmp(b->figures[i].name, name) != 0)
        i++;
    if (i == MAX_FIGURES)
        return NULL;
    if (i == b->n_figures)
        snprintf(b->figures[b->n_figures++].name, sizeof(b->figures->name), "%s", name);
    return &b->figures[i];
}

static void take_record(struct net_bench *b, const struct bench_record *r)
{
    if (strcmp(r->name, "error") == 0) {
        if (b->error.code == 0)
            err_set(&b->error, TUG_EIO, "%s", r->error);
        return;
    }
    struct figure *f = figure_of(b, r->name);
    if (f == NULL || f->n == MAX_TURNS)
        return;
    f->rates[f->n] = r->rate;
    f->bytes = r->bytes;
    f->p50[f->n] = r->p50;
    f->p99[f->n++] = r->p99;
}

static void take_records(struct net_bench *b)
{
    struct bench_record r;
    while (read(b->results[0], &r, sizeof(r)) == sizeof(r))
        take_record(b, &r);
}

static void schedule(struct net_bench *b, struct err *ret_why)
{
    while (!scheduler_finished(b->scheduler, ret_why)) {
        if (van_poll(b->van, van_now(b->van) + SECOND_NS / 20, ret_why) != 0)
            return;
        take_records(b);
        if (b->error.code != 0)
            scheduler_stop(b->scheduler, b->error.code, b->error.text);
    }
}

static int run_all(struct net_bench *b, struct err *e)
{
    char address[VAN_ADDRESS_MAX] = "";
    b->began = clock_seconds();
    struct token token;
    TRY(token_make(&token, e));
    token_write(b->token, &token);
    TRY(start(b, WIRE_SERVER, (uint32_t)b->o->servers, e));
    TRY(start(b, WIRE_WORKER, (uint32_t)b->o->workers, e));
    TRY(open_scheduler(b, address, e));
    for (uint32_t i = 0; i < b->n_pids; i++)
        if (write(b->addresses[1], address, sizeof(address)) != sizeof(address))
            return err_sys(e, TUG_EIO, "cannot tell where the scheduler is");
    struct err why = {0};
    schedule(b, &why);
    if (why.code != 0)
        return err_set(e, why.code, "%s", why.text);
    return 0;
}

// Processes that have not ended by then are ended.
static void wait_for_processes(struct net_bench *b, bool kill_now)
{
    double until = clock_seconds() + (kill_now ? 0 : END_SECONDS);
    for (uint32_t i = 0; i < b->n_pids; i++) {
        while (waitpid(b->pids[i], NULL, WNOHANG) == 0) {
            if (clock_seconds() >= until)
                kill(b->pids[i], SIGKILL);
            struct timespec moment = {.tv_nsec = 1000000};
            nanosleep(&moment, NULL);
        }
    }
    take_records(b);
}

// Results.

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, uint32_t n)
{
    qsort(x, n, sizeof(*x), by_double);
    return x[n / 2];
}

// Workers measure at the same time: their median rate times their number.
static double rate_of(const struct net_bench *b, struct figure *f)
{
    return median(f->rates, f->n) * (double)b->o->workers;
}

static void print_text(struct net_bench *b)
{
    for (size_t i = 0; i < b->n_figures; i++) {
        struct figure *f = &b->figures[i];
        double rate = rate_of(b, f), p50 = median(f->p50, f->n);
        printf("%-28s", f->name);
        if (strstr(f->name, "start") != NULL)
            printf(" %.1f ms\n", p50 * 1e3);
        else if (strstr(f->name, "1 key,") == f->name || strstr(f->name, "barrier"))
            printf(" p50 %.1f us, p99 %.1f us\n", p50 * 1e6, median(f->p99, f->n) * 1e6);
        else
            printf(" %.2f M keys/s, p50 %.2f ms, %.1f bytes for a key\n", rate * 1e-6,
                   p50 * 1e3, f->bytes);
    }
}

static int print_json(struct net_bench *b, struct err *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < b->n_figures; i++) {
        struct figure *f = &b->figures[i];
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f}", "name", f->name,
                                              "per_second", rate_of(b, f), "p50_us",
                                              median(f->p50, f->n) * 1e6, "p99_us",
                                              median(f->p99, f->n) * 1e6));
    }
    json_t *j = json_pack("{s:s, s:i, s:i, s:I, s:o}", "bench", "cluster", "servers",
                          (int)b->o->servers, "workers", (int)b->o->workers, "keys",
                          (json_int_t)b->o->keys, "figures", list);
    char *text = j != NULL ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (text == NULL)
        return err_nomem(e, "the result");
    printf("%s\n", text);
    mem_free(text);
    return 0;
}

static int open_pipes(struct net_bench *b, struct err *e)
{
    if (pipe2(b->addresses, O_CLOEXEC) != 0 || pipe2(b->results, O_CLOEXEC) != 0 ||
        fcntl(b->results[0], F_SETFL, O_NONBLOCK) != 0)
        return err_sys(e, TUG_EIO, "cannot make a pipe");
    b->figures = mem_zalloc(MAX_FIGURES * sizeof(*b->figures));
    return b->figures != NULL ? 0 : err_nomem(e, "the result");
}

static void close_all(struct net_bench *b)
{
    int fds[] = {b->addresses[0], b->addresses[1], b->results[0], b->results[1]};
    for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    van_free(b->van);
    scheduler_close(b->scheduler);
    node_close(&b->node);
    mem_free(b->figures);
}

int bench_cluster(struct bench *bench, struct err *e)
{
    const struct bench_options *o = &bench->o;
    struct net_bench b = {.o = o, .addresses = {-1, -1}, .results = {-1, -1}};
    json_set_alloc_funcs(mem_alloc, mem_free);
    log_set_level(LOG_WARN);
    int rc = open_pipes(&b, e);
    if (rc == 0)
        rc = run_all(&b, e);
    wait_for_processes(&b, rc != 0);
    if (b.error.code != 0 && e != NULL)
        *e = b.error; // it knows more than the scheduler
    if (b.error.code != 0)
        rc = b.error.code;
    if (rc == 0 && o->json)
        rc = print_json(&b, e);
    else if (rc == 0)
        print_text(&b);
    close_all(&b);
    return rc;
}
