// tug bench shrink: measures the time of a shrink of a large table on one core, and how
// long pushes that arrive meanwhile wait: for the present slice of the shrink, and for
// the partitions of their keys.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "bench/bench.h"
#include "bench/store.h"

enum {
    PUSH_KEYS = 64,
    PUSHES = 4096, // pushes that are drawn beforehand and repeated
    SLICE_NS = 1000000,
    LATE_MS = 10,
};

static int shrink_whole(const struct bench_rows *x, json_t *f, struct err *e)
{
    uint64_t begin = clock_ns();
    TRY(store_admin(x->s, STORE_SHRINK, NAN, e));
    TRY(store_finish(x->s, e));
    bench_set(f, "seconds", bench_since(begin));
    bench_count(f, "removed", x->n - store_stats(x->s).rows);
    return 0;
}

// Shrinks in slices. A push arrives at the start of each slice, and is applied after it.
static int shrink_sliced(const struct bench_rows *x, json_t *f, struct err *e)
{
    uint64_t begin = clock_ns(), pushes = 0, late = 0;
    double longest_ms = 0;
    TRY(store_admin(x->s, STORE_SHRINK, NAN, e));
    for (bool more = true; more; pushes++) {
        uint64_t came = clock_ns();
        more = store_work(x->s, SLICE_NS);
        TRY(bench_push(x, pushes % PUSHES, e));
        double ms = bench_since(came) * 1e3;
        longest_ms = fmax(longest_ms, ms);
        late += ms > LATE_MS;
    }
    bench_set(f, "sliced_seconds", bench_since(begin));
    bench_count(f, "pushes", pushes);
    bench_count(f, "push_keys", PUSH_KEYS);
    bench_set(f, "longest_push_ms", longest_ms);
    bench_count(f, "late", late);
    return 0;
}

static int usual_push(const struct bench_rows *x, json_t *f, struct err *e)
{
    uint64_t begin = clock_ns();
    TRY(bench_push_range(x, 0, PUSHES, e));
    bench_set(f, "usual_push_ms", bench_since(begin) * 1e3 / PUSHES);
    return 0;
}

static int measure(struct bench_rows *x, json_t *f, struct err *e)
{
    static const struct bench_traffic traffic = {BENCH_ZIPF, 1, PUSHES, PUSH_KEYS};
    TRY(bench_rows_draw(x, &traffic, e));
    TRY(bench_rows_fill(x, e));
    bench_count(f, "rows", x->n);
    TRY(usual_push(x, f, e));
    TRY(shrink_whole(x, f, e));
    return shrink_sliced(x, f, e);
}

static const char text[] =
    "shrink  {rows:.1M} M rows in {seconds:.2} s on one core (ceiling 1 s for 10 M), "
    "{removed:.1M} M removed\n"
    "pushes  of {push_keys} keys take {usual_push_ms:.2} ms; while one goes on in slices "
    "of 1 ms ({sliced_seconds:.2} s in all),\n"
    "        the longest of {pushes} took {longest_push_ms:.2} ms (ceiling 10), {late} "
    "more than 10 ms\n";

int bench_shrink(struct bench *b, struct err *e)
{
    struct bench_rows x;
    int rc = bench_rows_open(&x,
                             "accessor=ctr; dim=8; embedx-threshold=1; deltas=yes; "
                             "delete-threshold=0.05",
                             NULL, b->o.table_rows, e);
    if (rc == 0)
        rc = measure(&x, b->figures, e);
    if (rc == 0)
        bench_print(b, b->figures, text);
    bench_rows_close(&x);
    return rc;
}
