// Histograms of times.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"

#include <math.h>

#include "base/json_out.h"

double histogram_bound(uint32_t i)
{
    return (double)((uint64_t)HISTOGRAM_FIRST_NS << i) * 1e-9;
}

uint64_t histogram_count(const struct histogram *h)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        n += h->bucket[i];
    return n;
}

double histogram_quantile(const struct histogram *h, double q)
{
    double rank = q * (double)histogram_count(h), below = 0;
    if (histogram_count(h) == 0)
        return NAN;
    for (uint32_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        double n = (double)h->bucket[i], from = i > 0 ? histogram_bound(i - 1) : 0;
        if (n > 0 && below + n >= rank)
            return from + (histogram_bound(i) - from) * (rank - below) / n;
        below += n;
    }
    return histogram_bound(HISTOGRAM_BOUNDS - 1);
}

void histogram_print(const struct histogram *h, struct json_out *o)
{
    json_out_u64(o, "count", histogram_count(h));
    json_out_real(o, "seconds", 12, (double)h->ns * 1e-9);
    json_out_open(o, "buckets", '[');
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        json_out_u64(o, NULL, h->bucket[i]);
    json_out_close(o, ']');
}

void histogram_print_bounds(struct json_out *o, const char *name)
{
    json_out_open(o, name, '[');
    for (uint32_t i = 0; i < HISTOGRAM_BOUNDS; i++)
        json_out_real(o, NULL, 7, histogram_bound(i));
    json_out_close(o, ']');
}
