// tug bench replicas: how long pushes wait after the death of a server, what a save costs
// pushes, and how much CPU time servers need for a push and a pull with two replicas,
// compared with one.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "bench/moves.h"

enum { DEATHS = 20, PAIRS = 5, SAVES = 7, FLOATS = 16, SERVERS = 3 };
enum { FEW_KEYS = 200000, MANY_KEYS = 2000000 }; // of the two tables
enum { PARTITIONS = 1 << ROSTER_PARTITION_BITS };
#define PATIENCE 60.0
// The goals, which are printed beside the figures.
#define GOAL_P50 0.8
#define GOAL_P99 2.0
#define GOAL_PUSH 2.4
#define GOAL_PULL 1.0
#define GOAL_SAVING 0.9

struct replicas_bench {
    struct bench *bench;
    struct bench_nodes nodes;
    struct bench_options options; // of `nodes`
    struct bench_moves *m;
    bool over;
    char dir[FILE_PATH_MAX]; // for saves; "": none
    uint64_t keys;           // number of keys of the table
    double waits[DEATHS * PARTITIONS];
    size_t n_waits;
    // CPU seconds of all servers for a push, and for a pull, with few requests under way and
    // with many.
    double cpu[2][2];
    // The rate of pushes, during each save and between saves.
    double during[SAVES], between[SAVES + 1], seconds[SAVES];
};

static bool has_replicas(const struct roster *r, uint32_t replicas)
{
    uint32_t chain[ROSTER_MAX_CHAIN];
    for (uint32_t space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p >> r->partition_bits == 0; p++)
            if (roster_chain(r, (enum wire_space)space, p, chain) < replicas)
                return false;
    return true;
}

// Waits until the workers have filled the table, and all partitions have their replicas.
static int fill(struct replicas_bench *x, uint32_t replicas, struct err *e)
{
    double until = clock_seconds() + PATIENCE;
    TRY(bench_moves_fill(&x->nodes, PATIENCE, e));
    while (!has_replicas(scheduler_roster(x->nodes.scheduler), replicas)) {
        if (clock_seconds() > until)
            return err_set(e, TUG_EIO, "the partitions lack replicas after %.0f s",
                           PATIENCE);
        TRY(bench_nodes_run(&x->nodes, 0.001, e));
    }
    return 0;
}

