// tug bench moves: what it costs a running cluster that a server joins, and how fast
// partitions move when nothing else goes on, beside the van.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/alloc.h"
#include "bench/moves.h"
#include "bench/pair.h"

enum { ROUNDS = 3 };
// The comparison of moves with the van uses rows of NARROW and of WIDE floats, and tables
// with 2^FEW_BITS partitions.
enum { NARROW = 16, WIDE = 256, FEW_BITS = 4 };
enum { VAN_BYTES = 4 << 20, VAN_IN_FLIGHT = 8 };
#define PATIENCE 120.0 // seconds for filling the tables, and for all moves
#define TIMEOUT_NS ((uint64_t)60000000000)

// The kinds of processes whose CPU time is reported separately.
enum { CPU_SERVERS, CPU_WORKERS, CPU_JOINING, CPU_SCHEDULER, CPUS };
static const char *const cpu_names[] = {"cpu_servers", "cpu_workers", "cpu_joining",
                                        "cpu_scheduler"};

// A time, and the CPU seconds that the processes had used up to that time.
struct moment {
    double at;
    double cpu[CPUS];
};

struct moves_bench {
    struct bench *bench;
    struct bench_nodes nodes;
    struct bench_moves *m;
    bool over;
    uint32_t *owners; // the owner of each partition by hash before the server joins
    struct moment planned, moved; // when the plan was made, and when the last move ended
    double rate;                  // bytes per second of the moves
};

// ---------------------------------------------------------------- CPU time

static struct moment moment_now(const struct moves_bench *x)
{
    const struct bench_nodes *n = &x->nodes;
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (struct moment){
        .at = clock_seconds(),
        .cpu = {[CPU_SERVERS] = bench_nodes_cpu(n, 0, n->servers),
                [CPU_WORKERS] = bench_nodes_cpu(n, n->servers, n->workers),
                [CPU_JOINING] = bench_nodes_cpu(n, n->servers + n->workers, 1),
                [CPU_SCHEDULER] = (double)t.tv_sec + (double)t.tv_nsec * 1e-9}};
}

// Adds figures of the CPU time used between two moments, in CPU seconds per second.
static void add_cpu(json_t *to, const struct moment *from, const struct moment *until)
{
    for (int i = 0; i < CPUS; i++)
        bench_set(to, cpu_names[i],
                  (until->cpu[i] - from->cpu[i]) / (until->at - from->at));
}

// ---------------------------------------------------------------- one cluster

// Writes once to as much memory as the table will need, and frees it. In a virtual
// machine the host provides a page when the page is first written to, so this write may
// be ten times slower than later ones.
static int warm(const struct moves_bench *x, struct err *e)
{
    const struct bench_moves_plan *p = &x->m->plan;
    size_t bytes = p->keys * (p->floats * sizeof(float) + sizeof(uint64_t)) * 5 / 4;
    char *memory = mem_map(bytes);
    if (memory == NULL)
        return err_nomem(e, "memory of a table's size");
    for (size_t at = 0; at < bytes; at += 4096)
        *(volatile char *)(memory + at) = 1;
    mem_unmap(memory, bytes);
    return 0;
}

// Lets a server join, and waits until all partitions have moved.
static int join(struct moves_bench *x, struct err *e)
{
    const struct roster *r = scheduler_roster(x->nodes.scheduler);
    size_t bytes = sizeof(*x->owners) << r->partition_bits;
    double until = clock_seconds() + PATIENCE;
    memcpy(x->owners, r->owners[WIRE_SPACE_SPARSE], bytes);
    x->planned.at = 0;
    (void)sem_post(&x->nodes.shared->late);
    for (;;) {
        struct scheduler_moves s = scheduler_moves(x->nodes.scheduler);
        if (x->planned.at == 0 && s.left > 0)
            x->planned = moment_now(x);
        if (s.left == 0 && s.done > 0)
            break;
        if (clock_seconds() > until)
            return err_set(e, TUG_EIO, "the partitions have not moved within %.0f s",
                           PATIENCE);
        TRY(bench_nodes_run(&x->nodes, 0.001, e));
    }
    x->moved = moment_now(x);
    return 0;
}

