// Bags of rows (tug/bags.h): loops over the entries of bags, with a kernel call of the
// row's width for each.
//
// SPDX-License-Identifier: Apache-2.0
#include "tug/bags.h"

#include <string.h>

#include "base/key_set.h"
#include "kernels/kernels.h"
#include "runtime/last_error.h"

enum { AHEAD = 8 }; // number of entries by which a row's prefetch precedes its use

int tug_distinct(const uint64_t *keys, size_t n, uint64_t *ret_distinct,
                 uint32_t *ret_which, size_t *ret_n)
{
    struct key_set set = {0};
    if (n >> 31 != 0)
        return err_set(last_error(), TUG_EUSAGE, "a batch of %zu keys is too large", n);
    if (key_set_reserve(&set, n) != 0)
        return err_nomem(last_error(), "the distinct keys of a batch");
    *ret_n = key_set_number(&set, keys, n, ret_distinct, ret_which);
    key_set_fini(&set);
    return 0;
}

static size_t begin_of(const struct tug_bags *b, size_t bag)
{
    return b->offsets != NULL ? (size_t)b->offsets[bag] : bag;
}

static const float *bags_row_of(const struct tug_bags *b, const float *rows, size_t entry)
{
    return rows + (size_t)b->which[entry] * b->width;
}

static float weight_of(const struct tug_bags *b, size_t entry)
{
    return b->weights != NULL ? b->weights[entry] : 1;
}

static void prefetch(const struct tug_bags *b, const float *rows, size_t entry,
                     size_t entries)
{
    if (entry + AHEAD < entries)
        __builtin_prefetch(bags_row_of(b, rows, entry + AHEAD));
}

void tug_bags_pool(const struct tug_bags *b, const float *rows, float *ret)
{
    const struct kernels *k = kernels_get();
    size_t entries = begin_of(b, b->n);
    memset(ret, 0, b->n * b->width * sizeof(*ret));
    for (size_t bag = 0; bag < b->n; bag++, ret += b->width)
        for (size_t i = begin_of(b, bag); i < begin_of(b, bag + 1); i++) {
            prefetch(b, rows, i, entries);
            k->axpy(ret, weight_of(b, i), bags_row_of(b, rows, i), b->width);
        }
}

void tug_bags_spread(const struct tug_bags *b, const float *bags, float *rows)
{
    const struct kernels *k = kernels_get();
    size_t entries = begin_of(b, b->n);
    for (size_t bag = 0; bag < b->n; bag++, bags += b->width)
        for (size_t i = begin_of(b, bag); i < begin_of(b, bag + 1); i++) {
            prefetch(b, rows, i, entries);
            k->axpy(rows + (size_t)b->which[i] * b->width, weight_of(b, i), bags,
                    b->width);
        }
}

void tug_bags_weigh(const struct tug_bags *b, const float *rows, const float *bags,
                    float *ret)
{
    const struct kernels *k = kernels_get();
    size_t entries = begin_of(b, b->n);
    for (size_t bag = 0; bag < b->n; bag++, bags += b->width)
        for (size_t i = begin_of(b, bag); i < begin_of(b, bag + 1); i++) {
            prefetch(b, rows, i, entries);
            ret[i] = k->dot(bags_row_of(b, rows, i), bags, b->width);
        }
}
