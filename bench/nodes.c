// See nodes.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "bench/nodes.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/saves/roots.h"
#include "server/server.h"

enum { END_SECONDS = 10 };
// As in tug scheduler with --replicas 2: the time of silence after which a server is dead.
#define REPLICAS_DEAD_NS (SECOND_NS * 3 / 4)

// ---------------------------------------------------------------- A server or worker

static void wait_for(sem_t *posted)
{
    while (sem_wait(posted) != 0)
        ; // a signal has interrupted the wait
}

static int serve(struct bench_nodes *b, struct node *n, struct err *e)
{
    struct server_options o = {.node = n, .loops = 1};
    struct roots *roots = NULL;
    struct roots_options ro = {.save = b->save_root};
    if (b->save_root != NULL)
        TRY(roots_open(&roots, &ro, e));
    o.roots = roots;
    int rc = server_run(&o, e);
    roots_close(roots);
    return rc;
}

static int be(struct bench_nodes *b, enum wire_role role, bool late, struct err *e)
{
    wait_for(late ? &b->shared->late : &b->shared->listening);
    struct node n;
    struct node_options o = {.scheduler = b->shared->address,
                             .spin_us = b->o->spin_us,
                             .token = b->token,
                             .late = late};
    TRY(node_open(&n, &o, e));
    // A server's heartbeat is started by server_run.
    int rc = role == WIRE_SERVER ? 0 : node_heartbeat(&n, NULL, e);
    if (rc == 0)
        rc = role == WIRE_SERVER ? serve(b, &n, e) : b->work(b, &n, e);
    node_close(&n);
    return rc;
}

static _Noreturn void be_process(struct bench_nodes *b, enum wire_role role, bool late)
{
    struct err e = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int rc = be(b, role, late, &e);
    if (rc != 0 && !atomic_flag_test_and_set(&b->shared->failing)) {
        err_wrap(&e, "%s", role == WIRE_SERVER ? "a server" : "a worker");
        memcpy(b->shared->error, e.text, sizeof(e.text));
        atomic_store(&b->shared->failed, true);
    }
    _exit(err_exit_code(rc));
}

static int start(struct bench_nodes *b, enum wire_role role, uint32_t n, bool late,
                 struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        pid_t pid = b->n_pids < BENCH_NODES_MAX ? fork() : -1;
        if (pid == 0)
            be_process(b, role, late);
        if (pid < 0)
            return err_sys(e, TUG_EIO, "cannot start a process");
        b->pids[b->n_pids++] = pid;
    }
    return 0;
}

// ------------------------------------------------------------- the parent: the scheduler

static int open_scheduler(struct bench_nodes *b, struct err *e)
{
    struct node_options no = {
        .spin_us = b->o->spin_us, .token = b->token, .sockets = b->o->sockets};
    struct scheduler_options so = {
        .servers = b->servers,
        .workers = b->workers,
        .partition_bits = b->partition_bits,
        .replicas = b->replicas,
        .server_timeout_ns = b->replicas > 1 ? REPLICAS_DEAD_NS : 0,
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

int bench_nodes_open(struct bench_nodes *b, struct err *e)
{
    struct token token;
    b->began = clock_seconds();
    TRY(token_make(&token, e));
    token_write(b->token, &token);
    TRY(start(b, WIRE_SERVER, b->servers, false, e));
    TRY(start(b, WIRE_WORKER, b->workers, false, e));
    TRY(start(b, WIRE_SERVER, b->late_servers, true, e));
    return open_scheduler(b, e);
}

int bench_nodes_serve(struct bench_nodes *b, uint64_t ns, bool *ret_over, struct err *e)
{
    struct err why = {0}, failed;
    uint64_t until = van_now(b->van) + ns;
    while (!scheduler_finished(b->scheduler, &why) && van_now(b->van) < until) {
        TRY(van_poll(b->van, until, e));
        if (atomic_load(&b->shared->failed)) {
            err_set(&failed, TUG_EIO, "%s", b->shared->error);
            scheduler_stop(b->scheduler, &failed);
        }
    }
    *ret_over = scheduler_finished(b->scheduler, &why);
    return why.code == 0 ? 0 : err_set(e, why.code, "%s", why.text);
}

int bench_nodes_run(struct bench_nodes *b, double seconds, struct err *e)
{
    bool over = false;
    double until = clock_seconds() + seconds;
    while (clock_seconds() < until) {
        TRY(bench_nodes_serve(b, SECOND_NS / 1000, &over, e));
        if (over)
            return err_set(e, TUG_EIO, "the cluster has ended too early");
    }
    return 0;
}

double bench_nodes_cpu(const struct bench_nodes *b, uint32_t first, uint32_t n)
{
    double all = 0;
    for (uint32_t i = first; i < first + n && i < b->n_pids; i++) {
        clockid_t clock;
        struct timespec t;
        if (clock_getcpuclockid(b->pids[i], &clock) == 0 && clock_gettime(clock, &t) == 0)
            all += (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    }
    return all;
}

uint32_t bench_nodes_id(const struct bench_nodes *b, uint32_t i)
{
    const struct roster *r = scheduler_roster(b->scheduler);
    for (uint32_t k = 0; k < r->n_nodes; k++)
        if (r->nodes[k].pid == (uint32_t)b->pids[i])
            return r->nodes[k].id;
    return 0;
}

void bench_nodes_kill(const struct bench_nodes *b, uint32_t i)
{
    kill(b->pids[i], SIGKILL);
}

// Waits for all processes, and kills those that have not ended after END_SECONDS, or at
// once with kill_now.
static void wait_for_processes(struct bench_nodes *b, bool kill_now)
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

int bench_nodes_close(struct bench_nodes *b, int rc, struct err *e)
{
    wait_for_processes(b, rc != 0);
    // The error of a server or worker is more precise than the scheduler's.
    if (atomic_load(&b->shared->failed))
        rc = err_set(e, TUG_EIO, "%s", b->shared->error);
    van_free(b->van);
    scheduler_close(b->scheduler);
    node_close(&b->node);
    return rc;
}

int bench_share(struct bench_shared **ret, size_t bytes, struct err *e)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    if (p == MAP_FAILED)
        return err_nomem(e, "memory that processes share");
    *ret = p;
    return sem_init(&(*ret)->listening, 1, 0) == 0 && sem_init(&(*ret)->late, 1, 0) == 0
               ? 0
               : err_sys(e, TUG_EIO, "cannot make a semaphore");
}
