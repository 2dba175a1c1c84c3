// tug bench tier: a table with a tenth of its rows in memory and the others on disk, with
// traffic by Zipf's law, compared with two other designs:
//
//   computed   the computed rate of a table with all rows in memory, plus the time that
//   RocksDB takes to get and put, in batches, the keys that a tiered table does not have
//   in memory
//   straight   all rows in RocksDB, which gets and puts them for each push
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "bench/bench.h"
#include "bench/store.h"
#include "cold/tier.h"

enum {
    WARM_PUSHES = 500,
    PUSHES = 300,
    STRAIGHT_PUSHES = 30,
    DISK_KEYS = 1024, // keys of a batch that RocksDB gets and puts
    DISK_BATCHES = 60,
};

struct tier_bench {
    json_t *f;
    uint64_t n, hot;
    char dir[FILE_PATH_MAX], cold[FILE_PATH_MAX], disk[FILE_PATH_MAX];
    struct tier *tier;
    char *row;
    uint32_t row_bytes;
    // A batch of keys on disk.
    uint64_t keys[BENCH_PUSH_KEYS];
    uint32_t partitions[BENCH_PUSH_KEYS], sizes[BENCH_PUSH_KEYS];
    uint8_t found[BENCH_PUSH_KEYS];
    const void *rows[BENCH_PUSH_KEYS];
};

// Pulls and pushes the batches `from` to `to`, as training does.
static int traffic(const struct bench_rows *x, float *values, size_t from, size_t to,
                   struct err *e)
{
    for (size_t i = from; i < to; i++) {
        const uint64_t *keys = x->keys + x->begin[i];
        TRY(store_pull(x->s, keys, bench_push_keys(x, i), values, NULL, e));
        TRY(bench_push(x, i, e));
        while (store_work(x->s, 0)) // this also moves rows to disk
            ;
    }
    return 0;
}

static int measure_traffic(struct tier_bench *x, const struct bench_rows *t,
                           const char *name, struct err *e)
{
    size_t width = store_accessor(t->s)->pull_width, all = WARM_PUSHES + PUSHES;
    double keys = (double)(t->begin[all] - t->begin[WARM_PUSHES]);
    float *values = mem_array(BENCH_PUSH_KEYS * width, sizeof(*values));
    int rc = values == NULL ? err_nomem(e, "pulls to measure")
                            : traffic(t, values, 0, WARM_PUSHES, e);
    uint64_t promoted = store_stats(t->s).promoted, begin = clock_ns();
    if (rc == 0)
        rc = traffic(t, values, WARM_PUSHES, all, e);
    bench_set(x->f, name, keys / bench_since(begin));
    promoted = store_stats(t->s).promoted - promoted;
    if (store_config(t->s)->hot_rows > 0)
        bench_set(x->f, "hit_rate", 1 - (double)promoted / keys);
    mem_free(values);
    return rc;
}

static int measure_store(struct tier_bench *x, const char *cold, const char *name,
                         struct err *e)
{
    static const struct bench_traffic zipf = {BENCH_ZIPF, 1, WARM_PUSHES + PUSHES,
                                              BENCH_PUSH_KEYS};
    char settings[128 + FILE_PATH_MAX];
    struct bench_rows t;
    int len = snprintf(settings, sizeof(settings),
                       "accessor=ctr; dim=8; embedx-threshold=1; ");
    if (cold != NULL)
        snprintf(settings + len, sizeof(settings) - (size_t)len, "hot-rows=%llu; cold=%s",
                 (unsigned long long)x->hot, cold);
    int rc = bench_rows_open(&t, settings, cold, x->n, e);
    if (rc == 0)
        rc = bench_rows_fill(&t, e);
    if (rc == 0)
        rc = bench_rows_draw(&t, &zipf, e);
    if (rc == 0) {
        const struct accessor *a = store_accessor(t.s);
        x->row_bytes = (a->width + a->extra_width) * (uint32_t)sizeof(float);
        rc = measure_traffic(x, &t, name, e);
    }
    bench_rows_close(&t);
    return rc;
}

// ---------------------------------------------------------------- rocksDB alone

static void find_partitions(struct tier_bench *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x->partitions[i] = bench_partition(x->keys[i]);
}

static int get_all(struct tier_bench *x, size_t n, struct err *e)
{
    return tier_get(x->tier, x->partitions, x->keys, n, x->found, x->rows, x->sizes, e);
}

static int put_all(struct tier_bench *x, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        TRY(tier_put(x->tier, x->partitions[i], x->keys[i], x->row, x->row_bytes, e));
    return tier_write(x->tier, e);
}

