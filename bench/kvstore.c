// tug bench kvstore: measures which part of the vans' rate a kvstore (tug/kvstore.h,
// dist_sync) reaches. All workers repeatedly push a large array and pull the sum.
// Processes with vans alone and processes with the store take turns.
//
// SPDX-License-Identifier: Apache-2.0
#include "bench/kvstore.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tug/kvapp.h"
#include "tug/kvstore.h"

enum { VANS, STORE, KINDS, TURNS = 3, MAX_PROCESSES = 2 * BENCH_KV_NODES + 1 };

typedef int (*life_fn)(const struct bench_kv *b, struct err *e);

// ---------------------------------------------------------------- the store's processes

static struct tug_node_options node_of(const struct bench_kv *b, int role)
{
    return (struct tug_node_options){
        .role = role,
        .servers = (uint32_t)b->o->servers,
        .workers = (uint32_t)b->o->workers,
        .scheduler = b->shared->scheduler,
        .wait_seconds = 120,
        .spin_us = b->o->spin_us > 0 ? b->o->spin_us : 1e-3,
    };
}

static int said(int rc, struct err *e)
{
    return rc == 0 ? 0 : err_set(e, rc, "%s", tug_last_error());
}

static int serve(const struct bench_kv *b, int role, struct err *e)
{
    struct tug_node_options n = node_of(b, role);
    return said(tug_kvstore_serve(&(struct tug_kvstore_server_options){.node = &n}), e);
}

static int store_scheduler(const struct bench_kv *b, struct err *e)
{
    return serve(b, TUG_GROUP_SCHEDULER, e);
}

static int store_server(const struct bench_kv *b, struct err *e)
{
    return serve(b, TUG_GROUP_SERVERS, e);
}

// Checks, for some elements, that the pulled array is the sum of the workers' arrays.
static int check_sum(const float *got, size_t n, uint64_t workers, struct err *e)
{
    for (size_t i = 0; i < n; i += 4099)
        if (got[i] != (float)((i % 13 + 1) * workers))
            return err_set(e, TUG_EINTERNAL, "element %zu of the sum is %g", i,
                           (double)got[i]);
    return 0;
}

static int rounds(const struct bench_kv *b, struct tug_kvstore *s, float *array,
                  float *got, struct err *e)
{
    size_t n = b->o->max_bytes / sizeof(*array);
    struct tug_array a = {TUG_FLOAT32, false, n, 1, array, NULL, 0}, to = a;
    struct tug_kvstore_item push = {{.name = "w"}, &a}, pull = {{.name = "w"}, &to};
    double begin = 0;
    to.data = got;
    TRY(said(tug_kvstore_init(s, &push, 1), e));
    for (int i = -1; i < BENCH_KV_ROUNDS; i++) {
        if (i == 0)
            begin = clock_seconds();
        TRY(said(tug_kvstore_push(s, &push, 1, 0), e));
        TRY(said(tug_kvstore_pull(s, &pull, 1, 0), e));
    }
    b->shared->seconds[tug_kvstore_rank(s)] = clock_seconds() - begin;
    return check_sum(got, n, b->o->workers, e);
}

static int store_worker(const struct bench_kv *b, struct err *e)
{
    struct tug_node_options n = node_of(b, TUG_GROUP_WORKERS);
    struct tug_kvstore_options o = {.type = "dist_sync", .node = &n};
    struct tug_kvstore *s;
    size_t elements = b->o->max_bytes / sizeof(float);
    float *array = mem_map(b->o->max_bytes), *got = mem_map(b->o->max_bytes);
    if (array == NULL || got == NULL)
        return err_nomem(e, "an array");
    for (size_t i = 0; i < elements; i++) {
        array[i] = (float)(i % 13 + 1);
        got[i] = 0;
    }
    TRY(said(tug_kvstore_open(&s, &o), e));
    TRY(rounds(b, s, array, got, e));
    return said(tug_kvstore_close(s), e);
}

// These functions make one run: they start the processes together, and wait until all
// have ended.

static pid_t start(const struct bench_kv *of, uint32_t rank, life_fn life)
{
    struct bench_kv b = *of;
    struct err e = {0};
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    b.rank = rank;
    if (life(&b, &e) != 0 && !atomic_flag_test_and_set(&b.shared->failing)) {
        memcpy(b.shared->error, e.text, sizeof(e.text));
        atomic_store(&b.shared->failed, true);
    }
    _exit(e.code != 0);
}

