// Pulls: rows are looked up in batches and written straight into the memory that is sent.
// A key without a row is answered with its initial values; a pull makes no row.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/rows/pull.h"

#include <string.h>

#include "protocol/bf16.h"
#include "server/clocks/pending.h"
#include "server/room.h"
#include "server/rows/place.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// An answer that is being written.
struct answer {
    const struct shard_table *t;
    // The number of a batch: a group whose next batch has this number answers
    // with the rows as they were before its last batch. 0: all groups answer
    // with the current rows.
    uint64_t before;
    bool whole, bf16;
    uint32_t width; // floats per key
    char *values;   // the place for the next key's values
    uint64_t *found;
    float *strip; // values that are converted to bf16
    size_t max_strip;
};

// Returns the columns of a row that pulls return, as they were before the last batch;
// NULL if the row did not change in that batch.
static const float *row_before(const struct answer *a, uint64_t key)
{
    const struct shard_table *t = a->t;
    const struct sync_group *g = &t->sync;
    if (t->groups != NULL)
        g = sync_group_of(t, store_partition(t->store, key));
    return a->before == g->clock.next ? previous_find(&g->before, a->width, key) : NULL;
}

// Writes the values of at most BATCH keys.
static int write_batch(struct answer *a, const uint64_t *keys, size_t n, uint8_t *found,
                       struct err *e)
{
    size_t strip = a->bf16 && a->width > 0 ? a->max_strip / a->width : n;
    uint8_t *is = a->found != NULL ? found : NULL;
    assert(n <= BATCH && strip > 0); // the strip has room for the longest row
    for (size_t at = 0, len; at < n; at += len) {
        len = n - at < strip ? n - at : strip;
        float *to = a->bf16 ? a->strip : (float *)(void *)a->values;
        TRY((a->whole ? store_pull_rows : store_pull)(a->t->store, keys + at, len, to,
                                                      is != NULL ? is + at : NULL, e));
        for (size_t i = 0; i < len && a->before != 0; i++) {
            const float *was = row_before(a, keys[at + i]);
            if (was != NULL)
                memcpy(to + i * a->width, was, a->width * sizeof(float));
        }
        if (a->bf16)
            bf16_from_n((uint16_t *)(void *)a->values, to, len * a->width);
        a->values += len * a->width * (a->bf16 ? sizeof(uint16_t) : sizeof(float));
    }
    return 0;
}

// Writes the values of keys [begin, end).
static int write_keys(struct answer *a, const struct keys *k, size_t begin, size_t end,
                      struct err *e)
{
    uint8_t found[BATCH];
    for (size_t at = begin, n; at < end; at += n) {
        n = end - at < BATCH ? end - at : BATCH;
        TRY(write_batch(a, k->key + at, n, found, e));
        for (size_t i = 0; i < n && a->found != NULL; i++)
            if (found[i])
                a->found[(at + i) / 64] |= (uint64_t)1 << ((at + i) % 64);
    }
    return 0;
}

// Returns the number of keys in partitions that changed after `version`. If `version` is
// 0, returns the number of all keys.
static uint64_t count_wanted(const struct shard_table *t, const struct keys *k,
                             uint64_t version)
{
    uint64_t n = 0;
    if (version == 0)
        return k->n;
    for (uint32_t r = 0; r < k->n_runs; r++)
        if (t->changed_at[k->runs[r].partition] > version)
            n += k->runs[r + 1].begin - k->runs[r].begin;
    return n;
}

static int write_changed(struct answer *a, const struct keys *k, uint64_t version,
                         uint64_t *changed, struct err *e)
{
    for (uint32_t r = 0; r < k->n_runs; r++) {
        uint32_t p = k->runs[r].partition;
        if (a->t->changed_at[p] <= version)
            continue;
        changed[p / 64] |= (uint64_t)1 << (p % 64);
        TRY(write_keys(a, k, k->runs[r].begin, k->runs[r + 1].begin, e));
    }
    return 0;
}

static uint64_t words_for(uint64_t bits)
{
    return (bits + 63) / 64;
}

uint64_t pull_bytes(const struct shard *s, const struct shard_table *t, uint32_t n,
                    uint8_t flags)
{
    const struct accessor *a = &t->spec.accessor;
    uint64_t width = (flags & WIRE_ROWS_WHOLE) != 0 ? a->width : a->pull_width;
    uint64_t bits = words_for(n) + words_for((uint64_t)1 << s->bits);
    return n * width * ((flags & WIRE_BF16) != 0 ? 2 : 4) + 8 * (bits + 1);
}

