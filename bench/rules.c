// How close applying gradients comes to the machine's limit: updates of random rows of a
// large table by a rule, against the rate at which the same thread reads, changes and
// writes random cache lines of the same memory, with prefetch. An update touches the
// lines of the row. A whole push, from keys to updated rows, touches one of the index,
// too, and is shown beside.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/bench.h"
#include "bench/store.h"

enum {
    LINE_BYTES = 64,
    AHEAD = 64, // lines on their way while one is changed
    LINES = 200000,
    RUNS = 9,
    PUSHES = 40, // a run
};

static const char *const rules[] = {"adagrad", "adam", "ftrl"};
static const uint32_t dims[] = {1, 8, 16, 64};
enum { RULES = sizeof(rules) / sizeof(*rules), DIMS = sizeof(dims) / sizeof(*dims) };

struct figure {
    const char *rule;
    uint32_t dim;
    double updates, pushed, lines; // a second
    double lines_each;             // lines that an update touches
};

static double ratio(const struct figure *f)
{
    return f->updates * f->lines_each / f->lines;
}

static double push_ratio(const struct figure *f)
{
    return f->pushed * (f->lines_each + 1) / f->lines;
}

struct side {
    struct store *s;
    struct bench_draw draw;
    uint64_t n;
    uint32_t row_bytes; // with its key
    uint32_t zero;      // that the compiler does not know
    const char **line;  // LINES + AHEAD
    struct accessor_scratch scratch;
    float **all; // rows
    float *rows[BENCH_PUSH_KEYS];
};

static const char *row_of(const struct side *x, uint64_t i)
{
    const char *row = (const char *)store_row(x->s, bench_key(i), NULL);
    return row - sizeof(uint64_t);
}

static double lines_of(const struct side *x, const char *row)
{
    uintptr_t first = (uintptr_t)row / LINE_BYTES;
    uintptr_t last = ((uintptr_t)row + x->row_bytes - 1) / LINE_BYTES;
    return (double)(last - first + 1);
}

// Random lines of random rows; *ret_lines: how many a row has.
static void choose_lines(struct side *x, uint64_t seed, double *ret_lines)
{
    double sum = 0;
    for (uint32_t i = 0; i < LINES + AHEAD; i++) {
        const char *row = row_of(x, random_below(seed, 0, i, x->n));
        uint64_t at = random_below(seed, 1, i, x->row_bytes);
        x->line[i] = (const char *)((uintptr_t)(row + at) / sizeof(uint32_t) *
                                    sizeof(uint32_t));
        sum += lines_of(x, row);
    }
    *ret_lines = sum / (LINES + AHEAD);
}

// Changes nothing, but the processor does not know.
static double time_lines(const struct side *x)
{
    uint64_t begin = clock_ns();
    for (uint32_t i = 0; i < LINES; i++) {
        __builtin_prefetch(x->line[i + AHEAD], 1, 2);
        *(volatile uint32_t *)(uintptr_t)x->line[i] ^= x->zero;
    }
    return (double)(clock_ns() - begin) * 1e-9;
}

// Where all rows are, so that choosing some does not touch them.
static int find_rows(struct side *x, struct err *e)
{
    x->all = mem_array(x->n, sizeof(*x->all));
    if (x->all == NULL)
        return err_nomem(e, "rows to measure");
    for (uint64_t i = 0; i < x->n; i++)
        x->all[i] = (float *)(uintptr_t)store_row(x->s, bench_key(i), NULL);
    return accessor_scratch_init(&x->scratch, store_accessor(x->s), kernels_get(), e);
}

// The gradients of a push, into random rows.
static double time_apply(struct side *x, const float *values, uint64_t seed)
{
    struct rule_params now[ACCESSOR_MAX_GROUPS];
    accessor_rules(store_accessor(x->s), 1, now);
    for (size_t k = 0; k < BENCH_PUSH_KEYS; k++)
        x->rows[k] = x->all[random_below(seed, 2, k, x->n)];
    struct accessor_push push = {.rules = now,
                                 .pass = 1,
                                 .scale = 1,
                                 .n = BENCH_PUSH_KEYS,
                                 .rows = x->rows,
                                 .values = values};
    uint64_t begin = clock_ns();
    accessor_apply_packed(&x->scratch, &push);
    return (double)(clock_ns() - begin) * 1e-9;
}

