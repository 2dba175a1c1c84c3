// Tables and traffic for benchmarks; see store.h.
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

int bench_draw_open(struct bench_draw *d, uint64_t n_keys, double exponent, uint64_t seed,
                    struct err *e)
{
    *d = (struct bench_draw){.n_keys = n_keys, .seed = seed, .exponent = exponent};
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

// ---------------------------------------------------------------- tables

int bench_rows_open(struct bench_rows *x, const char *settings, const char *cold_dir,
                    uint64_t n, struct err *e)
{
    struct table_config c = table_config_defaults();
    *x = (struct bench_rows){.n = n};
    TRY(table_config_parse(&c, settings, e));
    TRY(table_config_check(&c, e));
    struct store_options o = {.config = &c,
                              .id = 1,
                              .partition_bits = BENCH_PARTITION_BITS,
                              .cold_dir = cold_dir};
    return store_open(&x->s, &o, e);
}

static int push(struct store *s, const uint64_t *keys, size_t n, const float *values,
                struct err *e)
{
    struct store_push p = {.op = STORE_GRADIENT,
                           .keys = keys,
                           .n = n,
                           .values = values,
                           .rate = 1,
                           .scale = 1};
    return store_push(s, &p, NULL, e);
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

int bench_rows_fill(struct bench_rows *x, struct err *e)
{
    static uint64_t keys[FILL_KEYS];
    const struct accessor *a = store_accessor(x->s);
    float *values = mem_array((size_t)FILL_KEYS * a->push_width, sizeof(*values));
    if (values == NULL)
        return err_nomem(e, "a table to measure");
    fill_values(a, FILL_KEYS, values);
    int rc = 0;
    for (uint64_t at = 0; at < x->n && rc == 0;) {
        size_t n = bench_next_keys(&at, x->n, FILL_KEYS, keys);
        rc = push(x->s, keys, n, values, e);
    }
    mem_free(values);
    return rc;
}

static void free_pushes(struct bench_rows *x)
{
    mem_free(x->keys);
    mem_free(x->begin);
    mem_free(x->values);
}

void bench_rows_close(struct bench_rows *x)
{
    free_pushes(x);
    store_close(x->s);
    *x = (struct bench_rows){0};
}

// ---------------------------------------------------------------- traffic

int bench_rows_draw(struct bench_rows *x, const struct bench_traffic *t, struct err *e)
{
    struct bench_draw d;
    size_t floats = t->draws * store_accessor(x->s)->push_width;
    free_pushes(x);
    x->n_pushes = t->pushes;
    x->keys = mem_array(t->pushes * t->draws, sizeof(*x->keys));
    x->begin = mem_array(t->pushes + 1, sizeof(*x->begin));
    x->values = mem_array(floats, sizeof(*x->values));
    if (x->keys == NULL || x->begin == NULL || x->values == NULL)
        return err_nomem(e, "pushes to measure");
    TRY(bench_draw_open(&d, x->n, t->exponent, t->seed, e));
    x->begin[0] = 0;
    for (size_t i = 0; i < t->pushes; i++)
        x->begin[i + 1] = x->begin[i] +
                          bench_draw_keys(&d, t->draws, x->keys + x->begin[i]);
    // Gradients are small; shows and clicks get the same values.
    for (size_t i = 0; i < floats; i++)
        x->values[i] = (float)(1 + i % 7) * 0.1F;
    bench_draw_close(&d);
    return 0;
}

int bench_push(const struct bench_rows *x, size_t i, struct err *e)
{
    return push(x->s, x->keys + x->begin[i], bench_push_keys(x, i), x->values, e);
}

int bench_push_range(const struct bench_rows *x, size_t from, size_t to, struct err *e)
{
    for (size_t i = from; i < to; i++)
        TRY(bench_push(x, i, e));
    return 0;
}

int bench_push_all(const struct bench_rows *x, double *ret_rate, struct err *e)
{
    uint64_t begin = clock_ns();
    TRY(bench_push_range(x, 0, x->n_pushes, e));
    *ret_rate = (double)x->begin[x->n_pushes] / bench_since(begin);
    return 0;
}
