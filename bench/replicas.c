// tug bench replicas: how long pushes wait after the death of a server, and how much CPU
// time servers need for a push and a pull with two replicas, compared with one.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "bench/moves.h"

enum { DEATHS = 20, PAIRS = 5, FLOATS = 16, KEYS = 200000, SERVERS = 3 };
#define PATIENCE 60.0
// The goals, which are printed beside the figures.
#define GOAL_P50 0.8
#define GOAL_P99 2.0
#define GOAL_PUSH 2.4
#define GOAL_PULL 1.0

struct replicas_bench {
    struct bench *bench;
    struct bench_nodes nodes;
    struct bench_moves *m;
    bool over;
    double waits[DEATHS * BENCH_MOVES_WORKERS];
    size_t n_waits;
    double cpu[2]; // CPU seconds of all servers for a push, and for a pull
};

// Runs `act` on a cluster whose table has been filled.
static int with_cluster(struct replicas_bench *x, uint32_t replicas,
                        int (*act)(struct replicas_bench *x, struct err *e),
                        struct err *e)
{
    const struct bench_options *o = &x->bench->o;
    x->over = false;
    x->nodes = (struct bench_nodes){.o = o,
                                    .servers = SERVERS,
                                    .workers = (uint32_t)o->workers,
                                    .replicas = replicas,
                                    .partition_bits = ROSTER_PARTITION_BITS,
                                    .work = bench_moves_worker};
    TRY(bench_share(&x->nodes.shared, sizeof(*x->m), e));
    x->m = (struct bench_moves *)x->nodes.shared;
    x->m->plan = (struct bench_moves_plan){.servers = SERVERS,
                                           .workers = x->nodes.workers,
                                           .bits = ROSTER_PARTITION_BITS,
                                           .keys = KEYS,
                                           .floats = FLOATS,
                                           .loaded = true};
    atomic_store(&x->m->load, BENCH_LOAD_PUSHES);
    int rc = bench_nodes_open(&x->nodes, e);
    if (rc == 0)
        rc = bench_moves_fill(&x->nodes, PATIENCE, e);
    if (rc == 0)
        rc = act(x, e);
    atomic_store(&x->m->stop, true);
    for (double until = clock_seconds() + PATIENCE;
         rc == 0 && !x->over && clock_seconds() < until;)
        rc = bench_nodes_serve(&x->nodes, SECOND_NS / 100, &x->over, e);
    rc = bench_nodes_close(&x->nodes, rc, e);
    munmap(x->m, sizeof(*x->m));
    return rc;
}

// ---------------------------------------------------------------- a death

// Returns when the first push of a worker that was sent after `since` had ended; 0: none
// has ended yet. A push has keys of nearly all partitions.
static double first_after(const struct replicas_bench *x, uint32_t worker, double since)
{
    unsigned n = atomic_load(&x->m->n[worker]);
    const struct bench_seen *all = x->m->seen[worker];
    for (unsigned i = 0; i < n; i++)
        if (all[i].ended - all[i].took > since)
            return all[i].ended;
    return 0;
}

static int kill_one(struct replicas_bench *x, struct err *e)
{
    TRY(bench_nodes_run(&x->nodes, x->bench->o.seconds, e));
    double killed = clock_seconds(), until = killed + PATIENCE;
    bench_nodes_kill(&x->nodes, 0);
    for (uint32_t i = 0; i < x->nodes.workers; i++) {
        double ended;
        while ((ended = first_after(x, i, killed)) == 0) {
            if (clock_seconds() > until)
                return err_set(e, TUG_EIO,
                               "no push was acknowledged within %.0f s after the death "
                               "of a server",
                               PATIENCE);
            TRY(bench_nodes_run(&x->nodes, 0.005, e));
        }
        x->waits[x->n_waits++] = ended - killed;
    }
    return 0;
}

