// tug bench rules: measures how close applying gradients comes to the machine's limit.
// Compares the rate of a rule's updates of random rows of a large table with the rate at
// which the same thread changes random cache lines of the same memory, with prefetch. An
// update touches the cache lines of its row; a whole push, from keys to updated rows,
// also touches one line of the index.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "base/random.h"
#include "bench/bench.h"
#include "bench/store.h"

enum {
    LINE_BYTES = 64,
    AHEAD = 64, // a cache line is prefetched this many lines before its use
    LINES = 200000,
    RUNS = 9,
    PUSHES = 40, // pushes of a run
};

static const char *const rules[] = {"adagrad", "adam", "ftrl"};
static const uint32_t dims[] = {1, 8, 16, 64};

struct side {
    struct bench_rows t;
    uint32_t row_bytes; // size of a row with its key
    // Always 0; the compiler does not know this, so it keeps the writes.
    uint32_t zero;
    const char **line; // addresses of LINES + AHEAD cache lines
    struct accessor_scratch scratch;
    float **all; // the address of each row
    float *rows[BENCH_PUSH_KEYS];
};

static double lines_of(const struct side *x, const char *row)
{
    uintptr_t first = (uintptr_t)row / LINE_BYTES;
    uintptr_t last = ((uintptr_t)row + x->row_bytes - 1) / LINE_BYTES;
    return (double)(last - first + 1);
}

// Chooses random cache lines of random rows. Sets *ret_lines to the mean number of cache
// lines of a row.
static void choose_lines(struct side *x, uint64_t seed, double *ret_lines)
{
    double sum = 0;
    for (uint32_t i = 0; i < LINES + AHEAD; i++) {
        uint64_t key = bench_key(random_below(seed, 0, i, x->t.n));
        const char *row = (const char *)store_row(x->t.s, key, NULL) - sizeof(key);
        uint64_t at = random_below(seed, 1, i, x->row_bytes);
        x->line[i] = (const char *)((uintptr_t)(row + at) / sizeof(uint32_t) *
                                    sizeof(uint32_t));
        sum += lines_of(x, row);
    }
    *ret_lines = sum / (LINES + AHEAD);
}

// Returns the seconds in which all chosen cache lines are read and written. Their values
// stay the same.
static double time_lines(const struct side *x)
{
    uint64_t begin = clock_ns();
    for (uint32_t i = 0; i < LINES; i++) {
        __builtin_prefetch(x->line[i + AHEAD], 1, 2);
        *(volatile uint32_t *)(uintptr_t)x->line[i] ^= x->zero;
    }
    return bench_since(begin);
}

// Stores the addresses of all rows, so that choosing rows later does not touch them.
static int find_rows(struct side *x, struct err *e)
{
    x->all = mem_array(x->t.n, sizeof(*x->all));
    x->line = mem_array(LINES + AHEAD, sizeof(*x->line));
    if (x->all == NULL || x->line == NULL)
        return err_nomem(e, "rows to measure");
    for (uint64_t i = 0; i < x->t.n; i++)
        x->all[i] = (float *)(uintptr_t)store_row(x->t.s, bench_key(i), NULL);
    return accessor_scratch_init(&x->scratch, store_accessor(x->t.s), kernels_get(), e);
}

// Returns the seconds in which the gradients of a push are applied to random rows.
static double time_apply(struct side *x, uint64_t seed)
{
    struct rule_params now[ACCESSOR_MAX_GROUPS];
    accessor_rules(store_accessor(x->t.s), 1, now);
    for (size_t k = 0; k < BENCH_PUSH_KEYS; k++)
        x->rows[k] = x->all[random_below(seed, 2, k, x->t.n)];
    struct accessor_push push = {.rules = now,
                                 .pass = 1,
                                 .scale = 1,
                                 .n = BENCH_PUSH_KEYS,
                                 .rows = x->rows,
                                 .values = x->t.values};
    uint64_t begin = clock_ns();
    accessor_apply_packed(&x->scratch, &push);
    return bench_since(begin);
}