static int fill_disk(struct tier_bench *x, struct err *e)
{
    struct tier_options o = {.dir = x->disk, .row_bytes = x->row_bytes};
    TRY(tier_open(&x->tier, &o, e));
    x->row = mem_zalloc(x->row_bytes);
    if (x->row == NULL)
        return err_nomem(e, "a row to measure");
    for (uint64_t at = 0; at < x->n;) {
        size_t n = bench_next_keys(&at, x->n, BENCH_PUSH_KEYS, x->keys);
        find_partitions(x, n);
        TRY(put_all(x, n, e));
    }
    return tier_flush(x->tier, e);
}

// Gets and puts `batches` batches. Sets ret_ns to the nanoseconds per key of a get and of
// a put.
static int get_and_put(struct tier_bench *x, struct bench_draw *d, uint32_t batches,
                       size_t draws, double ret_ns[2], struct err *e)
{
    double get = 0, put = 0, keys = 0;
    for (uint32_t i = 0; i < batches; i++) {
        size_t n = bench_draw_keys(d, draws, x->keys);
        find_partitions(x, n);
        uint64_t begin = clock_ns();
        TRY(get_all(x, n, e));
        get += bench_since(begin);
        begin = clock_ns();
        TRY(put_all(x, n, e));
        put += bench_since(begin);
        keys += (double)n;
    }
    ret_ns[0] = get / keys * 1e9;
    ret_ns[1] = put / keys * 1e9;
    return 0;
}

static int measure_disk(struct tier_bench *x, double exponent, uint32_t batches,
                        size_t draws, double ret_ns[2], struct err *e)
{
    struct bench_draw d;
    TRY(bench_draw_open(&d, x->n, exponent, 2, e));
    int rc = get_and_put(x, &d, batches, draws, ret_ns, e);
    bench_draw_close(&d);
    return rc;
}

// Measures RocksDB twice. For computed_per_second the draws are uniform, because keys
// that are not in memory are almost equally frequent. For straight_per_second they follow
// Zipf's law, with as many draws as for a push.
static int measure_rocksdb(struct tier_bench *x, struct err *e)
{
    double ns[2];
    TRY(fill_disk(x, e));
    TRY(measure_disk(x, 0, DISK_BATCHES, DISK_KEYS, ns, e));
    bench_set(x->f, "get_ns", ns[0]);
    bench_set(x->f, "put_ns", ns[1]);
    double seconds = 1 / bench_get(x->f, "memory_per_second") +
                     (1 - bench_get(x->f, "hit_rate")) * (ns[0] + ns[1]) * 1e-9;
    bench_set(x->f, "computed_per_second", 1 / seconds);
    TRY(measure_disk(x, BENCH_ZIPF, STRAIGHT_PUSHES, BENCH_PUSH_KEYS, ns, e));
    bench_set(x->f, "straight_per_second", 1e9 / (ns[0] + ns[1]));
    return 0;
}

static int measure(struct tier_bench *x, struct err *e)
{
    bench_count(x->f, "rows", x->n);
    bench_count(x->f, "hot_rows", x->hot);
    TRY(file_join(x->cold, x->dir, "cold", e));
    TRY(file_join(x->disk, x->dir, "straight", e));
    TRY(measure_store(x, x->cold, "tiered_per_second", e));
    TRY(measure_store(x, NULL, "memory_per_second", e));
    TRY(measure_rocksdb(x, e));
    bench_ratio(x->f, "ratio", "tiered_per_second", "computed_per_second");
    bench_ratio(x->f, "times_straight", "tiered_per_second", "straight_per_second");
    return 0;
}

static const char text[] =
    "tier    {rows:.1M} M rows, {hot_rows:.1M} M of them in memory, zipf 1.05: "
    "{tiered_per_second:.2M} M keys/s pulled and pushed, hit rate {hit_rate:.3}\n"
    "        in memory alone {memory_per_second:.2M} M keys/s; RocksDB {get_ns:.2k} us "
    "to "
    "get a key and {put_ns:.2k} to put it, in batches of 1024\n"
    "        computed from these {computed_per_second:.2M} M keys/s: {ratio:.2} of it "
    "(floor 0.8)\n"
    "        straight on RocksDB {straight_per_second:.2M} M keys/s: {times_straight:.1} "
    "times as fast (floor 5)\n";

int bench_tier(struct bench *b, struct err *e)
{
    static struct tier_bench x;
    x.f = b->figures;
    x.n = b->o.table_rows;
    x.hot = b->o.hot_rows > 0 ? b->o.hot_rows : x.n / 10;
    int rc = bench_make_dir(b, x.dir, e);
    if (rc == 0)
        rc = measure(&x, e);
    if (rc == 0)
        bench_print(b, b->figures, text);
    tier_close(x.tier);
    bench_remove_dir(x.dir);
    mem_free(x.row);
    return rc;
}
