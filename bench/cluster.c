// tug bench cluster: a scheduler, servers and workers as processes of this machine, one
// command. The workers measure; their records come through a pipe.
//
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/cluster.h"
#include "cluster/scheduler.h"
#include "server/server.h"

enum { MAX_PROCESSES = 128, MAX_FIGURES = 8192, END_SECONDS = 10 };

struct net_bench {
    const struct bench *bench;
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
    struct bench_figure figures[MAX_FIGURES]; // of all workers
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
    struct bench_record failure = {.error = ""};
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

static void take_records(struct net_bench *b)
{
    struct bench_record r;
    while (read(b->results[0], &r, sizeof(r)) == sizeof(r)) {
        if (r.error[0] != '\0' && b->error.code == 0)
            err_set(&b->error, TUG_EIO, "%s", r.error);
        if (r.error[0] == '\0' && b->n_figures < MAX_FIGURES)
            b->figures[b->n_figures++] = r.figure;
    }
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

static const char *text_of(const char *name)
{
    if (strstr(name, "start") != NULL)
        return "{name:-28} {p50_us:.1k} ms\n";
    if (strstr(name, "1 key,") == name || strstr(name, "barrier") != NULL)
        return "{name:-28} p50 {p50_us:.1} us, p99 {p99_us:.1} us\n";
    return "{name:-28} {per_second:.2M} M keys/s, p50 {p50_us:.2k} ms, "
           "{bytes_per_key:.1} bytes for a key\n";
}

// A measurement, which is the i-th and some later ones: the median of its turns. Workers
// measure at the same time: their median rate counts for each of them.
static void print_figure(const struct net_bench *b, size_t i)
{
    static double rates[MAX_FIGURES], p50[MAX_FIGURES], p99[MAX_FIGURES];
    const struct bench_figure *first = &b->figures[i];
    size_t n = 0;
    for (; i < b->n_figures; i++)
        if (strcmp(b->figures[i].name, first->name) == 0) {
            rates[n] = b->figures[i].rate;
            p50[n] = b->figures[i].p50;
            p99[n++] = b->figures[i].p99;
        }
    json_t *f = bench_row(b->bench->figures, "figures");
    (void)json_object_set_new(f, "name", json_string(first->name));
    bench_set(f, "per_second", bench_median(rates, n) * (double)b->o->workers);
    bench_set(f, "p50_us", bench_median(p50, n) * 1e6);
    bench_set(f, "p99_us", bench_median(p99, n) * 1e6);
    bench_set(f, "bytes_per_key", first->bytes);
    bench_print(b->bench, f, text_of(first->name));
}

static void print_figures(const struct net_bench *b)
{
    json_t *all = b->bench->figures;
    bench_count(all, "servers", b->o->servers);
    bench_count(all, "workers", b->o->workers);
    bench_count(all, "keys", b->o->keys);
    for (size_t i = 0; i < b->n_figures; i++) {
        size_t first = 0;
        while (strcmp(b->figures[first].name, b->figures[i].name) != 0)
            first++;
        if (first == i)
            print_figure(b, i);
    }
}

static int open_pipes(struct net_bench *b, struct err *e)
{
    if (pipe2(b->addresses, O_CLOEXEC) != 0 || pipe2(b->results, O_CLOEXEC) != 0 ||
        fcntl(b->results[0], F_SETFL, O_NONBLOCK) != 0)
        return err_sys(e, TUG_EIO, "cannot make a pipe");
    return 0;
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
}

int bench_cluster(struct bench *bench, struct err *e)
{
    static struct net_bench b = {.addresses = {-1, -1}, .results = {-1, -1}};
    b.bench = bench;
    b.o = &bench->o;
    int rc = open_pipes(&b, e);
    if (rc == 0)
        rc = run_all(&b, e);
    wait_for_processes(&b, rc != 0);
    if (b.error.code != 0) { // it knows more than the scheduler
        rc = b.error.code;
        if (e != NULL)
            *e = b.error;
    }
    if (rc == 0)
        print_figures(&b);
    close_all(&b);
    return rc;
}