static int end(struct moves_bench *x, struct err *e)
{
    double until = clock_seconds() + PATIENCE;
    atomic_store(&x->m->stop, true);
    while (!x->over && clock_seconds() < until)
        TRY(bench_nodes_serve(&x->nodes, SECOND_NS / 100, &x->over, e));
    return 0;
}

// Runs `act` on a cluster whose table has been filled.
static int with_cluster(struct moves_bench *x, const struct bench_moves_plan *plan,
                        int (*act)(struct moves_bench *x, struct err *e), struct err *e)
{
    x->over = false;
    x->nodes = (struct bench_nodes){.o = &x->bench->o,
                                    .servers = plan->servers,
                                    .workers = plan->workers,
                                    .late_servers = 1,
                                    .partition_bits = plan->bits,
                                    .work = bench_moves_worker};
    TRY(bench_share(&x->nodes.shared, sizeof(*x->m), e));
    x->m = (struct bench_moves *)x->nodes.shared;
    x->m->plan = *plan;
    atomic_store(&x->m->in_flight, BENCH_IN_FLIGHT);
    int rc = bench_nodes_open(&x->nodes, e);
    if (rc == 0)
        rc = bench_moves_fill(&x->nodes, PATIENCE, e);
    if (rc == 0)
        rc = act(x, e);
    if (rc == 0)
        rc = end(x, e);
    rc = bench_nodes_close(&x->nodes, rc, e);
    munmap(x->m, sizeof(*x->m));
    return rc;
}

// ---------------------------------------------------------------- under load

static bool is_within(const struct bench_seen *q, const struct moment window[2])
{
    return q->ended >= window[0].at && q->ended < window[1].at;
}

// Stores how long each request took that ended in the window. Returns the keys per second
// of these requests.
static double collect(struct moves_bench *x, const struct moment window[2],
                      double *ret_times, size_t *ret_n)
{
    uint64_t keys = 0;
    *ret_n = 0;
    for (uint32_t i = 0; i < x->nodes.workers; i++) {
        unsigned n = atomic_load(&x->m->n[i]);
        for (unsigned k = 0; k < n; k++)
            if (is_within(&x->m->seen[i][k], window)) {
                ret_times[(*ret_n)++] = x->m->seen[i][k].took;
                keys += x->m->seen[i][k].keys;
            }
    }
    return (double)keys / (window[1].at - window[0].at);
}

static int add_window(struct moves_bench *x, json_t *to, const struct moment window[2],
                      struct err *e)
{
    size_t n;
    double *times = mem_array((size_t)BENCH_MOVES_WORKERS * BENCH_MOVES_SEEN,
                              sizeof(*times));
    if (times == NULL)
        return err_nomem(e, "the times of requests");
    bench_set(to, "per_second", collect(x, window, times, &n));
    bench_count(to, "requests", n);
    add_cpu(to, &window[0], &window[1]);
    if (n > 0) {
        bench_set(to, "p50_ms", bench_quantile(times, n, 0.5) * 1e3);
        bench_set(to, "p99_ms", bench_quantile(times, n, 0.99) * 1e3);
        bench_set(to, "longest_ms", times[n - 1] * 1e3);
    }
    mem_free(times);
    return n > 0 ? 0 : err_set(e, TUG_EIO, "no request ended in a window");
}

// Adds figures of the moves. The first figure is the number of rows whose owner has
// changed, divided by the number of rows that the new server should get.
static void add_moved(struct moves_bench *x, json_t *to)
{
    const struct roster *r = scheduler_roster(x->nodes.scheduler);
    const struct bench_moves_plan *p = &x->m->plan;
    struct scheduler_moves s = scheduler_moves(x->nodes.scheduler);
    uint64_t rows = 0;
    for (uint64_t i = 0; i < p->keys; i++) {
        uint32_t at = roster_partition(r->partition_bits, WIRE_SPACE_SPARSE,
                                       bench_moves_key(i));
        rows += r->owners[WIRE_SPACE_SPARSE][at] != x->owners[at];
    }
    bench_set(to, "rows_share",
              (double)rows / (double)p->keys * (double)(p->servers + 1));
    bench_count(to, "partitions", s.done);
    bench_count(to, "bytes", s.bytes);
    bench_count(to, "given_up", s.failed);
    bench_set(to, "longest_stop_ms", (double)s.longest_stop_ns * 1e-6);
    bench_set(to, "seconds", x->moved.at - x->planned.at);
}

