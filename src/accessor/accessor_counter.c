// The accessor "counter": exact counts, where a float would stop counting at 2^24. A row
// has `dim` counters, each a double in the place of two floats, which is exact up to
// 2^53. A push carries an amount for each counter. A pull returns two floats for each
// counter, whose value is the first x 2^24 + the second (tug_count in tug/table.h); they
// hold whole numbers up to 2^48.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "accessor/accessor_internal.h"

enum { FLOATS = 2 }; // number of floats of a counter

static double accessor_counter_get(const float *row, uint32_t counter)
{
    double x;
    memcpy(&x, row + counter * FLOATS, sizeof(x));
    return x;
}

// Adds the pushed amounts. A counter that would become infinite or NaN stays unchanged.
// Amounts are added in every pass, unlike statistics.
static float seen(const struct accessor *a, float *row, const float *amounts, bool again,
                  struct life_time t)
{
    (void)again, (void)t;
    for (uint32_t i = 0; i < a->pushed_stats; i++) {
        double sum = accessor_counter_get(row + a->stats, i) + (double)amounts[i];
        if (isfinite(sum))
            memcpy(row + a->stats + i * FLOATS, &sum, sizeof(sum));
    }
    return 1;
}

static void stats(const struct accessor *a, const float *row, float *ret)
{
    for (uint32_t i = 0; i < a->pushed_stats; i++) {
        double x = accessor_counter_get(row + a->stats, i), high = floor(x * 0x1p-24);
        ret[i * FLOATS] = (float)high;
        ret[i * FLOATS + 1] = (float)(x - high * 0x1p24);
    }
}

static bool accessor_counter_saved(const struct accessor *a, const float *row,
                                   enum save_mode m, struct life_time t)
{
    (void)a, (void)row, (void)m, (void)t;
    return true;
}

static int accessor_counter_layout(const struct accessor_options *o, struct accessor *ret,
                                   struct err *e)
{
    if (o->dim < 1 || o->dim > ACCESSOR_MAX_STATS / FLOATS)
        return err_set(e, TUG_EUSAGE, "a row has 1 to %d counters",
                       ACCESSOR_MAX_STATS / FLOATS);
    *ret = ACCESSOR_EMPTY;
    ret->n_stats = ret->pulled_stats = ret->width = ret->pull_width = o->dim * FLOATS;
    ret->pushed_stats = ret->push_width = o->dim;
    return 0;
}

static enum accessor_number accessor_counter_number(const struct accessor *a,
                                                    uint32_t column)
{
    (void)a, (void)column;
    return NUMBER_DOUBLE;
}

const struct accessor_class class_counter = {
    .name = "counter",
    .about = "exact counts, to 2^48: histograms, statistics of slots, steps",
    .layout = accessor_counter_layout,
    .number = accessor_counter_number,
    .life = {.seen = seen, .saved = accessor_counter_saved, .stats = stats},
};
