// Tables and traffic for benchmarks: keys 0, 1, 2, ... spread over 64 bits, and
// draws of them, evenly or by Zipf's law, as pushes want them: distinct, by partition.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_STORE_H
#define TUG_BENCH_STORE_H

#include "bench/bench.h"
#include "store/store.h"

enum { BENCH_PARTITION_BITS = 10, BENCH_PUSH_KEYS = 4096 };
#define BENCH_ZIPF 1.05 // exponent

struct bench_draw {
    uint64_t n_keys;
    uint64_t seed, at;
    double exponent; // 0: evenly
    uint32_t *seen;  // by key: the last draw that it was in
    uint32_t round;
    double low, high, skip; // of the zipf
};
int bench_draw_open(struct bench_draw *d, uint64_t n_keys, double exponent, uint64_t seed,
                    struct err *e);
void bench_draw_close(struct bench_draw *d);
uint32_t bench_partition(uint64_t key);
// Draws n times; returns how many distinct keys that gave, by partition.
size_t bench_draw_keys(struct bench_draw *d, size_t n, uint64_t *ret);
// The next n keys in the order of ranks, by partition, from *at on.
size_t bench_next_keys(uint64_t *at, uint64_t n_keys, size_t n, uint64_t *ret);

// A table of `n` rows, and pushes to it that were made beforehand, so that only the store
// is measured.
struct bench_rows {
    struct store *s;
    uint64_t n;
    uint64_t *keys;
    size_t *begin; // n_pushes + 1
    size_t n_pushes;
    float *values; // of the longest
};
// Without rows. Closed also after a failure, as a zeroed one may be.
int bench_rows_open(struct bench_rows *x, const char *settings, const char *cold_dir,
                    uint64_t n, struct err *e);
// Makes the rows: each was shown once, every second one was clicked, every sixteenth was
// shown less than once.
int bench_rows_fill(struct bench_rows *x, struct err *e);
void bench_rows_close(struct bench_rows *x);

// Pushes of so many draws each, in place of those before.
struct bench_traffic {
    double exponent;
    uint64_t seed;
    size_t pushes, draws;
};
int bench_rows_draw(struct bench_rows *x, const struct bench_traffic *t, struct err *e);
static inline size_t bench_push_keys(const struct bench_rows *x, size_t i)
{
    return x->begin[i + 1] - x->begin[i];
}
int bench_push(const struct bench_rows *x, size_t i, struct err *e);
int bench_push_range(const struct bench_rows *x, size_t from, size_t to, struct err *e);
// Of all pushes, in keys a second.
int bench_push_all(const struct bench_rows *x, double *ret_rate, struct err *e);

#endif
