// How close a table comes to the machine's limits:
//
//   read    find random keys of a large table and read their rows, against the rate at
//           which the same thread reads random cache lines with prefetch; index plus row are
//           two lines, so a half would be perfect
//   grow    insert keys in batches: the mean and the worst batch
//   memory  bytes per key over a doubling
//
// Also built as a program of its own, bench/table_bench.c.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/bench.h"
#include "table/table.h"

enum {
    GROW_BATCH = 10000,
    CEILING_MS = 5, // of a batch
    READS = 100000, // a run; each run takes other keys, else they would stay in the cache
    RUNS = 80,
    TURN = 10,        // runs of one side before the other side has its turn
    READ_BATCH = 512, // keys per table_find, as a trainer's batches have
    ROW_FLOATS = 14,  // with its key a row is one cache line
    LINE_BYTES = 64,
};

struct result {
    double lines_per_second, l2_lines_per_second, reads_per_second;
    uint64_t grow_keys;
    double grow_mean_ms, grow_p99_ms, grow_worst_ms, grow_worst_cpu_ms, touch_ms;
    uint64_t grow_late; // batches over CEILING_MS
    double bytes_mean, bytes_worst;
};

static volatile float sink; // so that reads are not optimised away

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *x, size_t n, double q)
{
    qsort(x, n, sizeof(*x), compare_doubles);
    return x[(size_t)((double)n * q)];
}

static double median(double *x, size_t n)
{
    return quantile(x, n, 0.5);
}

// How far ahead the other side asks for lines, and into which cache: 3 is all, 2
// leaves out the first.
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
    return (double)(clock_ns() - begin) * 1e-9;
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
    return (double)(clock_ns() - begin) * 1e-9;
}

// The i-th key of a benchmark: any 64 bits.
static uint64_t nth_key(uint64_t i)
{
    return mix64(i + 1);
}

static int fill(struct table *t, uint64_t n)
{
    uint64_t keys[READ_BATCH];
    uint32_t handles[READ_BATCH];
    int rc = 0;
    for (uint64_t at = 0; at < n && rc == 0; at += READ_BATCH) {
        uint32_t len = n - at < READ_BATCH ? (uint32_t)(n - at) : READ_BATCH;
        for (uint32_t i = 0; i < len; i++)
            keys[i] = nth_key(at + i);
        rc = table_rows(t, keys, len, handles);
    }
    return rc;
}

struct reads {
    const char *lines;
    struct table *t;
    uint64_t n;
    double line_seconds[RUNS], l2_line_seconds[RUNS], key_seconds[RUNS];
};

static double run_lines(const struct reads *x, uint64_t seed, bool l2)
{
    static uint32_t order[READS + AHEAD];
    for (uint32_t i = 0; i < READS + AHEAD; i++)
        order[i] = (uint32_t)random_below(seed, l2, i, x->n);
    return time_lines(x->lines, order, l2);
}

static double run_keys(const struct reads *x, uint64_t seed)
{
    static uint64_t keys[READS];
    for (uint32_t i = 0; i < READS; i++)
        keys[i] = nth_key(random_below(seed, 2, i, x->n));
    return time_reads(x->t, keys);
}

// All sides in turn, so that what else the machine does hits all; each for
// several runs, so that the page tables of its memory are as near as in a program
// that does nothing else.
static void run_reads(struct reads *x)
{
    for (uint32_t turn = 0; turn < RUNS; turn += TURN) {
        for (uint32_t run = turn; run < turn + TURN; run++)
            x->line_seconds[run] = run_lines(x, run, false);
        for (uint32_t run = turn; run < turn + TURN; run++)
            x->l2_line_seconds[run] = run_lines(x, run, true);
        for (uint32_t run = turn; run < turn + TURN; run++)
            x->key_seconds[run] = run_keys(x, run);
    }
}

static int bench_reads(uint64_t n, struct result *r, struct err *e)
{
    static struct reads x;
    struct table_options o = {.width = ROW_FLOATS, .align = LINE_BYTES};
    TRY(table_open(&x.t, &o, e));
    char *lines = mem_map(n * LINE_BYTES);
    int rc = lines == NULL ? TUG_ENOMEM : fill(x.t, n);
    if (rc != 0) {
        rc = err_nomem(e, "the table to read");
    } else {
        memset(lines, 1, n * LINE_BYTES);
        x.lines = lines;
        x.n = n;
        run_reads(&x);
        r->lines_per_second = READS / median(x.line_seconds, RUNS);
        r->l2_lines_per_second = READS / median(x.l2_line_seconds, RUNS);
        r->reads_per_second = READS / median(x.key_seconds, RUNS);
    }
    mem_unmap(lines, n * LINE_BYTES);
    table_close(x.t);
    return rc;
}

// Touches as much memory as the table will take and gives it back; returns what the
// slowest first touch of 2 MiB took. In a virtual machine it is a page fault of the
// host, too, and some hosts take free pages back within seconds.
static double warm_memory(uint64_t bytes)
{
    const size_t step = 2 << 20;
    char *p = mem_map(bytes);
    double worst = 0;
    for (uint64_t at = 0; p != NULL && at + step <= bytes; at += step) {
        double begin = clock_seconds();
        memset(p + at, 1, step);
        double ms = (clock_seconds() - begin) * 1e3;
        worst = ms > worst ? ms : worst;
    }
    mem_unmap(p, bytes);
    return worst;
}

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