static int measure_deaths(struct replicas_bench *x, struct err *e)
{
    json_t *f = bench_group(x->bench->figures, "death");
    for (int i = 0; i < DEATHS; i++)
        TRY(with_cluster(x, 2, kill_one, e));
    bench_count(f, "deaths", DEATHS);
    bench_set(f, "p50_s", bench_quantile(x->waits, x->n_waits, 0.5));
    bench_set(f, "p99_s", bench_quantile(x->waits, x->n_waits, 0.99));
    bench_set(f, "goal_p50_s", GOAL_P50);
    bench_set(f, "goal_p99_s", GOAL_P99);
    bench_print(x->bench, f,
                "{deaths:.0} times one of three servers is killed (kill -9), 2 replicas: "
                "the next push is acknowledged after p50 {p50_s:.2} s (goal "
                "{goal_p50_s:.1}), p99 {p99_s:.2} s (goal {goal_p99_s:.1})\n");
    return 0;
}

// ---------------------------------------------------------------- CPU time

static unsigned requests(const struct replicas_bench *x)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < x->nodes.workers; i++)
        n += atomic_load(&x->m->n[i]);
    return n;
}

static int measure_load(struct replicas_bench *x, enum bench_load load, double *ret,
                        struct err *e)
{
    atomic_store(&x->m->load, load);
    TRY(bench_nodes_run(&x->nodes, 0.1, e)); // requests of the last kind end
    double cpu = bench_nodes_cpu(&x->nodes, 0, SERVERS);
    unsigned n = requests(x);
    TRY(bench_nodes_run(&x->nodes, x->bench->o.seconds, e));
    cpu = bench_nodes_cpu(&x->nodes, 0, SERVERS) - cpu;
    n = requests(x) - n;
    *ret = n > 0 ? cpu / n : 0;
    return n > 0 ? 0 : err_set(e, TUG_EIO, "no request has ended");
}

static int load_both(struct replicas_bench *x, struct err *e)
{
    TRY(measure_load(x, BENCH_LOAD_PUSHES, &x->cpu[0], e));
    return measure_load(x, BENCH_LOAD_PULLS, &x->cpu[1], e);
}

static int measure_cpu(struct replicas_bench *x, struct err *e)
{
    double one[2][PAIRS], ratio[2][PAIRS];
    json_t *f = bench_group(x->bench->figures, "cpu");
    for (int i = 0; i < PAIRS; i++) {
        TRY(with_cluster(x, 1, load_both, e));
        one[0][i] = x->cpu[0];
        one[1][i] = x->cpu[1];
        TRY(with_cluster(x, 2, load_both, e));
        ratio[0][i] = x->cpu[0] / one[0][i];
        ratio[1][i] = x->cpu[1] / one[1][i];
    }
    bench_set(f, "push_us", bench_median(one[0], PAIRS) * 1e6);
    bench_set(f, "pull_us", bench_median(one[1], PAIRS) * 1e6);
    bench_set(f, "push_ratio", bench_median(ratio[0], PAIRS));
    bench_set(f, "pull_ratio", bench_median(ratio[1], PAIRS));
    bench_set(f, "goal_push_ratio", GOAL_PUSH);
    bench_set(f, "goal_pull_ratio", GOAL_PULL);
    bench_print(
        x->bench, f,
        "CPU of all servers, 1,000 keys, 1 replica: push {push_us:.0} us, pull "
        "{pull_us:.0} us; 2 replicas: {push_ratio:.2} times this for a push (goal "
        "{goal_push_ratio:.1}), {pull_ratio:.2} for a pull (goal "
        "{goal_pull_ratio:.1})\n");
    return 0;
}

int bench_replicas(struct bench *b, struct err *e)
{
    struct replicas_bench *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "a measurement");
    x->bench = b;
    int rc = b->o.workers <= BENCH_MOVES_WORKERS
                 ? 0
                 : err_set(e, TUG_EUSAGE, "--workers %llu: replicas takes %d at most",
                           (unsigned long long)b->o.workers, BENCH_MOVES_WORKERS);
    if (rc == 0)
        rc = measure_deaths(x, e);
    if (rc == 0)
        rc = measure_cpu(x, e);
    mem_free(x);
    return rc;
}
