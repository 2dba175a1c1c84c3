// tug bench table: measures how close a table comes to the machine's limits:
//
//   read    finds random keys of a large table and reads their rows, compared with the
//   rate at which the same thread reads random cache lines with prefetch. Index and row
//   are two lines, so a ratio of 0.5 would be perfect.
//   grow    inserts keys in batches: the time of the mean and the worst batch
//   memory  the bytes per key while the number of keys doubles
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/random.h"
#include "bench/bench.h"
#include "table/table.h"

enum {
    GROW_BATCH = 10000,
    CEILING_MS = 5, // ceiling for the time of a batch
    // Keys of a run; each run has different keys, which are not in the cache.
    READS = 100000,
    RUNS = 80,
    TURN = 10,        // number of runs that one side makes in a row, before the next side
    READ_BATCH = 512, // keys per table_find, as in a trainer's batches
    ROW_FLOATS = 14,  // so that a row with its key is one cache line
    LINE_BYTES = 64,
};

static volatile float sink; // written so that the compiler keeps the reads

// time_lines prefetches this many lines ahead. A prefetch with locality 3 loads a line
// into all caches, one with locality 2 into all caches but the first.
enum { AHEAD = 64 };

static double time_lines(const char *lines, const uint32_t *order, bool l2)
{
    uint64_t sum = 0;
    uint64_t begin = clock_ns();
    for (uint32_t i = 0; i < READS; i++) {
        const char *next = lines + (size_t)order[i + AHEAD] * LINE_BYTES;
        if (l2)
            __builtin_prefetch(next, 0, 2);
        else
            __builtin_prefetch(next, 0, 3);
        sum += *(const uint64_t *)(const void *)(lines + (size_t)order[i] * LINE_BYTES);
    }
    sink = (float)sum;
    return bench_since(begin);
}

static float sum_row(const float *row)
{
    float sum[2] = {0, 0};
    for (int i = 0; i < ROW_FLOATS; i += 2) {
        sum[0] += row[i];
        sum[1] += row[i + 1];
    }
    return sum[0] + sum[1];
}

static double time_reads(struct table *t, const uint64_t *keys)
{
    uint32_t handles[READ_BATCH];
    struct table_slabs slabs = table_slabs(t);
    float sum = 0;
    uint64_t begin = clock_ns();
    for (uint32_t at = 0; at < READS; at += READ_BATCH) {
        uint32_t n = READS - at < READ_BATCH ? READS - at : READ_BATCH;
        table_find(t, keys + at, n, handles);
        for (uint32_t i = 0; i < n; i++)
            sum += sum_row(table_row(slabs, handles[i]));
    }
    sink = sum;
    return bench_since(begin);
}

// Returns the keys of the n ranks from `at` on; n is at most GROW_BATCH.
static const uint64_t *keys_from(uint64_t at, uint32_t n)
{
    static uint64_t keys[GROW_BATCH];
    for (uint32_t i = 0; i < n; i++)
        keys[i] = bench_key(at + i);
    return keys;
}

static int fill(struct table *t, uint64_t n)
{
    uint32_t handles[READ_BATCH];
    int rc = 0;
    for (uint64_t at = 0; at < n && rc == 0; at += READ_BATCH) {
        uint32_t len = n - at < READ_BATCH ? (uint32_t)(n - at) : READ_BATCH;
        rc = table_rows(t, keys_from(at, len), len, handles);
    }
    return rc;
}

enum { LINES, L2_LINES, KEYS, SIDES };

struct reads {
    const char *lines;
    struct table *t;
    uint64_t n;
};

static double run_side(const struct reads *x, uint64_t seed, uint32_t side)
{
    static uint32_t order[READS + AHEAD];
    static uint64_t keys[READS];
    for (uint32_t i = 0; i < READS + AHEAD; i++)
        order[i] = (uint32_t)random_below(seed, side, i, x->n);
    for (uint32_t i = 0; i < READS; i++)
        keys[i] = bench_key(order[i]);
    return side == KEYS ? time_reads(x->t, keys)
                        : time_lines(x->lines, order, side == L2_LINES);
}

// Measures all sides in turn, so that other work of the machine affects all of them. A
// side's turn has several runs, so that the page tables of its memory are in the cache,
// as in a program that does nothing else.
static void run_reads(const struct reads *x, json_t *f)
{
    static const char *const names[SIDES] = {"lines_per_second", "l2_lines_per_second",
                                             "reads_per_second"};
    static double seconds[SIDES][RUNS];
    for (uint32_t turn = 0; turn < RUNS; turn += TURN)
        for (uint32_t side = 0; side < SIDES; side++)
            for (uint32_t run = turn; run < turn + TURN; run++)
                seconds[side][run] = run_side(x, run, side);
    for (uint32_t side = 0; side < SIDES; side++)
        bench_set(f, names[side], READS / bench_median(seconds[side], RUNS));
    bench_ratio(f, "ratio", names[KEYS], names[LINES]);
    bench_ratio(f, "l2_ratio", names[KEYS], names[L2_LINES]);
}

static int measure_reads(struct bench *b, struct err *e)
{
    struct reads x = {.n = b->o.read_keys};
    struct table_options o = {.width = ROW_FLOATS, .align = LINE_BYTES};
    TRY(table_open(&x.t, &o, e));
    char *lines = mem_map(x.n * LINE_BYTES);
    int rc = lines == NULL || fill(x.t, x.n) != 0 ? err_nomem(e, "the table to read") : 0;
    if (rc == 0) {
        memset(lines, 1, x.n * LINE_BYTES);
        x.lines = lines;
        run_reads(&x, b->figures);
    }
    mem_unmap(lines, x.n * LINE_BYTES);
    table_close(x.t);
    return rc;
}

