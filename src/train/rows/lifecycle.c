// Models on rows with a feature lifecycle; see lifecycle.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/lifecycle.h"

#include "base/relaxed.h"

int lifecycle_model(const struct table_config *t, const struct model *m,
                    struct model *ret, struct err *e)
{
    *ret = *m;
    return accessor_make(&ret->accessor, &t->accessor, e);
}

void lifecycle_put(const struct accessor *pulled, const struct accessor *own,
                   const float *values, float *ret_row)
{
    values += pulled->pulled_stats;
    for (uint32_t g = 0; g < own->n_groups; g++) {
        relaxed_store_n(ret_row + own->groups[g].weights, values, own->groups[g].n);
        values += own->groups[g].n;
    }
    if (own->count != ACCESSOR_NO_COUNT)
        relaxed_store(ret_row + own->count, 1);
}

void lifecycle_copy_row(const struct accessor *from, const struct accessor *own,
                        const float *row, const float *extra, float *ret_row)
{
    for (uint32_t g = 0; g < own->n_groups; g++) {
        const struct accessor_group *group = &own->groups[g];
        const float *weights = g == 0 ? row : extra;
        for (uint32_t i = 0; i < group->n; i++)
            relaxed_store(ret_row + group->weights + i,
                          weights != NULL
                              ? relaxed_load(weights + from->groups[g].weights + i)
                              : 0);
    }
    if (own->count != ACCESSOR_NO_COUNT)
        relaxed_store(ret_row + own->count, 1);
}