// Runs `act` on a cluster whose table has been filled.
static int with_cluster(struct replicas_bench *x, uint32_t replicas,
                        int (*act)(struct replicas_bench *x, struct err *e),
                        struct err *e)
{
    x->options = x->bench->o;
    // There are more processes than --servers and --workers say, so polling would only cost
    // CPU time, and more of it with more messages.
    x->options.spin_us = 0;
    x->over = false;
    x->nodes = (struct bench_nodes){.o = &x->options,
                                    .servers = SERVERS,
                                    .workers = (uint32_t)x->options.workers + 1,
                                    .replicas = replicas,
                                    .partition_bits = ROSTER_PARTITION_BITS,
                                    .save_root = x->dir[0] != '\0' ? x->dir : NULL,
                                    .work = bench_moves_worker};
    TRY(bench_share(&x->nodes.shared, sizeof(*x->m), e));
    x->m = (struct bench_moves *)x->nodes.shared;
    x->m->plan = (struct bench_moves_plan){.servers = SERVERS,
                                           .workers = x->nodes.workers,
                                           .bits = ROSTER_PARTITION_BITS,
                                           .keys = x->keys,
                                           .floats = FLOATS,
                                           .loaded = true,
                                           .obeys = true};
    atomic_store(&x->m->load, BENCH_LOAD_PUSHES);
    atomic_store(&x->m->in_flight, BENCH_IN_FLIGHT);
    int rc = bench_nodes_open(&x->nodes, e);
    if (rc == 0)
        rc = fill(x, replicas, e);
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

// Sets the keys of an order: one of each sparse partition that a node leads.
static void choose_keys(struct replicas_bench *x, uint32_t node)
{
    const struct roster *r = scheduler_roster(x->nodes.scheduler);
    struct bench_orders *o = &x->m->orders;
    bool has[PARTITIONS] = {false};
    o->n = 0;
    for (uint64_t i = 0; i < x->keys; i++) {
        uint64_t key = bench_moves_key(i);
        uint32_t at = roster_partition(r->partition_bits, WIRE_SPACE_SPARSE, key);
        if (has[at] || r->owners[WIRE_SPACE_SPARSE][at] != node)
            continue;
        has[at] = true;
        o->keys[o->n++] = key;
    }
}

// Kills a server under load. One worker then pushes a key of each partition that this
// server led.
static int kill_one(struct replicas_bench *x, struct err *e)
{
    const struct bench_orders *o = &x->m->orders;
    TRY(bench_nodes_run(&x->nodes, x->bench->o.seconds, e));
    choose_keys(x, bench_nodes_id(&x->nodes, 0));
    if (o->n == 0)
        return err_set(e, TUG_EIO, "the server to kill leads no partition");
    double killed = clock_seconds();
    bench_nodes_kill(&x->nodes, 0);
    bench_order(&x->nodes, BENCH_ORDER_PUSH_EACH);
    TRY(bench_order_wait(&x->nodes, PATIENCE, e));
    for (uint32_t i = 0; i < o->n; i++)
        x->waits[x->n_waits++] = o->acknowledged[i] - killed;
    return 0;
}

static int measure_deaths(struct replicas_bench *x, struct err *e)
{
    json_t *f = bench_group(x->bench->figures, "death");
    x->keys = FEW_KEYS;
    for (int i = 0; i < DEATHS; i++)
        TRY(with_cluster(x, 2, kill_one, e));
    bench_count(f, "deaths", DEATHS);
    bench_count(f, "partitions", x->n_waits);
    bench_set(f, "p50_s", bench_quantile(x->waits, x->n_waits, 0.5));
    bench_set(f, "p99_s", bench_quantile(x->waits, x->n_waits, 0.99));
    bench_set(f, "longest_s", x->waits[x->n_waits - 1]);
    bench_set(f, "goal_p50_s", GOAL_P50);
    bench_set(f, "goal_p99_s", GOAL_P99);
    bench_print(x->bench, f,
                "{deaths:.0} times one of three servers is killed (kill -9), 2 replicas: "
                "the first push of each of its partitions ({partitions:.0} in all) is "
                "acknowledged after p50 {p50_s:.2} s (goal {goal_p50_s:.1}), p99 "
                "{p99_s:.2} s (goal {goal_p99_s:.1}), at most {longest_s:.2} s\n");
    return 0;
}

// ---------------------------------------------------------------- saves

// Returns the pushes per second that have ended in a window of time.
static double rate_in(const struct replicas_bench *x, double from, double to)
{
    uint64_t n = 0;
    for (uint32_t w = 0; w < x->nodes.workers; w++) {
        const struct bench_seen *all = x->m->seen[w];
        for (unsigned i = atomic_load(&x->m->n[w]); i > 0 && all[i - 1].ended >= from;
             i--)
            n += all[i - 1].ended < to;
    }
    return (double)n / (to - from);
}

static int between_saves(struct replicas_bench *x, int i, struct err *e)
{
    double from = clock_seconds();
    TRY(bench_nodes_run(&x->nodes, x->bench->o.seconds, e));
    x->between[i] = rate_in(x, from, clock_seconds());
    return 0;
}

static int save_often(struct replicas_bench *x, struct err *e)
{
    struct bench_orders *o = &x->m->orders;
    memcpy(o->dir, x->dir, sizeof(o->dir));
    TRY(between_saves(x, 0, e)); // the rate before is taken from the second window
    TRY(between_saves(x, 0, e));
    for (int i = 0; i < SAVES; i++) {
        bench_order(&x->nodes, BENCH_ORDER_SAVE);
        TRY(bench_order_wait(&x->nodes, PATIENCE, e));
        x->during[i] = rate_in(x, o->began, o->ended);
        x->seconds[i] = o->ended - o->began;
        TRY(between_saves(x, i + 1, e));
    }
    return 0;
}

static int measure_saves_with(struct replicas_bench *x, uint32_t replicas, struct err *e)
{
    json_t *f = bench_row(x->bench->figures, "saves");
    double ratios[SAVES];
    TRY(bench_make_dir(x->bench, x->dir, e));
    int rc = with_cluster(x, replicas, save_often, e);
    bench_remove_dir(x->dir);
    x->dir[0] = '\0';
    TRY(rc);
    for (int i = 0; i < SAVES; i++)
        ratios[i] = 2 * x->during[i] / (x->between[i] + x->between[i + 1]);
    bench_count(f, "replicas", replicas);
    bench_count(f, "saves", SAVES);
    bench_set(f, "per_second", bench_median(x->between, SAVES + 1));
    bench_set(f, "ratio", bench_median(ratios, SAVES));
    bench_set(f, "least", ratios[0]);
    bench_set(f, "most", ratios[SAVES - 1]);
    bench_set(f, "seconds", bench_median(x->seconds, SAVES));
    bench_set(f, "goal", GOAL_SAVING);
    bench_print(x->bench, f,
                "{saves:.0} saves of 2 M rows, {replicas:.0} replica(s): while a save "
                "goes on ({seconds:.2} s), {ratio:.2} ({least:.2} to {most:.2}) of the "
                "pushes per second before and after it, {per_second:.0} (goal "
                "{goal:.1})\n");
    return 0;
}

static int measure_saves(struct replicas_bench *x, struct err *e)
{
    x->keys = MANY_KEYS;
    TRY(measure_saves_with(x, 1, e));
    return measure_saves_with(x, 2, e);
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

static int measure_loads(struct replicas_bench *x, struct err *e)
{
    for (int many = 0; many < 2; many++) {
        atomic_store(&x->m->in_flight, many ? BENCH_IN_FLIGHT_MAX : BENCH_IN_FLIGHT);
        TRY(measure_load(x, BENCH_LOAD_PUSHES, &x->cpu[many][0], e));
        TRY(measure_load(x, BENCH_LOAD_PULLS, &x->cpu[many][1], e));
    }
    return 0;
}

static void print_cpu(struct replicas_bench *x, int many, double one[2][PAIRS],
                      double ratio[2][PAIRS])
{
    json_t *f = bench_row(x->bench->figures, "cpu");
    bench_count(f, "keys", x->keys);
    bench_count(f, "in_flight", many ? BENCH_IN_FLIGHT_MAX : BENCH_IN_FLIGHT);
    bench_set(f, "push_us", bench_median(one[0], PAIRS) * 1e6);
    bench_set(f, "pull_us", bench_median(one[1], PAIRS) * 1e6);
    bench_set(f, "push_ratio", bench_median(ratio[0], PAIRS));
    bench_set(f, "pull_ratio", bench_median(ratio[1], PAIRS));
    bench_set(f, "goal_push_ratio", GOAL_PUSH);
    bench_set(f, "goal_pull_ratio", GOAL_PULL);
    bench_print(
        x->bench, f,
        "CPU of all servers, a table of {keys:.0} rows, requests of 1,000 keys, "
        "{in_flight:.0} under way per worker, 1 replica: push {push_us:.0} us, pull "
        "{pull_us:.0} us; 2 replicas: {push_ratio:.2} times this for a push (goal "
        "{goal_push_ratio:.1}), {pull_ratio:.2} for a pull (goal "
        "{goal_pull_ratio:.1})\n");
}

static int measure_cpu_of(struct replicas_bench *x, uint64_t keys, struct err *e)
{
    double one[2][2][PAIRS], ratio[2][2][PAIRS];
    x->keys = keys;
    for (int i = 0; i < PAIRS; i++) {
        TRY(with_cluster(x, 1, measure_loads, e));
        for (int k = 0; k < 4; k++)
            one[k / 2][k % 2][i] = x->cpu[k / 2][k % 2];
        TRY(with_cluster(x, 2, measure_loads, e));
        for (int k = 0; k < 4; k++)
            ratio[k / 2][k % 2][i] = x->cpu[k / 2][k % 2] / one[k / 2][k % 2][i];
    }
    for (int many = 0; many < 2; many++)
        print_cpu(x, many, one[many], ratio[many]);
    return 0;
}

// Two replicas double the bytes of rows in the caches that servers share. So a table that
// fits into them only with one replica shows a higher ratio than a large table.
static int measure_cpu(struct replicas_bench *x, struct err *e)
{
    TRY(measure_cpu_of(x, FEW_KEYS, e));
    return measure_cpu_of(x, MANY_KEYS, e);
}

int bench_replicas(struct bench *b, struct err *e)
{
    struct replicas_bench *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "a measurement");
    x->bench = b;
    // One more worker carries out orders.
    int rc = b->o.workers < BENCH_MOVES_WORKERS
                 ? 0
                 : err_set(e, TUG_EUSAGE, "--workers %llu: replicas takes %d at most",
                           (unsigned long long)b->o.workers, BENCH_MOVES_WORKERS - 1);
    if (rc == 0)
        rc = measure_deaths(x, e);
    if (rc == 0)
        rc = measure_saves(x, e);
    if (rc == 0)
        rc = measure_cpu(x, e);
    mem_free(x);
    return rc;
}