static int time_updates(struct side *x, uint32_t run, double *ret_updates,
                        double *ret_pushed, struct err *e)
{
    struct bench_pushes p;
    uint32_t width = store_accessor(x->s)->push_width;
    double apply = 0;
    int rc = 0;
    TRY(bench_pushes_make(&p, &x->draw, PUSHES, BENCH_PUSH_KEYS, width, e));
    uint64_t begin = clock_ns();
    for (size_t i = 0; i < p.n && rc == 0; i++)
        rc = bench_push(x->s, &p, i, e);
    *ret_pushed = (double)p.begin[p.n] / ((double)(clock_ns() - begin) * 1e-9);
    for (uint32_t i = 0; i < PUSHES && rc == 0; i++)
        apply += time_apply(x, p.values, (uint64_t)run << 32 | i);
    *ret_updates = (double)PUSHES * BENCH_PUSH_KEYS / apply;
    bench_pushes_free(&p);
    return rc;
}

// Both in turn, so that what else the machine does hits both.
static int run_turns(struct side *x, struct figure *f, struct err *e)
{
    double updates[RUNS], pushed[RUNS], lines[RUNS];
    for (uint32_t run = 0; run < RUNS; run++) {
        choose_lines(x, run, &f->lines_each);
        lines[run] = LINES / time_lines(x);
        TRY(time_updates(x, run, &updates[run], &pushed[run], e));
    }
    f->pushed = bench_median(pushed, RUNS);
    f->updates = bench_median(updates, RUNS);
    f->lines = bench_median(lines, RUNS);
    return 0;
}

static int prepare(struct side *x, const struct figure *f, struct err *e)
{
    char settings[128];
    snprintf(settings, sizeof(settings), "accessor=plain; dim=%u; rule=%s", f->dim,
             f->rule);
    TRY(bench_store_open(&x->s, settings, NULL, e));
    x->row_bytes = (uint32_t)(sizeof(uint64_t) +
                              store_accessor(x->s)->width * sizeof(float));
    TRY(bench_draw_open(&x->draw, x->n, 0, e));
    x->line = mem_array(LINES + AHEAD, sizeof(*x->line));
    if (x->line == NULL)
        return err_nomem(e, "lines to measure");
    TRY(bench_store_fill(x->s, x->n, e));
    return find_rows(x, e);
}

static int measure(uint64_t n, struct figure *f, struct err *e)
{
    struct side *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "a benchmark");
    x->n = n;
    int rc = prepare(x, f, e);
    if (rc == 0)
        rc = run_turns(x, f, e);
    accessor_scratch_fini(&x->scratch);
    mem_free(x->all);
    mem_free(x->line);
    bench_draw_close(&x->draw);
    store_close(x->s);
    mem_free(x);
    return rc;
}

static void print_json(const struct figure *f, uint64_t n)
{
    printf("{\"bench\":\"rules\",\"rows\":%llu,\"figures\":[", (unsigned long long)n);
    for (uint32_t i = 0; i < RULES * DIMS; i++)
        printf("%s{\"rule\":\"%s\",\"dim\":%u,\"updates_per_second\":%.0f,"
               "\"pushed_per_second\":%.0f,\"lines_each\":%.2f,"
               "\"lines_per_second\":%.0f,\"ratio\":%.3f,\"push_ratio\":%.3f}",
               i > 0 ? "," : "", f[i].rule, f[i].dim, f[i].updates, f[i].pushed,
               f[i].lines_each, f[i].lines, ratio(&f[i]), push_ratio(&f[i]));
    printf("]}\n");
}

int bench_rules(struct bench *bench, struct err *e)
{
    const struct bench_options *o = &bench->o;
    struct figure f[RULES * DIMS];
    printf(
        "%llu rows; lines of updated rows, against random lines that are read and "
        "written (floor 0.5);\nand whole pushes, with the index' lines\n"
        "rule      dim  M updates/s  lines each  M lines/s  ratio   M pushed/s  ratio\n",
        (unsigned long long)o->table_rows);
    for (uint32_t i = 0; i < RULES * DIMS; i++) {
        f[i] = (struct figure){.rule = rules[i / DIMS], .dim = dims[i % DIMS]};
        TRY(measure(o->table_rows, &f[i], e));
        printf("%-8s %4u %12.2f %11.1f %10.1f %6.2f %12.2f %6.2f\n", f[i].rule, f[i].dim,
               f[i].updates * 1e-6, f[i].lines_each, f[i].lines * 1e-6, ratio(&f[i]),
               f[i].pushed * 1e-6, push_ratio(&f[i]));
        fflush(stdout);
    }
    if (o->json)
        print_json(f, o->table_rows);
    return 0;
}