static int join_under_load(struct moves_bench *x, struct err *e)
{
    struct moment before[2], during[2], after[2];
    double seconds = x->bench->o.seconds;
    json_t *row = bench_row(x->bench->figures, "rounds");
    TRY(warm(x, e));
    TRY(bench_nodes_run(&x->nodes, seconds / 2, e));
    before[0] = moment_now(x);
    TRY(bench_nodes_run(&x->nodes, seconds, e));
    before[1] = during[0] = moment_now(x);
    TRY(join(x, e));
    during[1] = after[0] = moment_now(x);
    TRY(bench_nodes_run(&x->nodes, seconds, e));
    after[1] = moment_now(x);
    TRY(add_window(x, bench_group(row, "before"), before, e));
    TRY(add_window(x, bench_group(row, "joining"), during, e));
    TRY(add_window(x, bench_group(row, "after"), after, e));
    add_moved(x, row);
    return 0;
}

// Returns the median of a figure over all rounds. The figure is in the group `group` of a
// round, or, if `group` is NULL, in the round itself.
static double median_of(const json_t *rounds, const char *group, const char *name)
{
    double all[ROUNDS];
    size_t n = 0;
    for (; n < json_array_size(rounds) && n < ROUNDS; n++) {
        const json_t *round = json_array_get(rounds, n);
        all[n] = bench_get(group != NULL ? json_object_get(round, group) : round, name);
    }
    return bench_median(all, n);
}

static void print_loaded(struct moves_bench *x)
{
    static const char *const groups[] = {"before", "joining", "after"};
    static const char *const of_group[] = {"per_second",  "p50_ms",       "p99_ms",
                                           "longest_ms",  "cpu_servers",  "cpu_workers",
                                           "cpu_joining", "cpu_scheduler"};
    static const char *const of_round[] = {"rows_share", "partitions",      "bytes",
                                           "given_up",   "longest_stop_ms", "seconds"};
    const json_t *rounds = json_object_get(x->bench->figures, "rounds");
    json_t *f = bench_group(x->bench->figures, "under_load");
    for (size_t g = 0; g < sizeof(groups) / sizeof(*groups); g++) {
        json_t *to = bench_group(f, groups[g]);
        for (size_t i = 0; i < sizeof(of_group) / sizeof(*of_group); i++)
            bench_set(to, of_group[i], median_of(rounds, groups[g], of_group[i]));
        (void)json_object_set_new(to, "when", json_string(groups[g]));
        bench_print(
            x->bench, to,
            "{when:-8} {per_second:.2M} M keys/s; a request of 1,000: p50 "
            "{p50_ms:.1} ms, p99 {p99_ms:.1}, longest {longest_ms:.1}; cores: workers "
            "{cpu_workers:.2}, servers {cpu_servers:.2} and {cpu_joining:.2}, "
            "scheduler {cpu_scheduler:.2}\n");
    }
    for (size_t i = 0; i < sizeof(of_round) / sizeof(*of_round); i++)
        bench_set(f, of_round[i], median_of(rounds, NULL, of_round[i]));
    bench_set(f, "rate_joining",
              bench_get(json_object_get(f, "joining"), "per_second") /
                  bench_get(json_object_get(f, "before"), "per_second"));
    bench_print(x->bench, f,
                "a server joins: {rate_joining:.2} of the rate before; {partitions:.0} "
                "partitions, {bytes:.1M} MB, {rows_share:.2} of a server's share of the "
                "rows, moved in {seconds:.2} s; a partition stopped for at most "
                "{longest_stop_ms:.1} ms\n");
}

