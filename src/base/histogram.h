// Counts times in fixed buckets, each twice as wide as the one before: from 64 us to 8 s.
// One loop adds to a histogram, without a lock; adding costs a few instructions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_HISTOGRAM_H
#define TUG_BASE_HISTOGRAM_H

#include <stdint.h>

enum {
    HISTOGRAM_FIRST_NS =
        64000, // the first upper bound; each further one is twice as high
    HISTOGRAM_BOUNDS = 18,
    HISTOGRAM_BUCKETS = HISTOGRAM_BOUNDS + 1, // the last one is for all longer times
};

struct histogram {
    uint64_t ns; // sum of the times
    // Numbers of times; bucket i counts the times above bound i - 1 that are at most
    // bound i.
    uint64_t bucket[HISTOGRAM_BUCKETS];
};

static inline uint32_t histogram_bucket(uint64_t ns)
{
    // Without the 1 a time that is equal to its bound would count as longer.
    uint64_t firsts = ns != 0 ? (ns - 1) / HISTOGRAM_FIRST_NS : 0;
    uint32_t i = firsts != 0 ? 64 - (uint32_t)__builtin_clzll(firsts) : 0;
    return i < HISTOGRAM_BOUNDS ? i : HISTOGRAM_BOUNDS;
}

static inline void histogram_add(struct histogram *h, uint64_t ns)
{
    h->ns += ns;
    h->bucket[histogram_bucket(ns)]++;
}

// Returns the upper bound of bucket i < HISTOGRAM_BOUNDS, in seconds.
double histogram_bound(uint32_t i);

uint64_t histogram_count(const struct histogram *h);

// Returns the time in seconds that the share `q` (0 to 1) of the times does not exceed,
// as Prometheus estimates it: it interpolates linearly within a bucket, and takes the
// last bound for longer times. NAN if nothing was counted.
double histogram_quantile(const struct histogram *h, double q);

struct json_out;
// Writes "count", "seconds" and "buckets" into an open object. histogram_print_bounds
// writes the array of bounds under `name`.
void histogram_print(const struct histogram *h, struct json_out *o);
void histogram_print_bounds(struct json_out *o, const char *name);

#endif
