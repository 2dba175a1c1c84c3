// tug bench cluster: runs a scheduler, servers and workers as processes of this machine.
// The workers measure, and write their figures into memory that all processes share.
//
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/cluster.h"
#include "cluster/scheduler/scheduler.h"
#include "server/server.h"

enum { MAX_PROCESSES = 128, END_SECONDS = 10 };

struct net_bench {
    const struct bench *bench;
    const struct bench_options *o;
    double began;
    struct bench_shared *shared;
    pid_t pids[MAX_PROCESSES];
    uint32_t n_pids;
    struct node node; // the scheduler's node
    char token[TOKEN_TEXT_MAX];
    struct van *van;
    struct scheduler *scheduler;
};

// ---------------------------------------------------------------- A server or worker

static int be(struct net_bench *b, enum wire_role role, struct err *e)
{
    while (sem_wait(&b->shared->listening) != 0)
        ; // interrupted by a signal
    struct node n;
    struct node_options o = {
        .scheduler = b->shared->address, .spin_us = b->o->spin_us, .token = b->token};
    TRY(node_open(&n, &o, e));
    // A server's heartbeat is started by server_run.
    int rc = role == WIRE_SERVER ? 0 : node_heartbeat(&n, NULL, e);
    struct server_options so = {.node = &n, .loops = 1};
    struct bench_worker w = {b->o, &n, b->began, b->shared};
    if (rc == 0)
        rc = role == WIRE_SERVER ? server_run(&so, e) : bench_cluster_worker(&w, e);
    node_close(&n);
    return rc;
}

static _Noreturn void be_process(struct net_bench *b, enum wire_role role)
{
    struct err e = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int rc = be(b, role, &e);
    if (rc != 0 && !atomic_flag_test_and_set(&b->shared->failing)) {
        err_wrap(&e, "%s", role == WIRE_SERVER ? "a server" : "a worker");
        memcpy(b->shared->error, e.text, sizeof(e.text));
        atomic_store(&b->shared->failed, true);
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

// ------------------------------------------------------------- the parent: the scheduler

static int open_scheduler(struct net_bench *b, struct err *e)
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
    TRY(node_listen(&b->node, b->van, 0, b->shared->address, e));
    scheduler_serve(b->scheduler, b->van, b->shared->address);
    for (uint32_t i = 0; i < b->n_pids; i++)
        (void)sem_post(&b->shared->listening);
    return 0;
}

static int schedule(struct net_bench *b, struct err *e)
{
    struct err why = {0}, failed;
    while (!scheduler_finished(b->scheduler, &why)) {
        TRY(van_poll(b->van, van_now(b->van) + SECOND_NS / 20, e));
        if (atomic_load(&b->shared->failed)) {
            err_set(&failed, TUG_EIO, "%s", b->shared->error);
            scheduler_stop(b->scheduler, &failed);
        }
    }
    return why.code == 0 ? 0 : err_set(e, why.code, "%s", why.text);
}

static int run_all(struct net_bench *b, struct err *e)
{
    struct token token;
    b->began = clock_seconds();
    TRY(token_make(&token, e));
    token_write(b->token, &token);
    TRY(start(b, WIRE_SERVER, (uint32_t)b->o->servers, e));
    TRY(start(b, WIRE_WORKER, (uint32_t)b->o->workers, e));
    TRY(open_scheduler(b, e));
    return schedule(b, e);
}

// Waits for all processes, and kills those that have not ended after END_SECONDS, or at
// once with kill_now.
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
}

// ---------------------------------------------------------------- results

static const char *text_of(const char *name)
{
    if (strstr(name, "start") != NULL)
        return "{name:-28} {p50_us:.1k} ms\n";
    if (strstr(name, "1 key,") == name || strstr(name, "barrier") != NULL)
        return "{name:-28} p50 {p50_us:.1} us, p99 {p99_us:.1} us\n";
    return "{name:-28} {per_second:.2M} M keys/s, p50 {p50_us:.2k} ms, "
           "{bytes_per_key:.1} bytes for a key\n";
}

// Prints the medians of all figures from `first` to `end` that have the first one's name.
// All workers measure at the same time, so the sum of their rates is the median rate
// times the number of workers.
static void print_figure(const struct net_bench *b, const struct bench_figure *first,
                         const struct bench_figure *end)
{
    static double rates[BENCH_FIGURES], p50[BENCH_FIGURES], p99[BENCH_FIGURES];
    size_t n = 0;
    for (const struct bench_figure *f = first; f < end; f++)
        if (strcmp(f->name, first->name) == 0) {
            rates[n] = f->rate;
            p50[n] = f->p50;
            p99[n++] = f->p99;
        }
    json_t *row = bench_row(b->bench->figures, "figures");
    (void)json_object_set_new(row, "name", json_string(first->name));
    bench_set(row, "per_second", bench_median(rates, n) * (double)b->o->workers);
    bench_set(row, "p50_us", bench_median(p50, n) * 1e6);
    bench_set(row, "p99_us", bench_median(p99, n) * 1e6);
    bench_set(row, "bytes_per_key", first->bytes);
    bench_print(b->bench, row, text_of(first->name));
}

static void print_figures(const struct net_bench *b)
{
    json_t *all = b->bench->figures;
    bench_count(all, "servers", b->o->servers);
    bench_count(all, "workers", b->o->workers);
    bench_count(all, "keys", b->o->keys);
    const struct bench_figure *list = b->shared->figures;
    unsigned n = atomic_load(&b->shared->n);
    n = n < BENCH_FIGURES ? n : BENCH_FIGURES;
    for (size_t i = 0; i < n; i++) {
        size_t first = 0;
        while (strcmp(list[first].name, list[i].name) != 0)
            first++;
        if (first == i)
            print_figure(b, &list[i], list + n);
    }
}

static int share_memory(struct net_bench *b, struct err *e)
{
    void *p = mmap(NULL, sizeof(*b->shared), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return err_nomem(e, "memory that processes share");
    b->shared = p;
    return sem_init(&b->shared->listening, 1, 0) == 0
               ? 0
               : err_sys(e, TUG_EIO, "cannot make a semaphore");
}

int bench_cluster(struct bench *bench, struct err *e)
{
    struct net_bench b = {.bench = bench, .o = &bench->o};
    TRY(share_memory(&b, e));
    int rc = run_all(&b, e);
    wait_for_processes(&b, rc != 0);
    // The worker's error is more precise than the scheduler's.
    if (atomic_load(&b.shared->failed))
        rc = err_set(e, TUG_EIO, "%s", b.shared->error);
    if (rc == 0)
        print_figures(&b);
    van_free(b.van);
    scheduler_close(b.scheduler);
    node_close(&b.node);
    munmap(b.shared, sizeof(*b.shared));
    return rc;
}
