// Sums over all workers (tug_all_reduce, tug/metric.h) through a table of counters.
//
// A push has floats, which are exact to 2^24, so a value is sent as LIMBS parts of
// LIMB_BITS bits each; servers add the parts up in doubles.
//
//   the worker of rank 0 clears the table     since a load may have left old sums
//   barrier     then all push
//   barrier     then all pull
//   barrier     then rank 0 clears again      so that no save has the sums
//
// No barrier follows, as the next call begins with rank 0 clearing the table, too.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "doors/tables/tug_client.h"
#include "tug/metric.h"
#include "tug/table.h"

enum { LIMBS = 3, LIMB_BITS = 20, PULLED = 2 * LIMBS, AT_ONCE = 8192 };
#define VALUE_MAX (UINT64_C(1) << (LIMBS * LIMB_BITS))

static int check(struct tug_client *c, uint32_t table, const uint64_t *values, size_t n)
{
    struct tug_table_widths w;
    TRY(tug_table_widths(c, table, &w));
    if (w.push != LIMBS || w.pull != PULLED)
        return err_set(last_error(), TUG_EUSAGE,
                       "sums over workers go through a table of accessor counter and dim "
                       "%d, which table %u is not",
                       LIMBS, table);
    for (size_t i = 0; i < n; i++)
        if (values[i] >= VALUE_MAX)
            return err_set(
                last_error(), TUG_EUSAGE,
                "value %zu is %llu: sums over workers are of values below 2^60", i,
                (unsigned long long)values[i]);
    return 0;
}

static int clear(struct tug_client *c, uint32_t table)
{
    return tug_client_rank(c) == 0 ? tug_clear(c, table) : 0;
}

// Pushes the values [first, first + n), without zeros.
static int push(struct tug_client *c, uint32_t table, const uint64_t *values,
                size_t first, size_t n, uint64_t *keys, float *parts)
{
    size_t used = 0;
    uint64_t ts;
    for (size_t i = first; i < first + n; i++) {
        if (values[i] == 0)
            continue;
        for (int l = 0; l < LIMBS; l++)
            parts[used * LIMBS + (size_t)l] = (float)(values[i] >> (l * LIMB_BITS) &
                                                      ((1u << LIMB_BITS) - 1));
        keys[used++] = i;
    }
    if (used == 0)
        return 0;
    TRY(tug_push(c, table, keys, used, parts, NULL, NULL, &ts));
    return calls_wait_or_cancel(c, ts);
}

static int pull(struct tug_client *c, uint32_t table, uint64_t *values, size_t first,
                size_t n, float *rows)
{
    TRY(tug_pull_range(c, table, first, n, rows));
    for (size_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        bool fits = true;
        for (size_t l = LIMBS; l-- > 0 && fits;) {
            uint64_t part = (uint64_t)tug_count(rows + i * PULLED + 2 * l);
            fits = sum >> (64 - LIMB_BITS) == 0 &&
                   !__builtin_add_overflow(sum << LIMB_BITS, part, &sum);
        }
        if (!fits)
            return err_set(last_error(), TUG_EUSAGE,
                           "values[%zu]: the sum over all workers is 2^64 or more",
                           first + i);
        values[first + i] = sum;
    }
    return 0;
}

static size_t some(size_t at, size_t n)
{
    return n - at < AT_ONCE ? n - at : AT_ONCE;
}

static int reduce(struct tug_client *c, uint32_t table, uint64_t *values, size_t n,
                  uint64_t *keys, float *rows)
{
    TRY(clear(c, table));
    TRY(tug_barrier(c));
    for (size_t at = 0; at < n; at += AT_ONCE)
        TRY(push(c, table, values, at, some(at, n), keys, rows));
    TRY(tug_barrier(c));
    for (size_t at = 0; at < n; at += AT_ONCE)
        TRY(pull(c, table, values, at, some(at, n), rows));
    TRY(tug_barrier(c));
    return clear(c, table);
}

int tug_all_reduce(struct tug_client *c, uint32_t table, uint64_t *values, size_t n)
{
    TRY(calls_may_wait(c));
    TRY(check(c, table, values, n));
    uint64_t *keys = mem_array(AT_ONCE, sizeof(*keys));
    float *rows = mem_array(AT_ONCE, PULLED * sizeof(*rows));
    int rc = keys != NULL && rows != NULL ? reduce(c, table, values, n, keys, rows)
                                          : err_nomem(last_error(), "sums over workers");
    mem_free(keys);
    mem_free(rows);
    return rc;
}
