// A table of which a tenth is in memory and the rest on disk, under traffic by Zipf's
// law, against two other ways to the same:
//
//   computed   what the traffic costs with all rows in memory, and what RocksDB takes for
//              getting and putting, in batches, those keys that are not there
//   straight   all rows in RocksDB, got and put for each push
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "bench/store.h"
#include "cold/tier.h"

enum {
    WARM_PUSHES = 500,
    PUSHES = 300,
    STRAIGHT_PUSHES = 30,
    DISK_KEYS = 1024, // of a batch that is got and put
    DISK_BATCHES = 60,
};

struct result {
    uint64_t rows, hot_rows;
    double hit_rate;
    double get_ns, put_ns;              // of a key
    double tiered, in_memory, straight; // keys a second
    double computed;
};

struct tier_bench {
    const struct bench_options *o;
    struct result r;
    char dir[FILE_PATH_MAX], cold[FILE_PATH_MAX], disk[FILE_PATH_MAX];
    struct bench_draw draw;
    struct tier *tier;
    char *row;
    uint32_t row_bytes;
    // A batch of keys on disk.
    uint64_t keys[BENCH_PUSH_KEYS];
    uint32_t partitions[BENCH_PUSH_KEYS], sizes[BENCH_PUSH_KEYS];
    uint8_t found[BENCH_PUSH_KEYS];
    const void *rows[BENCH_PUSH_KEYS];
};

static double since(uint64_t begin)
{
    return (double)(clock_ns() - begin) * 1e-9;
}

// Pulls and pushes, as training does.
static int traffic(struct store *s, const struct bench_pushes *p, size_t from, size_t to,
                   double *ret_rate, struct err *e)
{
    size_t width = store_accessor(s)->pull_width;
    float *values = mem_array(BENCH_PUSH_KEYS * width, sizeof(*values));
    int rc = values == NULL ? err_nomem(e, "pulls to measure") : 0;
    uint64_t begin = clock_ns();
    for (size_t i = from; i < to && rc == 0; i++) {
        rc = store_pull(s, p->keys + p->begin[i], bench_pushes_keys(p, i), values, NULL,
                        e);
        if (rc == 0)
            rc = bench_push(s, p, i, e);
        while (rc == 0 && store_work(s, 0)) // what goes out, too
            ;
    }
    *ret_rate = (double)(p->begin[to] - p->begin[from]) / since(begin);
    mem_free(values);
    return rc;
}

static int measure_store(struct tier_bench *x, const char *cold, double *ret_rate,
                         struct err *e)
{
    char settings[128 + FILE_PATH_MAX];
    struct store *s;
    struct bench_pushes p = {0};
    double ignored;
    int len = snprintf(settings, sizeof(settings),
                       "accessor=ctr; dim=8; embedx-threshold=1; ");
    if (cold != NULL)
        snprintf(settings + len, sizeof(settings) - (size_t)len, "hot-rows=%llu; cold=%s",
                 (unsigned long long)x->r.hot_rows, cold);
    TRY(bench_store_open(&s, settings, cold, e));
    int rc = bench_store_fill(s, x->r.rows, e);
    if (rc == 0)
        rc = bench_pushes_make(&p, &x->draw, WARM_PUSHES + PUSHES, BENCH_PUSH_KEYS,
                               store_accessor(s)->push_width, e);
    if (rc == 0)
        rc = traffic(s, &p, 0, WARM_PUSHES, &ignored, e);
    struct store_stats before = store_stats(s);
    if (rc == 0)
        rc = traffic(s, &p, WARM_PUSHES, WARM_PUSHES + PUSHES, ret_rate, e);
    struct store_stats after = store_stats(s);
    double keys = (double)(p.n > 0 ? p.begin[p.n] - p.begin[WARM_PUSHES] : 1);
    if (cold != NULL)
        x->r.hit_rate = 1 - (double)(after.promoted - before.promoted) / keys;
    x->row_bytes = (store_accessor(s)->width + store_accessor(s)->extra_width) *
                   (uint32_t)sizeof(float);
    bench_pushes_free(&p);
    store_close(s);
    return rc;
}

// RocksDB alone.

static int put_all(struct tier_bench *x, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        TRY(tier_put(x->tier, x->partitions[i], x->keys[i], x->row, x->row_bytes, e));
    return tier_write(x->tier, e);
}

static void find_partitions(struct tier_bench *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x->partitions[i] = bench_partition(x->keys[i]);
}

static int fill_disk(struct tier_bench *x, struct err *e)
{
    struct tier_options o = {.dir = x->disk, .row_bytes = x->row_bytes};
    TRY(tier_open(&x->tier, &o, e));
    x->row = mem_zalloc(x->row_bytes);
    if (x->row == NULL)
        return err_nomem(e, "a row to measure");
    for (uint64_t at = 0; at < x->r.rows;) {
        size_t n = bench_next_keys(&at, x->r.rows, BENCH_PUSH_KEYS, x->keys);
        find_partitions(x, n);
        TRY(put_all(x, n, e));
    }
    return tier_flush(x->tier, e);
}