enum outcome pull_answer(struct shard *s, struct shard_request *q, struct shard_table *t,
                         const struct keys *k, uint8_t flags, uint64_t version,
                         bool before)
{
    bool whole = (flags & WIRE_ROWS_WHOLE) != 0, bf16 = (flags & WIRE_BF16) != 0;
    bool says = whole || (flags & WIRE_FOUND) != 0;
    uint32_t width = whole ? t->spec.accessor.width : t->spec.accessor.pull_width;
    uint64_t values = count_wanted(t, k, version) * width * (bf16 ? 2 : 4);
    uint64_t found = says ? words_for(k->n) * 8 : 0;
    uint64_t changed = version != 0 ? words_for((uint64_t)1 << s->bits) * 8 : 0;
    struct err e = {0};
    struct van_release release;
    char *memory = NULL;
    assert(!before || (version == 0 && !whole));
    if (whole && !store_has_whole_rows(t->store))
        err_set(&e, TUG_EUSAGE,
                "its rows have a lifecycle, so their whole contents cannot be pulled");
    else if (values > WIRE_SPAN_MAX)
        err_set(&e, TUG_EUSAGE,
                "%u keys of %u floats do not fit into one answer; pull fewer", k->n,
                width);
    else if ((memory = pool_take(s->pool, values + 8 + found + changed, &release)) ==
             NULL)
        err_nomem(&e, "an answer");
    if (e.code != 0) {
        return shard_refuse_keys(s, q, "pull", t, &e);
    }
    uint64_t *bits = (uint64_t *)(void *)(memory + ((values + 7) & ~(uint64_t)7));
    memset(bits, 0, found + changed);
    struct answer a = {.t = t,
                       .before = before ? q->m->pull.clock + 1 : 0,
                       .whole = whole,
                       .bf16 = bf16,
                       .width = width,
                       .values = memory,
                       .found = says ? bits : NULL,
                       .strip = s->strip,
                       .max_strip = s->max_strip};
    if (version == 0)
        write_keys(&a, k, 0, k->n, &e);
    else
        write_changed(&a, k, version, bits + found / 8, &e);
    // As many bytes were written as were announced and reserved.
    assert(e.code != 0 || (uint64_t)(a.values - memory) == values);
    if (e.code != 0) {
        release.release(release.ctx);
        return shard_refuse_keys(s, q, "pull", t, &e);
    }
    struct msg_pulled m = {.n = k->n,
                           .width = width,
                           .flags = flags & (WIRE_BF16 | WIRE_ROWS_WHOLE | WIRE_FOUND),
                           .version = t->version,
                           .values = {memory, values},
                           .found = {bits, says ? (k->n + 7) / 8 : 0},
                           .changed = {bits + found / 8, changed}};
    t->figures.pulls++;
    t->figures.pulled_keys += k->n;
    shard_send(s, q, MSG_PULLED, &m, &release, values + found + changed);
    return ANSWERED;
}

// Returns whether some partition does not have the rows of this clock: an earlier
// batch has not been applied, or the next batch was applied in some partitions only.
// An idle group (sync_is_idle) delays only pulls of its own keys, because pushes of
// these keys may be on their way.
static bool wants_batch(const struct shard_table *t, uint64_t clock, const struct keys *k)
{
    for (const struct sync_group *g = sync_first(t); g != NULL; g = g->next) {
        // If true, the group answers with its copies of the rows from
        // before its last batch.
        bool last = clock + 1 == g->clock.next;
        if (g->away || (sync_is_idle(t, g) && !sync_has_runs(t, g, k)))
            continue;
        if (clock > g->clock.next ||
            (clock != 0 && ((g == &t->sync && t->n_applied != 0) || (last && g->begun))))
            return true;
    }
    return false;
}

// Indexes the copies of rows from before batch `clock`, in the groups that
// applied this batch last. Sets *ret_before if there is such a group. Returns
// false if copies are lost.
static bool index_before(struct shard_table *t, uint64_t clock, bool *ret_before)
{
    for (struct sync_group *g = sync_first(t); g != NULL; g = g->next) {
        if (g->backup || clock == 0 || clock + 1 != g->clock.next)
            continue;
        *ret_before = true;
        if (!previous_index(&g->before))
            return false;
    }
    return true;
}

static enum outcome must_wait(const struct shard_table *t, uint64_t clock,
                              const struct keys *k)
{
    if (t->spec.mode == WIRE_SYNC && wants_batch(t, clock, k))
        return WANTS_BATCH;
    if (t->spec.mode == WIRE_SSP &&
        !ssp_clock_open(&t->ssp, clock, t->spec.config.staleness))
        return WANTS_TICK;
    return GOES_ON;
}

enum outcome pull_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_pull *m = &q->m->pull;
    struct keys_wire wire = {m->flags, m->n, m->list, m->keys};
    struct err e = {0};
    struct keys k;
    struct shard_table *t = tables_find(s, m->table, &e);
    if (t == NULL) {
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    if (keys_read(&s->keys, &q->peer->lists, &wire, t->spec.space, &k, &e) != 0)
        return shard_refuse_keys(s, q, "pull", t, &e);
    enum outcome outcome = place_check(s, q, m->epoch, t, &k, false, &e);
    if (outcome != GOES_ON)
        return outcome;
    if ((outcome = pending_before(s, q, m->table)) != GOES_ON)
        return outcome;
    outcome = must_wait(t, m->clock, &k);
    if (outcome == GOES_ON)
        outcome = room_for(s, q, pull_bytes(s, t, k.n, m->flags), &e);
    if (e.code != 0)
        return shard_refuse_keys(s, q, "pull", t, &e);
    if (outcome != GOES_ON)
        return outcome;
    bool before = false,
         copies = t->spec.mode == WIRE_SYNC && !(m->flags & WIRE_ROWS_WHOLE);
    if (copies && !index_before(t, m->clock, &before)) {
        err_nomem(&e, "the rows before the last batch");
        return shard_refuse_keys(s, q, "pull", t, &e);
    }
    return pull_answer(s, q, t, &k, m->flags, before ? 0 : m->version, before);
}
