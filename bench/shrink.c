// What a shrink of a large table takes on one core, and how long pushes that come
// meanwhile have to wait: behind a slice of the shrink, and for the partitions of their
// keys.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/store.h"

enum {
    PUSH_KEYS = 64,
    PUSHES = 4096, // drawn beforehand; used again and again
    SLICE_NS = 1000000,
};

struct result {
    uint64_t rows, removed, pushes;
    double whole, sliced; // seconds
    double usual_ms, longest_ms, late;
};

static int shrink_whole(struct store *s, struct result *r, struct err *e)
{
    uint64_t begin = clock_ns();
    TRY(store_order(s, STORE_SHRINK, NAN, e));
    TRY(store_finish(s, e));
    r->whole = (double)(clock_ns() - begin) * 1e-9;
    return 0;
}

// A push arrives at some moment of each slice, and is applied behind it.
static int shrink_sliced(struct store *s, const struct bench_pushes *p, struct result *r,
                         struct err *e)
{
    uint64_t begin = clock_ns();
    bool more = true;
    TRY(store_order(s, STORE_SHRINK, NAN, e));
    for (size_t i = 0; more; i++) {
        uint64_t came = clock_ns();
        more = store_work(s, SLICE_NS);
        TRY(bench_push(s, p, i % p->n, e));
        double ms = (double)(clock_ns() - came) * 1e-6;
        r->longest_ms = ms > r->longest_ms ? ms : r->longest_ms;
        r->late += ms > 10;
        r->pushes++;
    }
    r->sliced = (double)(clock_ns() - begin) * 1e-9;
    return 0;
}

static int usual_push(struct store *s, const struct bench_pushes *p, struct result *r,
                      struct err *e)
{
    uint64_t begin = clock_ns();
    for (size_t i = 0; i < p->n; i++)
        TRY(bench_push(s, p, i, e));
    r->usual_ms = (double)(clock_ns() - begin) * 1e-6 / (double)p->n;
    return 0;
}

static int measure(struct store *s, const struct bench_pushes *p, struct result *r,
                   struct err *e)
{
    TRY(bench_store_fill(s, r->rows, e));
    TRY(usual_push(s, p, r, e));
    TRY(shrink_whole(s, r, e));
    r->removed = r->rows - store_stats(s).rows;
    return shrink_sliced(s, p, r, e);
}

static void print_text(const struct result *r)
{
    printf(
        "shrink  %.1f M rows in %.2f s on one core (ceiling 1 s for 10 M), %.1f M "
        "removed\n"
        "pushes  of %d keys take %.2f ms; while one goes on in slices of %d ms (%.2f s "
        "in all),\n"
        "        the longest of %llu took %.2f ms (ceiling 10), %.0f more than 10 ms\n",
        (double)r->rows * 1e-6, r->whole, (double)r->removed * 1e-6, PUSH_KEYS,
        r->usual_ms, SLICE_NS / 1000000, r->sliced, (unsigned long long)r->pushes,
        r->longest_ms, r->late);
}

static void print_json(const struct result *r)
{
    printf("{\"bench\":\"shrink\",\"rows\":%llu,\"removed\":%llu,\"seconds\":%.3f,"
           "\"sliced_seconds\":%.3f,\"pushes\":%llu,\"push_keys\":%d,"
           "\"usual_push_ms\":%.4f,\"longest_push_ms\":%.3f,\"late\":%.0f}\n",
           (unsigned long long)r->rows, (unsigned long long)r->removed, r->whole,
           r->sliced, (unsigned long long)r->pushes, PUSH_KEYS, r->usual_ms,
           r->longest_ms, r->late);
}

int bench_shrink(struct bench *bench, struct err *e)
{
    const struct bench_options *o = &bench->o;
    struct result r = {.rows = o->table_rows};
    struct bench_pushes p = {0};
    struct bench_draw d;
    struct store *s = NULL;
    int rc = bench_draw_open(&d, o->table_rows, BENCH_ZIPF, e);
    if (rc == 0)
        rc = bench_store_open(&s,
                              "accessor=ctr; dim=8; embedx-threshold=1; deltas=yes; "
                              "delete-threshold=0.05",
                              NULL, e);
    if (rc == 0)
        rc = bench_pushes_make(&p, &d, PUSHES, PUSH_KEYS, store_accessor(s)->push_width,
                               e);
    if (rc == 0)
        rc = measure(s, &p, &r, e);
    if (rc == 0)
        (o->json ? print_json : print_text)(&r);
    bench_pushes_free(&p);
    store_close(s);
    bench_draw_close(&d);
    return rc;
}