// Some keys, evenly: those that are not in memory are hardly more frequent than others.
static int measure_disk(struct tier_bench *x, struct err *e)
{
    double get = 0, put = 0, keys = 0;
    struct bench_draw even;
    TRY(bench_draw_open(&even, x->r.rows, 0, e));
    int rc = 0;
    for (uint32_t i = 0; i < DISK_BATCHES && rc == 0; i++) {
        size_t n = bench_draw_keys(&even, DISK_KEYS, x->keys);
        find_partitions(x, n);
        uint64_t begin = clock_ns();
        rc = tier_get(x->tier, x->partitions, x->keys, n, x->found, x->rows, x->sizes, e);
        get += since(begin);
        begin = clock_ns();
        if (rc == 0)
            rc = put_all(x, n, e);
        put += since(begin);
        keys += (double)n;
    }
    bench_draw_close(&even);
    x->r.get_ns = get / keys * 1e9;
    x->r.put_ns = put / keys * 1e9;
    return rc;
}

// Changes a float of each row: next to nothing beside getting and putting.
static int measure_straight(struct tier_bench *x, struct err *e)
{
    uint64_t begin = clock_ns(), keys = 0;
    for (uint32_t i = 0; i < STRAIGHT_PUSHES; i++) {
        size_t n = bench_draw_keys(&x->draw, BENCH_PUSH_KEYS, x->keys);
        find_partitions(x, n);
        TRY(tier_get(x->tier, x->partitions, x->keys, n, x->found, x->rows, x->sizes, e));
        TRY(put_all(x, n, e));
        keys += n;
    }
    x->r.straight = (double)keys / since(begin);
    return 0;
}

static int measure(struct tier_bench *x, struct err *e)
{
    struct result *r = &x->r;
    TRY(bench_draw_open(&x->draw, r->rows, BENCH_ZIPF, e));
    TRY(measure_store(x, x->cold, &r->tiered, e));
    TRY(measure_store(x, NULL, &r->in_memory, e));
    TRY(fill_disk(x, e));
    TRY(measure_disk(x, e));
    TRY(measure_straight(x, e));
    double seconds = 1 / r->in_memory +
                     (1 - r->hit_rate) * (r->get_ns + r->put_ns) * 1e-9;
    r->computed = 1 / seconds;
    return 0;
}

static void print_text(const struct result *r)
{
    printf(
        "tier    %.1f M rows, %.1f M of them in memory, zipf %.2f: %.2f M keys/s pulled "
        "and pushed, hit rate %.3f\n"
        "        in memory alone %.2f M keys/s; RocksDB %.2f us to get a key and %.2f to "
        "put it, in batches of %d\n"
        "        computed from these %.2f M keys/s: %.2f of it (floor 0.8)\n"
        "        straight on RocksDB %.2f M keys/s: %.1f times as fast (floor 5)\n",
        (double)r->rows * 1e-6, (double)r->hot_rows * 1e-6, BENCH_ZIPF, r->tiered * 1e-6,
        r->hit_rate, r->in_memory * 1e-6, r->get_ns * 1e-3, r->put_ns * 1e-3, DISK_KEYS,
        r->computed * 1e-6, r->tiered / r->computed, r->straight * 1e-6,
        r->tiered / r->straight);
}

static void print_json(const struct result *r)
{
    printf("{\"bench\":\"tier\",\"rows\":%llu,\"hot_rows\":%llu,\"hit_rate\":%.4f,"
           "\"tiered_per_second\":%.0f,\"memory_per_second\":%.0f,\"get_ns\":%.0f,"
           "\"put_ns\":%.0f,\"computed_per_second\":%.0f,\"ratio\":%.3f,"
           "\"straight_per_second\":%.0f,\"times_straight\":%.2f}\n",
           (unsigned long long)r->rows, (unsigned long long)r->hot_rows, r->hit_rate,
           r->tiered, r->in_memory, r->get_ns, r->put_ns, r->computed,
           r->tiered / r->computed, r->straight, r->tiered / r->straight);
}

int bench_tier(struct bench *bench, struct err *e)
{
    const struct bench_options *o = &bench->o;
    struct tier_bench *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "a benchmark");
    x->r.rows = o->table_rows;
    x->r.hot_rows = o->hot_rows > 0 ? o->hot_rows : o->table_rows / 10;
    int rc = bench_make_dir(bench, x->dir, e);
    if (rc == 0)
        rc = file_join(x->cold, x->dir, "cold", e);
    if (rc == 0)
        rc = file_join(x->disk, x->dir, "straight", e);
    if (rc == 0)
        rc = measure(x, e);
    if (rc == 0)
        (o->json ? print_json : print_text)(&x->r);
    tier_close(x->tier);
    bench_remove_dir(x->dir);
    bench_draw_close(&x->draw);
    mem_free(x->row);
    mem_free(x);
    return rc;
}
