// The AUC from counts of labels by bucket of probability: tug_auc.c counts in a table,
// tug_metric.c in this process.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_TABLES_AUC_H
#define TUG_DOORS_TABLES_AUC_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { AUC_BUCKETS = 4096 };

static inline int auc_check(float probability, size_t i, struct err *e)
{
    if (probability >= 0 && probability <= 1)
        return 0;
    return err_set(e, TUG_EUSAGE, "prediction %zu is %g, which is not a probability", i,
                   (double)probability);
}

static inline uint32_t auc_bucket(float probability, uint32_t buckets)
{
    float x = probability * (float)buckets;
    return x < (float)buckets ? (uint32_t)x : buckets - 1;
}

// The sums of an AUC, to which buckets are added in ascending order. `pairs` counts the
// pairs of a positive and a negative example in which the positive example has the higher
// score; ties count half. The sums are exact below 2^53. Larger sums are rounded, but in
// the same way each time, because the order of the buckets is fixed.
struct auc_area {
    double negatives, positives, pairs;
};

static inline void auc_add(struct auc_area *a, double negatives, double positives)
{
    a->pairs += positives * (a->negatives + negatives / 2);
    a->negatives += negatives;
    a->positives += positives;
}

static inline double auc_of(const struct auc_area *a)
{
    bool both = a->negatives > 0 && a->positives > 0;
    return both ? a->pairs / (a->negatives * a->positives) : (double)NAN;
}

#endif