static int measure_under_load(struct moves_bench *x, struct err *e)
{
    const struct bench_options *o = &x->bench->o;
    const struct bench_moves_plan plan = {.servers = (uint32_t)o->servers,
                                          .workers = (uint32_t)o->workers,
                                          .bits = ROSTER_PARTITION_BITS,
                                          .keys = o->keys,
                                          .floats = NARROW,
                                          .loaded = true};
    for (int i = 0; i < ROUNDS; i++)
        TRY(with_cluster(x, &plan, join_under_load, e));
    print_loaded(x);
    return 0;
}

// ---------------------------------------------------------------- beside the van

static int measure_van(struct moves_bench *x, double *ret, struct err *e)
{
    struct bench_pair_options po = {.max_bytes = VAN_BYTES,
                                    .spin_ns = (uint64_t)(x->bench->o.spin_us * 1000),
                                    .timeout_ns = TIMEOUT_NS};
    struct bench_pair *pair = NULL;
    int rc = bench_pair_van(&pair, &po, e);
    if (rc == 0)
        rc = bench_pair_stream(pair, VAN_BYTES, VAN_IN_FLIGHT, x->bench->o.seconds, ret,
                               e);
    bench_pair_close(pair);
    return rc;
}

static int join_idle(struct moves_bench *x, struct err *e)
{
    TRY(warm(x, e));
    TRY(bench_nodes_run(&x->nodes, 0.2, e));
    TRY(join(x, e));
    x->rate = (double)scheduler_moves(x->nodes.scheduler).bytes /
              (x->moved.at - x->planned.at);
    return 0;
}

// Moves half of a table to a second server, and sends bytes through a van, in turns.
static int beside_van(struct moves_bench *x, uint32_t bits, uint32_t floats,
                      struct err *e)
{
    double rates[ROUNDS], vans[ROUNDS], ratios[ROUNDS];
    json_t *f = bench_row(x->bench->figures, "beside_van");
    const struct bench_moves_plan plan = {.servers = 1,
                                          .workers = 1,
                                          .bits = bits,
                                          .keys = x->bench->o.keys * NARROW / floats,
                                          .floats = floats};
    for (int i = 0; i < ROUNDS; i++) {
        TRY(measure_van(x, &vans[i], e));
        TRY(with_cluster(x, &plan, join_idle, e));
        rates[i] = x->rate;
        ratios[i] = rates[i] / vans[i];
        add_cpu(bench_row(f, "rounds"), &x->planned, &x->moved);
    }
    bench_count(f, "floats", floats);
    bench_count(f, "partitions", (uint64_t)1 << bits);
    bench_set(f, "bytes_per_second", bench_median(rates, ROUNDS));
    bench_set(f, "van", bench_median(vans, ROUNDS));
    bench_set(f, "ratio", bench_median(ratios, ROUNDS));
    for (int i = 0; i < CPUS; i++)
        bench_set(f, cpu_names[i],
                  median_of(json_object_get(f, "rounds"), NULL, cpu_names[i]));
    bench_print(x->bench, f,
                "nothing else going on, rows of {floats:.0} floats, {partitions:.0} "
                "partitions: {bytes_per_second:.2G} GB/s, {ratio:.2} of the van's "
                "{van:.2G}; cores: owner {cpu_servers:.2}, new owner {cpu_joining:.2}, "
                "scheduler {cpu_scheduler:.2}\n");
    return 0;
}

int bench_moves(struct bench *b, struct err *e)
{
    struct moves_bench x = {.bench = b};
    x.owners = mem_array((size_t)1 << ROSTER_PARTITION_BITS, sizeof(*x.owners));
    int rc = x.owners != NULL ? 0 : err_nomem(e, "a placement");
    if (rc == 0 && b->o.workers > BENCH_MOVES_WORKERS)
        rc = err_set(e, TUG_EUSAGE, "--workers %llu: moves takes %d at most",
                     (unsigned long long)b->o.workers, BENCH_MOVES_WORKERS);
    if (rc == 0)
        rc = measure_under_load(&x, e);
    if (rc == 0)
        rc = beside_van(&x, ROSTER_PARTITION_BITS, NARROW, e);
    if (rc == 0)
        rc = beside_van(&x, FEW_BITS, NARROW, e);
    if (rc == 0)
        rc = beside_van(&x, FEW_BITS, WIDE, e);
    mem_free(x.owners);
    return rc;
}
