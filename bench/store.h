// Stores and traffic for benchmarks: tables of keys 0, 1, 2, ... spread over 64 bits, and
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
int bench_draw_open(struct bench_draw *d, uint64_t n_keys, double exponent,
                    struct err *e);
void bench_draw_close(struct bench_draw *d);
uint32_t bench_partition(uint64_t key);
// Draws n times; returns how many distinct keys that gave, by partition.
size_t bench_draw_keys(struct bench_draw *d, size_t n, uint64_t *ret);
// The next n keys in the order of ranks, by partition, from *at on.
size_t bench_next_keys(uint64_t *at, uint64_t n_keys, size_t n, uint64_t *ret);

// Pushes, made beforehand, so that only the store is measured.
struct bench_pushes {
    uint64_t *keys;
    size_t *begin; // n + 1
    size_t n;
    float *values; // of the longest
};
int bench_pushes_make(struct bench_pushes *p, struct bench_draw *d, size_t n,
                      size_t draws, uint32_t width, struct err *e);
void bench_pushes_free(struct bench_pushes *p);
static inline size_t bench_pushes_keys(const struct bench_pushes *p, size_t i)
{
    return p->begin[i + 1] - p->begin[i];
}
int bench_push(struct store *s, const struct bench_pushes *p, size_t i, struct err *e);

int bench_store_open(struct store **ret, const char *settings, const char *cold_dir,
                     struct err *e);
// Rows of the first n keys: each was shown once, every second one was clicked, every
// sixteenth was shown less than once.
int bench_store_fill(struct store *s, uint64_t n, struct err *e);

#endif
