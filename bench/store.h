// Tables and traffic for benchmarks: keys of ranks 0, 1, 2, ... that are spread over 64
// bits, and random draws of them, uniform or by Zipf's law. Drawn keys are distinct and
// sorted by partition, as pushes need them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_STORE_H
#define TUG_BENCH_STORE_H

#include "bench/bench.h"
#include "store/store.h"

enum { BENCH_PARTITION_BITS = 10, BENCH_PUSH_KEYS = 4096 };
#define BENCH_ZIPF 1.05 // the exponent of Zipf's law

struct bench_draw {
    uint64_t n_keys;
    uint64_t seed, at;
    double exponent; // exponent of Zipf's law; 0: uniform draws
    uint32_t *seen;  // for each rank, the last round that drew it
    uint32_t round;
    double low, high, skip; // constants of the draws by Zipf's law
};
int bench_draw_open(struct bench_draw *d, uint64_t n_keys, double exponent, uint64_t seed,
                    struct err *e);
void bench_draw_close(struct bench_draw *d);
uint32_t bench_partition(uint64_t key);
// Draws n times. Stores the distinct keys, sorted by partition, and returns their number.
size_t bench_draw_keys(struct bench_draw *d, size_t n, uint64_t *ret);
// Stores the keys of at most n ranks, from rank *at on, sorted by partition. Moves *at
// behind these ranks, and returns the number of keys.
size_t bench_next_keys(uint64_t *at, uint64_t n_keys, size_t n, uint64_t *ret);

// A table of `n` rows, and pushes that are made beforehand, so that only the store is
// measured.
struct bench_rows {
    struct store *s;
    uint64_t n;
    uint64_t *keys;
    size_t *begin; // the index at which each push's keys begin; n_pushes + 1 entries
    size_t n_pushes;
    // The values of the longest push; shorter pushes use the first of these values.
    float *values;
};
// Opens a table without rows. bench_rows_close must follow, also after a failure; it also
// accepts a zeroed struct.
int bench_rows_open(struct bench_rows *x, const char *settings, const char *cold_dir,
                    uint64_t n, struct err *e);
// Creates the rows. Each row has one show, except every sixteenth row, which has 0.4
// shows. Every second row has a click.
int bench_rows_fill(struct bench_rows *x, struct err *e);
void bench_rows_close(struct bench_rows *x);

// The pushes that bench_rows_draw makes in place of earlier ones: `pushes` pushes of
// `draws` draws each.
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
// Makes all pushes, and sets *ret_rate to the keys per second.
int bench_push_all(const struct bench_rows *x, double *ret_rate, struct err *e);

#endif
