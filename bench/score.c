// tug bench score: scoring by a served model, an fm of 8 dimensions, with examples of 39
// random features. Measures how many examples one thread scores per second, compared with
// the rate at which rows are found alone, and how long a batch of 100 takes while deltas
// are published and followed.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "bench/bench.h"
#include "save/save.h"
#include "serve/score.h"
#include "train/rows/run_tables.h"

enum {
    FIELDS = 39,
    BATCH = 100,
    BATCHES = 2000, // batches of keys that are made beforehand
    RUNS = 5,
    CHUNK = 1 << 16,
    DELTA_ROWS = 10000,
    BITS = 8,
    MAX_TIMES = 1 << 20,
    SETTLE_MS = 20000,
};

struct score_bench {
    json_t *f;
    char dir[FILE_PATH_MAX];
    uint64_t rows;
    double seconds;
    struct store *both[2];
    char *about;
    struct served *served;
    uint64_t *keys, offsets[BATCH + 1];
    double *times;
    atomic_bool stop;
    // Used only by the thread that publishes:
    struct err failure;
    uint32_t deltas;
    double visible[64]; // seconds from the commit of a delta until it is served
};

static int open_stores(struct score_bench *x, struct saved_run *run, struct err *e)
{
    struct model_options *o = &run->options.model;
    struct model m;
    TRY(model_find("fm", &o->ops, e));
    model_defaults(o, o->ops, RULE_ADAGRAD);
    snprintf(run->schema.format, sizeof(run->schema.format), "libsvm");
    TRY(model_init(&m, o, e));
    struct table_config c[2] = {run_living_defaults(o), run_dense(&m)};
    TRY(table_config_parse(&c[0],
                           "base-threshold=0; delta-threshold=0; embedx-threshold=0", e));
    snprintf(c[0].name, sizeof(c[0].name), RUN_SPARSE);
    c[0].accessor.dim = m.layout.dim;
    TRY(table_config_set(&c[1], "deltas", "yes", e));
    for (uint32_t i = 0; i < 2; i++) {
        struct store_options s = {.config = &c[i], .id = i, .partition_bits = BITS};
        TRY(store_open(&x->both[i], &s, e));
    }
    return saved_run_print(run, &x->about, e);
}

// Sets the rows of n keys, from rank `first` on, to random weights.
static int set_rows(struct score_bench *x, uint64_t seed, uint64_t first, size_t n,
                    struct err *e)
{
    enum { WIDTH = 9 };
    struct table_entry *order = mem_array(n, sizeof(*order));
    uint64_t *keys = mem_array(n, sizeof(*keys));
    float *values = mem_array(n * WIDTH, sizeof(*values));
    int rc = order != NULL && keys != NULL && values != NULL ? 0 : err_nomem(e, "rows");
    for (size_t i = 0; i < n && rc == 0; i++)
        order[i] = (struct table_entry){
            .key = (uint64_t)store_partition(x->both[0], bench_key(first + i)) << 32 | i};
    if (rc == 0)
        table_sort_by_key(order, n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        keys[i] = bench_key(first + (uint32_t)order[i].key);
        for (uint32_t c = 0; c < WIDTH; c++)
            values[i * WIDTH + c] = random_f32(seed, keys[i], c) - 0.5f;
    }
    struct store_push p = {.op = STORE_ASSIGN,
                           .keys = keys,
                           .n = n,
                           .values = values,
                           .rate = 1,
                           .scale = 1};
    if (rc == 0)
        rc = store_push(x->both[0], &p, NULL, e);
    mem_free(order);
    mem_free(keys);
    mem_free(values);
    return rc;
}

static int publish(struct score_bench *x, enum save_mode mode, struct err *e)
{
    char path[FILE_PATH_MAX];
    TRY(save_stores(x->dir, mode, x->both, 2, x->about, 0, 1, path, e));
    return store_finish(x->both[0], e);
}

static int fill(struct score_bench *x, struct err *e)
{
    struct saved_run *run = mem_zalloc(sizeof(*run));
    if (run == NULL)
        return err_nomem(e, "a model");
    int rc = open_stores(x, run, e);
    mem_free(run);
    for (uint64_t at = 0; at < x->rows && rc == 0; at += CHUNK)
        rc = set_rows(x, 1, at, x->rows - at < CHUNK ? x->rows - at : CHUNK, e);
    uint64_t bias = 0;
    float half = 0.5f;
    struct store_push p = {.op = STORE_ASSIGN,
                           .keys = &bias,
                           .n = 1,
                           .values = &half,
                           .rate = 1,
                           .scale = 1};
    if (rc == 0)
        rc = store_push(x->both[1], &p, NULL, e);
    return rc == 0 ? publish(x, SAVE_BASE, e) : rc;
}

static int make_keys(struct score_bench *x, struct err *e)
{
    size_t n = (size_t)BATCHES * BATCH * FIELDS;
    x->keys = mem_array(n, sizeof(*x->keys));
    x->times = mem_array(MAX_TIMES, sizeof(*x->times));
    if (x->keys == NULL || x->times == NULL)
        return err_nomem(e, "keys");
    for (size_t i = 0; i < n; i++)
        x->keys[i] = bench_key(random_below(2, 1, i, x->rows));
    for (size_t i = 0; i <= BATCH; i++)
        x->offsets[i] = i * FIELDS;
    return 0;
}

static int score_batch(struct score_bench *x, size_t i, struct err *e)
{
    float ret[BATCH];
    struct score_rows rows = {.n = BATCH,
                              .offsets = x->offsets,
                              .keys = x->keys + i % BATCHES * BATCH * FIELDS};
    return score_rows(x->served, &rows, false, ret, NULL, e);
}

