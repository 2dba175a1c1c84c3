// tug bench cluster: pushes and pulls of a cluster on this machine. The workers measure,
// and write their figures into memory that all processes share.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <sys/mman.h>

#include "bench/cluster.h"

struct cluster_bench {
    const struct bench *bench;
    const struct bench_options *o;
    struct bench_figures *figures;
};

// ---------------------------------------------------------------- results

static const char *text_of(const char *name)
{
    if (strstr(name, "start") != NULL)
        return "{name:-28} {p50_us:.1k} ms\n";
    if (strstr(name, "1 key,") == name || strstr(name, "barrier") != NULL)
        return "{name:-28} p50 {p50_us:.1} us, p99 {p99_us:.1} us\n";
    return "{name:-28} {per_second:.2M} M keys/s, p50 {p50_us:.2k} ms, "
           "{bytes_per_key:.1} bytes for a key\n";
}

// Prints the medians of all figures from `first` to `end` that have the first one's name.
// All workers measure at the same time, so the sum of their rates is the median rate
// times the number of workers.
static void print_figure(const struct cluster_bench *b, const struct bench_figure *first,
                         const struct bench_figure *end)
{
    static double rates[BENCH_FIGURES], p50[BENCH_FIGURES], p99[BENCH_FIGURES];
    size_t n = 0;
    for (const struct bench_figure *f = first; f < end; f++)
        if (strcmp(f->name, first->name) == 0) {
            rates[n] = f->rate;
            p50[n] = f->p50;
            p99[n++] = f->p99;
        }
    json_t *row = bench_row(b->bench->figures, "figures");
    (void)json_object_set_new(row, "name", json_string(first->name));
    bench_set(row, "per_second", bench_median(rates, n) * (double)b->o->workers);
    bench_set(row, "p50_us", bench_median(p50, n) * 1e6);
    bench_set(row, "p99_us", bench_median(p99, n) * 1e6);
    bench_set(row, "bytes_per_key", first->bytes);
    bench_print(b->bench, row, text_of(first->name));
}

static void print_figures(const struct cluster_bench *b)
{
    json_t *all = b->bench->figures;
    bench_count(all, "servers", b->o->servers);
    bench_count(all, "workers", b->o->workers);
    bench_count(all, "keys", b->o->keys);
    const struct bench_figure *list = b->figures->list;
    unsigned n = atomic_load(&b->figures->n);
    n = n < BENCH_FIGURES ? n : BENCH_FIGURES;
    for (size_t i = 0; i < n; i++) {
        size_t first = 0;
        while (strcmp(list[first].name, list[i].name) != 0)
            first++;
        if (first == i)
            print_figure(b, &list[i], list + n);
    }
}

int bench_cluster(struct bench *bench, struct err *e)
{
    struct bench_nodes nodes = {.o = &bench->o,
                                .servers = (uint32_t)bench->o.servers,
                                .workers = (uint32_t)bench->o.workers,
                                .partition_bits = ROSTER_PARTITION_BITS,
                                .work = bench_cluster_worker};
    TRY(bench_share(&nodes.shared, sizeof(struct bench_figures), e));
    struct cluster_bench b = {bench, &bench->o, (struct bench_figures *)nodes.shared};
    bool over = false;
    int rc = bench_nodes_open(&nodes, e);
    while (rc == 0 && !over)
        rc = bench_nodes_serve(&nodes, SECOND_NS / 20, &over, e);
    rc = bench_nodes_close(&nodes, rc, e);
    if (rc == 0)
        print_figures(&b);
    munmap(b.figures, sizeof(*b.figures));
    return rc;
}