static void all_end(pid_t *pids, uint32_t n)
{
    int status;
    for (uint32_t left = n; left > 0; left--) {
        pid_t pid = wait(&status);
        for (uint32_t i = 0; i < n; i++) {
            if (pids[i] == pid)
                pids[i] = 0;
            // The other processes would wait for the failed one, so they are killed.
            else if (status != 0 && pids[i] > 0)
                (void)kill(pids[i], SIGKILL);
        }
    }
}

// Chooses a free port of this machine for the scheduler.
static int find_port(struct bench_kv_shared *s, struct err *e)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 &&
              getsockname(fd, (struct sockaddr *)&a, &len) == 0;
    if (fd >= 0)
        close(fd);
    if (!ok)
        return err_sys(e, TUG_EIO, "cannot find a port");
    snprintf(s->scheduler, sizeof(s->scheduler), "127.0.0.1:%u", ntohs(a.sin_port));
    return 0;
}

static int turn(const struct bench_kv *b, const life_fn *lives, double *ret,
                struct err *e)
{
    pid_t pids[MAX_PROCESSES];
    uint32_t n = 0;
    double slowest = 0;
    if (lives[0] != NULL)
        pids[n++] = start(b, 0, lives[0]);
    for (uint32_t i = 0; i < b->o->servers; i++)
        pids[n++] = start(b, i, lives[1]);
    for (uint32_t i = 0; i < b->o->workers; i++)
        pids[n++] = start(b, i, lives[2]);
    all_end(pids, n);
    if (atomic_load(&b->shared->failed))
        return err_set(e, TUG_EIO, "%s", b->shared->error);
    for (uint32_t i = 0; i < b->o->workers; i++)
        slowest = slowest > b->shared->seconds[i] ? slowest : b->shared->seconds[i];
    double bytes = 2.0 * (double)b->o->max_bytes * (double)b->o->workers;
    *ret = bytes * BENCH_KV_ROUNDS / slowest;
    return 0;
}

static int measure(const struct bench *bench, struct bench_kv *b, struct err *e)
{
    static const life_fn lives[KINDS][3] = {
        [VANS] = {NULL, bench_kv_van_server, bench_kv_van_worker},
        [STORE] = {store_scheduler, store_server, store_worker},
    };
    double rates[KINDS][TURNS];
    for (int t = 0; t < TURNS; t++)
        for (int kind = 0; kind < KINDS; kind++) {
            for (uint64_t s = 0; s < b->o->servers; s++)
                if (sem_init(&b->shared->listening[s], 1, 0) != 0)
                    return err_sys(e, TUG_EIO, "cannot make a semaphore");
            TRY(find_port(b->shared, e));
            TRY(turn(b, lives[kind], &rates[kind][t], e));
        }
    bench_count(bench->figures, "servers", b->o->servers);
    bench_count(bench->figures, "workers", b->o->workers);
    bench_count(bench->figures, "bytes", b->o->max_bytes);
    bench_set(bench->figures, "vans", bench_median(rates[VANS], TURNS));
    bench_set(bench->figures, "kvstore", bench_median(rates[STORE], TURNS));
    bench_print(bench, bench->figures,
                "push and pull of {bytes:.0K} KB by {workers:.0} workers on {servers:.0} "
                "servers, all of them together: vans {vans:.2G} GB/s, kvstore "
                "{kvstore:.2G} ({kvstore/vans:.2} of it)\n");
    return 0;
}

int bench_kvstore(struct bench *bench, struct err *e)
{
    struct bench_kv b = {.o = &bench->o};
    if (bench->o.servers > BENCH_KV_NODES || bench->o.workers > BENCH_KV_NODES)
        return err_set(e, TUG_EUSAGE, "at most %d servers and workers", BENCH_KV_NODES);
    b.shared = mmap(NULL, sizeof(*b.shared), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b.shared == MAP_FAILED)
        return err_nomem(e, "memory that processes share");
    int rc = measure(bench, &b, e);
    munmap(b.shared, sizeof(*b.shared));
    return rc;
}