// Touches as much memory as the table will take, frees it, and returns the seconds of the
// slowest first touch of 2 MiB. In a virtual machine a first touch is also a page fault
// of the host, and some hosts reclaim free pages within seconds.
static double warm_memory(uint64_t bytes)
{
    const size_t step = 2 << 20;
    char *p = mem_map(bytes);
    double worst = 0;
    for (uint64_t at = 0; p != NULL && at + step <= bytes; at += step) {
        uint64_t begin = clock_ns();
        memset(p + at, 1, step);
        worst = fmax(worst, bench_since(begin));
    }
    mem_unmap(p, bytes);
    return worst;
}

struct growth {
    double *ms; // the milliseconds of each batch
    double sum_ms, worst_ms, worst_cpu_ms;
    uint64_t late; // batches over CEILING_MS
    double bytes_sum, bytes_worst;
    uint64_t samples; // how often the bytes per key were measured
};

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

// Inserts a batch, and measures both wall time and the thread's CPU time: on a shared
// machine, the worst of thousands of batches by wall time is one during which another
// process ran.
static int grow_batch(struct table *t, uint64_t at, struct growth *g)
{
    static uint32_t handles[GROW_BATCH];
    const uint64_t *keys = keys_from(at, GROW_BATCH);
    double cpu = cpu_ms();
    uint64_t begin = clock_ns();
    int rc = table_rows(t, keys, GROW_BATCH, handles);
    double ms = bench_since(begin) * 1e3;
    g->worst_cpu_ms = fmax(g->worst_cpu_ms, cpu_ms() - cpu);
    g->worst_ms = fmax(g->worst_ms, ms);
    g->ms[at / GROW_BATCH] = ms;
    g->sum_ms += ms;
    g->late += ms > CEILING_MS;
    return rc;
}

static int grow(struct table *t, uint64_t n, struct growth *g)
{
    for (uint64_t at = 0; at < n; at += GROW_BATCH) {
        TRY(grow_batch(t, at, g));
        struct table_stats s = table_stats(t);
        if (s.rows <= n / 2)
            continue;
        double bytes = (double)(s.row_bytes + s.index_bytes) / (double)s.rows;
        g->bytes_sum += bytes;
        g->bytes_worst = fmax(g->bytes_worst, bytes);
        g->samples++;
    }
    return 0;
}

static void set_growth(json_t *f, uint64_t n, const struct growth *g)
{
    uint64_t batches = n / GROW_BATCH;
    bench_count(f, "grow_keys", n);
    bench_count(f, "grow_batches", batches);
    bench_count(f, "grow_late", g->late);
    bench_set(f, "grow_mean_ms", g->sum_ms / (double)batches);
    bench_set(f, "grow_worst_ms", g->worst_ms);
    bench_set(f, "grow_p99_ms", batches > 0 ? bench_quantile(g->ms, batches, 0.99) : 0);
    bench_set(f, "grow_worst_cpu_ms", g->worst_cpu_ms);
    bench_set(f, "bytes_per_key_mean", g->bytes_sum / (double)g->samples);
    bench_set(f, "bytes_per_key_worst", g->bytes_worst);
}

static int measure_growth(uint64_t n, json_t *f, struct err *e)
{
    struct growth g = {.ms = mem_array(n / GROW_BATCH + 1, sizeof(*g.ms))};
    struct table_options o = {.width = 2};
    struct table *t = NULL;
    bench_set(f, "touch_ms", warm_memory(n * 25) * 1e3);
    int rc = g.ms == NULL ? TUG_ENOMEM : table_open(&t, &o, e);
    if (rc == 0)
        rc = grow(t, n, &g);
    if (rc == 0)
        set_growth(f, n, &g);
    table_close(t);
    mem_free(g.ms);
    return rc == 0 ? 0 : err_nomem(e, "the table that grows");
}

static const char read_text[] =
    "read    {lines_per_second:6.1M} M random lines/s with prefetch, "
    "{l2_lines_per_second:.1M} M into the second cache only\n"
    "        {reads_per_second:6.1M} M random keys found and read/s: {ratio:.2} and "
    "{l2_ratio:.2} of it (floor 0.35)\n";

static const char grow_text[] =
    "grow    to {grow_keys:.0M} M keys, batches of 10000: mean {grow_mean_ms:.2} ms, "
    "99 % below {grow_p99_ms:.2} ms, worst {grow_worst_ms:.2} ms\n"
    "        (ceiling 5; {grow_late} of {grow_batches} above; worst by CPU "
    "time {grow_worst_cpu_ms:.2} ms; the first\n"
    "        touch of 2 MiB alone takes this machine up to {touch_ms:.2} ms)\n"
    "memory  with 8 bytes of floats: mean {bytes_per_key_mean:.2} bytes per key over the "
    "last doubling (ceiling 24), worst {bytes_per_key_worst:.2} (ceiling 32)\n";

int bench_table(struct bench *b, struct err *e)
{
    uint64_t n = b->o.grow_keys;
    bool grows = n > 0 && mem_available() > n * 60;
    TRY(measure_reads(b, e));
    bench_print(b, b->figures, read_text);
    if (grows)
        TRY(measure_growth(n, b->figures, e));
    else
        set_growth(b->figures, 0, &(struct growth){0});
    bench_print(b, b->figures,
                grows ? grow_text : "grow    left out (see tug bench --help)\n");
    return 0;
}