// Both the clock's time and the thread's own: on a shared machine the worst batch of
// thousands by the clock is one in which another process ran.
static int grow_batch(struct table *t, uint64_t at, struct result *r, double *ret_ms)
{
    static uint64_t keys[GROW_BATCH];
    static uint32_t handles[GROW_BATCH];
    for (uint32_t i = 0; i < GROW_BATCH; i++)
        keys[i] = nth_key(at + i);
    double begin = clock_seconds(), cpu = cpu_ms();
    int rc = table_rows(t, keys, GROW_BATCH, handles);
    cpu = cpu_ms() - cpu;
    double ms = (clock_seconds() - begin) * 1e3;
    *ret_ms = ms;
    r->grow_mean_ms += ms;
    r->grow_late += ms > CEILING_MS;
    r->grow_worst_ms = ms > r->grow_worst_ms ? ms : r->grow_worst_ms;
    r->grow_worst_cpu_ms = cpu > r->grow_worst_cpu_ms ? cpu : r->grow_worst_cpu_ms;
    return rc;
}

static int grow(struct table *t, uint64_t n, double *times, struct result *r)
{
    uint64_t samples = 0;
    for (uint64_t at = 0; at < n; at += GROW_BATCH) {
        TRY(grow_batch(t, at, r, &times[at / GROW_BATCH]));
        struct table_stats s = table_stats(t);
        if (s.rows <= n / 2)
            continue;
        double bytes = (double)(s.row_bytes + s.index_bytes) / (double)s.rows;
        r->bytes_mean += bytes;
        samples++;
        r->bytes_worst = bytes > r->bytes_worst ? bytes : r->bytes_worst;
    }
    r->grow_keys = n;
    r->grow_mean_ms /= (double)n / GROW_BATCH;
    r->grow_p99_ms = quantile(times, n / GROW_BATCH, 0.99);
    r->bytes_mean /= (double)samples;
    return 0;
}

static int bench_growth(uint64_t n, struct result *r, struct err *e)
{
    struct table_options o = {.width = 2};
    struct table *t = NULL;
    double *times = mem_array(n / GROW_BATCH + 1, sizeof(*times));
    r->touch_ms = warm_memory(n * 25);
    int rc = times == NULL ? TUG_ENOMEM : table_open(&t, &o, e);
    if (rc == 0)
        rc = grow(t, n, times, r);
    table_close(t);
    mem_free(times);
    return rc == 0 ? 0 : err_nomem(e, "the table that grows");
}

static void print_text(const struct result *r)
{
    double reads = r->reads_per_second;
    printf("read    %6.1f M random lines/s with prefetch, %.1f M into the second cache "
           "only\n"
           "        %6.1f M random keys found and read/s: %.2f and %.2f of it (floor "
           "0.35)\n",
           r->lines_per_second * 1e-6, r->l2_lines_per_second * 1e-6, reads * 1e-6,
           reads / r->lines_per_second, reads / r->l2_lines_per_second);
    if (r->grow_keys == 0) {
        printf("grow    left out (see tug bench --help)\n");
        return;
    }
    printf(
        "grow    to %.0f M keys, batches of %d: mean %.2f ms, 99 %% below %.2f ms, worst "
        "%.2f ms\n"
        "        (ceiling 5; %llu of %llu above; worst of the thread's own time %.2f ms; "
        "the first\n"
        "        touch of 2 MiB alone takes this machine up to %.2f ms)\n",
        (double)r->grow_keys * 1e-6, GROW_BATCH, r->grow_mean_ms, r->grow_p99_ms,
        r->grow_worst_ms, (unsigned long long)r->grow_late,
        (unsigned long long)(r->grow_keys / GROW_BATCH), r->grow_worst_cpu_ms,
        r->touch_ms);
    printf(
        "memory  with 8 bytes of floats: mean %.2f bytes per key over the last doubling "
        "(ceiling 24), worst %.2f (ceiling 32)\n",
        r->bytes_mean, r->bytes_worst);
}

static void print_json(const struct result *r)
{
    printf("{\"bench\":\"table\",\"lines_per_second\":%.0f,\"l2_lines_per_second\":%.0f,"
           "\"reads_per_second\":%.0f,\"ratio\":%.3f,\"l2_ratio\":%.3f,"
           "\"grow_keys\":%llu,\"grow_mean_ms\":%.3f,\"grow_worst_ms\":%.3f,"
           "\"grow_p99_ms\":%.3f,\"grow_worst_cpu_ms\":%.3f,\"touch_ms\":%.3f,"
           "\"bytes_per_key_mean\":%.2f,"
           "\"bytes_per_key_worst\":%.2f}\n",
           r->lines_per_second, r->l2_lines_per_second, r->reads_per_second,
           r->reads_per_second / r->lines_per_second,
           r->reads_per_second / r->l2_lines_per_second, (unsigned long long)r->grow_keys,
           r->grow_mean_ms, r->grow_worst_ms, r->grow_p99_ms, r->grow_worst_cpu_ms,
           r->touch_ms, r->bytes_mean, r->bytes_worst);
}

static uint64_t free_memory(void)
{
    return (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

int bench_table(struct bench *bench, struct err *e)
{
    const struct bench_options *o = &bench->o;
    struct result r = {0};
    TRY(bench_reads(o->read_keys, &r, e));
    if (o->grow_keys > 0 && free_memory() > o->grow_keys * 60)
        TRY(bench_growth(o->grow_keys, &r, e));
    if (o->json)
        print_json(&r);
    else
        print_text(&r);
    return 0;
}
