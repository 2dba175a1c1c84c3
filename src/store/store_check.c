// Invariants of a store between two calls, in builds with assertions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef NDEBUG

#include <assert.h>

#include "base/alloc.h"
#include "store/cold.h"
#include "store/cut_internal.h"
#include "store/store_internal.h"

// Checks that the partitions' counts of rows add up to the store's counts. Statistics use
// the store's counts; budgets, shrinks and saves use the partitions'.
static void rows_are_counted(const struct store *s)
{
    uint64_t live = 0, cold = 0, entries = 0;
    for (uint32_t p = 0; p < s->n_parts; p++) {
        const struct store_part *part = &s->parts[p];
        live += part->live;
        cold += part->cold;
        entries += part->entry != NULL ? entry_bytes(part->entry) : 0;
        assert(part->rows.n >= part->live); // each live row is in its partition's list
        assert(part->rows.n <= part->rows.cap);
        assert(part->changed.n <= part->changed.cap && part->gone.n <= part->gone.cap);
        assert(s->config.deltas || (part->changed.n == 0 && part->gone.n == 0));
    }
    assert(s->stats.rows == live);
    assert(s->entry_bytes == entries);
    assert(s->cold != NULL || cold == 0); // without a tier no rows are cold
}

// Checks the state of the admin operation. It is done partition by partition, but earlier
// in a partition that a request needs. Partitions before `admin_at` have done it, and no
// partition has a number above that of the last operation.
static void orders_are_in_order(const struct store *s)
{
    assert(s->admin_at <= s->n_parts);
    for (uint32_t p = 0; p < s->n_parts; p++) {
        assert(s->parts[p].admin <= s->admin_number);
        assert(p >= s->admin_at || s->parts[p].admin == s->admin_number);
    }
    // A cut copies rows before their first change, and an operation changes all rows, so
    // only one of the two may be in progress.
    assert(s->cut == NULL || s->admin_at == s->n_parts);
    assert(s->demote_at <= s->n_parts);
}

// Checks that the ranges of entries of the current partition do not overlap, and that
// partitions that were read out have no copies.
static void cut_is_in_order(const struct store *s, const struct cut *c)
{
    uint64_t states = 0;
    assert(c->at <= s->n_parts && (c->at < s->n_parts || c->stage == CUT_BEGIN));
    if (c->stage != CUT_BEGIN) {
        assert(c->n_extras <= c->rows_at && c->rows_at <= c->n_entries);
        assert(c->extras_at <= c->n_extras && c->n_entries <= c->cap_entries);
        assert(c->gone_at <= c->gone.n);
    }
    for (uint32_t p = 0; p < s->n_parts; p++) {
        const struct cut_part *x = &c->parts[p];
        assert(p >= c->at || (x->copies.n == 0 && x->state.cap == 0));
        states += x->admitted ? x->state.cap : 0;
        // Lists are not packed during a cut, so the rows of the cut are still
        // the first in the list.
        assert(p < c->at || x->n_rows <= s->parts[p].rows.n);
    }
    assert(states == c->state_bytes);
    assert(c->stats.side_peak >= side_bytes(&c->side));
}

// Checks that the limit above which a partition's rows are demoted is at least the
// partition's share. It is more while a save keeps rows in memory.
static void cold_is_in_order(const struct store *s, const struct cold *c)
{
    // If threads update rows in place, the store has no cold tier, because these threads
    // look up rows in memory only.
    assert(!s->steps);
    for (uint32_t p = 0; p < s->n_parts; p++) {
        assert(c->parts[p].limit >= c->share);
        assert(s->config.cold_durable || !c->parts[p].recorded);
        assert(s->config.deltas || c->parts[p].out.n == 0);
    }
}

// Checks that each extra row belongs to a row or is free.
static void extras_are_counted(const struct store *s)
{
    assert(s->accessor.extra_width > 0 || (s->n_extras == 0 && s->extra_free.n == 0));
    assert(s->n_extras <= s->stats.rows);
}

void store_check(const struct store *s)
{
    rows_are_counted(s);
    orders_are_in_order(s);
    extras_are_counted(s);
    if (s->cut != NULL)
        cut_is_in_order(s, s->cut);
    if (s->cold != NULL)
        cold_is_in_order(s, s->cold);
}

// Checks each row of a partition: it belongs to its key's partition, is found by its key,
// and owns its extra row. Returns false if memory is out; the check is then repeated
// another time.
static bool check_partition(struct store *s, uint32_t p, uint64_t *extras)
{
    struct handle_list rows = {0};
    if (store_live_rows(s, p, &rows) != 0)
        return false;
    assert(rows.n == s->parts[p].live);
    for (uint32_t i = 0; i < rows.n; i++) {
        uint64_t key = store_key_at(s, rows.at[i]);
        uint32_t found;
        assert(store_partition_of(s, key) == p);
        table_find(s->rows, &key, 1, &found);
        assert(found == rows.at[i]);
        const float *extra = store_extra_of(s, store_row_at(s, rows.at[i]));
        assert(extra == NULL || table_row_key(extra) == key);
        *extras += extra != NULL;
    }
    mem_free(rows.at);
    return true;
}

void store_check_rows(struct store *s)
{
    uint64_t extras = 0;
    bool all = true;
    store_check(s);
    for (uint32_t p = 0; p < s->n_parts; p++)
        all &= check_partition(s, p, &extras);
    assert(!all || extras == s->n_extras);
}

#else
// This build has no checks. C forbids a file without declarations.
typedef int store_check_is_empty;
#endif