static int time_updates(struct side *x, uint32_t run, double *ret_updates,
                        double *ret_pushed, struct err *e)
{
    // This seed is not the one that has chosen the cache lines, so the pushes are to
    // other rows.
    struct bench_traffic even = {0, RUNS + run, PUSHES, BENCH_PUSH_KEYS};
    double apply = 0;
    TRY(bench_rows_draw(&x->t, &even, e));
    TRY(bench_push_all(&x->t, ret_pushed, e));
    for (uint32_t i = 0; i < PUSHES; i++)
        apply += time_apply(x, (uint64_t)run << 32 | i);
    *ret_updates = (double)PUSHES * BENCH_PUSH_KEYS / apply;
    return 0;
}

// Measures updates and cache lines in turn, so that other work of the machine affects
// both.
static int run_turns(struct side *x, json_t *f, struct err *e)
{
    double updates[RUNS], pushed[RUNS], lines[RUNS], each = 0;
    for (uint32_t run = 0; run < RUNS; run++) {
        choose_lines(x, run, &each);
        lines[run] = LINES / time_lines(x);
        TRY(time_updates(x, run, &updates[run], &pushed[run], e));
    }
    double limit = bench_median(lines, RUNS);
    bench_set(f, "updates_per_second", bench_median(updates, RUNS));
    bench_set(f, "pushed_per_second", bench_median(pushed, RUNS));
    bench_set(f, "lines_each", each);
    bench_set(f, "lines_per_second", limit);
    bench_set(f, "ratio", bench_median(updates, RUNS) * each / limit);
    bench_set(f, "push_ratio", bench_median(pushed, RUNS) * (each + 1) / limit);
    return 0;
}

static int measure(const struct bench *b, const char *settings, json_t *f, struct err *e)
{
    struct side x = {0};
    int rc = bench_rows_open(&x.t, settings, NULL, b->o.table_rows, e);
    if (rc == 0)
        rc = bench_rows_fill(&x.t, e);
    if (rc == 0)
        rc = find_rows(&x, e);
    if (rc == 0) {
        uint32_t width = store_accessor(x.t.s)->width;
        x.row_bytes = (uint32_t)(sizeof(uint64_t) + width * sizeof(float));
        rc = run_turns(&x, f, e);
    }
    accessor_scratch_fini(&x.scratch);
    mem_free(x.all);
    mem_free(x.line);
    bench_rows_close(&x.t);
    return rc;
}

static int measure_rule(struct bench *b, const char *rule, uint32_t dim, struct err *e)
{
    char settings[128];
    json_t *f = bench_row(b->figures, "figures");
    snprintf(settings, sizeof(settings), "accessor=plain; dim=%u; rule=%s", dim, rule);
    (void)json_object_set_new(f, "rule", json_string(rule));
    bench_count(f, "dim", dim);
    TRY(measure(b, settings, f, e));
    bench_print(b, f,
                "{rule:-8} {dim:4} {updates_per_second:12.2M} {lines_each:11.1} "
                "{lines_per_second:10.1M} {ratio:6.2} {pushed_per_second:12.2M} "
                "{push_ratio:6.2}\n");
    return 0;
}

int bench_rules(struct bench *b, struct err *e)
{
    bench_count(b->figures, "rows", b->o.table_rows);
    bench_print(
        b, b->figures,
        "{rows} rows; lines of updated rows, against random lines that are read and "
        "written (floor 0.5);\nand whole pushes, with the index' lines\n"
        "rule      dim  M updates/s  lines each  M lines/s  ratio   M pushed/s  ratio\n");
    for (uint32_t r = 0; r < sizeof(rules) / sizeof(*rules); r++)
        for (uint32_t d = 0; d < sizeof(dims) / sizeof(*dims); d++)
            TRY(measure_rule(b, rules[r], dims[d], e));
    return 0;
}