// Returns this thread's CPU time. On a shared machine it is more reliable than wall time.
static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int measure_rate(struct score_bench *x, struct err *e)
{
    double rate[RUNS], cpu_rate[RUNS];
    for (int run = 0; run < RUNS; run++) {
        double cpu = cpu_seconds();
        uint64_t begin = clock_ns();
        for (size_t i = 0; i < BATCHES; i++)
            TRY(score_batch(x, i, e));
        rate[run] = (double)BATCHES * BATCH / bench_since(begin);
        cpu_rate[run] = (double)BATCHES * BATCH / (cpu_seconds() - cpu);
    }
    bench_set(x->f, "examples_per_second", bench_median(rate, RUNS));
    bench_set(x->f, "examples_per_cpu_second", bench_median(cpu_rate, RUNS));
    return 0;
}

// Measures the time that finding the rows alone takes.
static void measure_finds(struct score_bench *x)
{
    const struct served_copy *c = atomic_load(&x->served->current);
    static uint32_t handles[BATCH * FIELDS];
    double begin = cpu_seconds();
    for (size_t i = 0; i < BATCHES; i++)
        table_find(c->p.sparse, x->keys + i * BATCH * FIELDS, BATCH * FIELDS, handles);
    bench_set(x->f, "finds_examples_per_cpu_second",
              (double)BATCHES * BATCH / (cpu_seconds() - begin));
}

// Waits until save `number` is served, at most SETTLE_MS. Returns the seconds of the
// wait.
static double until_served(struct score_bench *x, uint32_t number)
{
    uint64_t begin = clock_ns();
    while (served_status(x->served).number < number &&
           bench_since(begin) * 1e3 < SETTLE_MS) {
        struct timespec moment = {.tv_nsec = 1000000};
        nanosleep(&moment, NULL);
    }
    return bench_since(begin);
}

static void *publish_on(void *arg)
{
    struct score_bench *x = arg;
    size_t most = sizeof(x->visible) / sizeof(*x->visible);
    while (!atomic_load(&x->stop) && x->deltas < most && x->failure.code == 0) {
        uint64_t first = random_below(3, 1, x->deltas, x->rows - DELTA_ROWS + 1);
        if (set_rows(x, 4 + x->deltas, first, DELTA_ROWS, &x->failure) == 0 &&
            publish(x, SAVE_DELTA, &x->failure) == 0) {
            x->visible[x->deltas] = until_served(x, x->deltas + 2);
            x->deltas++;
        }
    }
    return NULL;
}

static int measure_following(struct score_bench *x, struct err *e)
{
    pthread_t thread;
    size_t n = 0;
    int rc = 0;
    if (pthread_create(&thread, NULL, publish_on, x) != 0)
        return err_set(e, TUG_EIO, "cannot start a thread");
    for (uint64_t begin = clock_ns();
         rc == 0 && n < MAX_TIMES && bench_since(begin) < x->seconds; n++) {
        uint64_t at = clock_ns();
        rc = score_batch(x, n, e);
        x->times[n] = bench_since(at);
    }
    atomic_store(&x->stop, true);
    pthread_join(thread, NULL);
    TRY(rc);
    if (x->failure.code != 0) {
        *e = x->failure;
        return e->code;
    }
    bench_set(x->f, "p50_us", 1e6 * bench_quantile(x->times, n, 0.5));
    bench_set(x->f, "p99_us", 1e6 * bench_quantile(x->times, n, 0.99));
    bench_set(x->f, "p999_us", 1e6 * bench_quantile(x->times, n, 0.999));
    bench_count(x->f, "deltas", x->deltas);
    bench_set(x->f, "visible_ms", 1e3 * bench_quantile(x->visible, x->deltas, 0.999));
    return 0;
}

static int measure(struct score_bench *x, struct bench *b, struct err *e)
{
    TRY(fill(x, e));
    TRY(make_keys(x, e));
    uint64_t begin = clock_ns();
    TRY(served_open(&x->served, x->dir, &(struct served_options){.follow = true}, e));
    bench_set(x->f, "open_seconds", bench_since(begin));
    TRY(measure_rate(x, e));
    measure_finds(x);
    TRY(measure_following(x, e));
    bench_print(
        b, x->f,
        "fm, 8 dimensions, {rows:0.1M} M rows, opened in {open_seconds:0.1} s\n"
        "one thread: {examples_per_second:0.2M} M examples/s of 39 features, "
        "{examples_per_cpu_second:0.2M} M by the processor's time; rows found alone: "
        "{finds_examples_per_cpu_second:0.2M} M\n"
        "a batch of 100 while {deltas} deltas of 10,000 rows come: "
        "p50 {p50_us:0.0} us, p99 {p99_us:0.0}, p99.9 {p999_us:0.0}; "
        "a delta is seen after {visible_ms:0.0} ms at most\n");
    return 0;
}

int bench_score(struct bench *b, struct err *e)
{
    struct score_bench *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "a benchmark");
    x->f = b->figures;
    x->rows = b->o.table_rows > DELTA_ROWS ? b->o.table_rows : DELTA_ROWS;
    x->seconds = 20 * b->o.seconds;
    bench_count(x->f, "rows", x->rows);
    int rc = bench_make_dir(b, x->dir, e);
    if (rc == 0)
        rc = measure(x, b, e);
    if (x->served != NULL)
        served_stop(x->served);
    score_close(x->served);
    served_close(x->served);
    store_close(x->both[0]);
    store_close(x->both[1]);
    bench_remove_dir(x->dir);
    mem_free(x->about);
    mem_free(x->keys);
    mem_free(x->times);
    mem_free(x);
    return rc;
}
