// See bench_store.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "bench/store.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"

enum { PARTITIONS = 1 << BENCH_PARTITION_BITS, FILL_KEYS = 1 << 16 };

uint32_t bench_partition(uint64_t key)
{
    return (uint32_t)(mix64(key) >> (64 - BENCH_PARTITION_BITS));
}

static void sort_by_partition(const uint64_t *keys, size_t n, uint64_t *ret)
{
    static uint32_t at[PARTITIONS + 1];
    memset(at, 0, sizeof(at));
    for (size_t i = 0; i < n; i++)
        at[bench_partition(keys[i]) + 1]++;
    for (uint32_t p = 0; p < PARTITIONS; p++)
        at[p + 1] += at[p];
    for (size_t i = 0; i < n; i++)
        ret[at[bench_partition(keys[i])]++] = keys[i];
}

// Zipf's law by rejection-inversion (Hoermann & Derflinger 1996): H is the integral of
// x^-s.

static double integral(double s, double x)
{
    return (pow(x, 1 - s) - 1) / (1 - s);
}

static double inverse(double s, double y)
{
    return pow(1 + y * (1 - s), 1 / (1 - s));
}

static uint64_t draw_rank(struct bench_draw *d)
{
    double s = d->exponent;
    if (s == 0)
        return random_below(d->seed, 0, d->at++, d->n_keys);
    for (;;) {
        double u = d->high + random_f64(d->seed, 0, d->at++) * (d->low - d->high);
        double x = inverse(s, u), k = floor(x + 0.5);
        k = k < 1 ? 1 : k > (double)d->n_keys ? (double)d->n_keys : k;
        if (k - x <= d->skip || u >= integral(s, k + 0.5) - pow(k, -s))
            return (uint64_t)k - 1;
    }
}

int bench_draw_open(struct bench_draw *d, uint64_t n_keys, double exponent, struct err *e)
{
    *d = (struct bench_draw){.n_keys = n_keys, .seed = 1, .exponent = exponent};
    d->seen = mem_zalloc(n_keys * sizeof(*d->seen));
    if (d->seen == NULL)
        return err_nomem(e, "draws of keys");
    if (exponent != 0) {
        d->low = integral(exponent, 1.5) - 1;
        d->high = integral(exponent, (double)n_keys + 0.5);
        d->skip = 2 - inverse(exponent, integral(exponent, 2.5) - pow(2, -exponent));
    }
    return 0;
}

void bench_draw_close(struct bench_draw *d)
{
    mem_free(d->seen);
}

size_t bench_draw_keys(struct bench_draw *d, size_t n, uint64_t *ret)
{
    static uint64_t drawn[FILL_KEYS];
    size_t kept = 0;
    d->round++;
    for (size_t i = 0; i < n && i < FILL_KEYS; i++) {
        uint64_t rank = draw_rank(d);
        if (d->seen[rank] != d->round)
            drawn[kept++] = bench_key(rank);
        d->seen[rank] = d->round;
    }
    sort_by_partition(drawn, kept, ret);
    return kept;
}

size_t bench_next_keys(uint64_t *at, uint64_t n_keys, size_t n, uint64_t *ret)
{
    static uint64_t next[FILL_KEYS];
    size_t kept = 0;
    for (; kept < n && kept < FILL_KEYS && *at < n_keys; (*at)++)
        next[kept++] = bench_key(*at);
    sort_by_partition(next, kept, ret);
    return kept;
}

int bench_pushes_make(struct bench_pushes *p, struct bench_draw *d, size_t n,
                      size_t draws, uint32_t width, struct err *e)
{
    *p = (struct bench_pushes){.n = n};
    p->keys = mem_array(n * draws, sizeof(*p->keys));
    p->begin = mem_array(n + 1, sizeof(*p->begin));
    p->values = mem_array(draws * width, sizeof(*p->values));
    if (p->keys == NULL || p->begin == NULL || p->values == NULL) {
        bench_pushes_free(p);
        return err_nomem(e, "pushes to measure");
    }
    p->begin[0] = 0;
    for (size_t i = 0; i < n; i++)
        p->begin[i + 1] = p->begin[i] + bench_draw_keys(d, draws, p->keys + p->begin[i]);
    for (size_t i = 0; i < draws * width; i++) // small gradients; shows and clicks alike
        p->values[i] = (float)(1 + i % 7) * 0.1F;
    return 0;
}

void bench_pushes_free(struct bench_pushes *p)
{
    mem_free(p->keys);
    mem_free(p->begin);
    mem_free(p->values);
    *p = (struct bench_pushes){0};
}

int bench_push(struct store *s, const struct bench_pushes *p, size_t i, struct err *e)
{
    struct store_push push = {.op = STORE_GRADIENT,
                              .keys = p->keys + p->begin[i],
                              .n = bench_pushes_keys(p, i),
                              .values = p->values,
                              .rate = 1,
                              .scale = 1};
    return store_push(s, &push, NULL, e);
}

int bench_store_open(struct store **ret, const char *settings, const char *cold_dir,
                     struct err *e)
{
    struct table_config c = table_config_defaults();
    TRY(table_config_parse(&c, settings, e));
    TRY(table_config_check(&c, e));
    struct store_options o = {.config = &c,
                              .id = 1,
                              .partition_bits = BENCH_PARTITION_BITS,
                              .cold_dir = cold_dir};
    return store_open(ret, &o, e);
}

static void fill_values(const struct accessor *a, size_t n, float *values)
{
    for (size_t i = 0; i < n; i++) {
        float *v = values + i * a->push_width;
        for (uint32_t c = 0; c < a->push_width; c++)
            v[c] = c + a->pushed_stats < a->push_width ? 0.01F : 1;
        if (a->pushed_stats < 2)
            continue;
        float *stats = v + a->push_width - a->pushed_stats;
        stats[0] = i % 16 == 0 ? 0.4F : 1; // shows
        stats[1] = (float)(i & 1);         // clicks
    }
}

int bench_store_fill(struct store *s, uint64_t n, struct err *e)
{
    const struct accessor *a = store_accessor(s);
    uint64_t *keys = mem_array(FILL_KEYS, sizeof(*keys));
    float *values = mem_array((size_t)FILL_KEYS * a->push_width, sizeof(*values));
    int rc = keys == NULL || values == NULL ? err_nomem(e, "a table to measure") : 0;
    if (rc == 0)
        fill_values(a, FILL_KEYS, values);
    for (uint64_t at = 0; at < n && rc == 0;) {
        struct store_push p = {
            .op = STORE_GRADIENT, .keys = keys, .values = values, .rate = 1, .scale = 1};
        p.n = bench_next_keys(&at, n, FILL_KEYS, keys);
        rc = store_push(s, &p, NULL, e);
    }
    mem_free(keys);
    mem_free(values);
    return rc;
}
