// Walks over the rows on disk: for admin operations, saves and the opening of durable
// tiers.
//
// Rows that are also in memory are skipped, because their copies on disk are out of date.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <math.h>
#include <string.h>

#include "store/cold.h"

struct walk {
    struct store *s;
    uint32_t n; // number of rows gathered so far
    cold_row_fn fn;
    void *ctx;
};

static int cold_walk_look_at(struct walk *w, struct err *e)
{
    struct cold_walk *x = &w->s->cold->walk;
    uint32_t n = w->n;
    w->n = 0;
    table_find(w->s->rows, x->keys, n, x->handles);
    for (uint32_t i = 0; i < n; i++) {
        float *row = (float *)(void *)(x->bytes + (size_t)i * x->slot_bytes);
        if (x->handles[i] == TABLE_NONE)
            TRY(w->fn(w->ctx, x->keys[i], row, x->sizes[i], e));
    }
    return 0;
}

static int cold_walk_gather(void *ctx, uint64_t key, const void *row, uint32_t size,
                            struct err *e)
{
    struct walk *w = ctx;
    struct cold_walk *x = &w->s->cold->walk;
    assert(w->n < x->max);
    if (!cold_size_fits(w->s->cold, size))
        return cold_damaged(w->s, key, size, e);
    memcpy(x->bytes + (size_t)w->n * x->slot_bytes, row, size);
    x->keys[w->n] = key;
    x->sizes[w->n++] = size;
    return w->n == x->max ? cold_walk_look_at(w, e) : 0;
}

int cold_walk(struct store *s, uint32_t p, cold_row_fn fn, void *ctx, struct err *e)
{
    struct walk w = {.s = s, .fn = fn, .ctx = ctx};
    TRY(cold_write_waiting(s->cold, e));
    TRY(tier_each(s->cold->tier, p, 0, cold_walk_gather, &w, e));
    return cold_walk_look_at(&w, e);
}

struct each {
    const struct store *s;
    store_row_fn fn;
    void *ctx;
};

static int give_row(void *ctx, uint64_t key, float *row, uint32_t size, struct err *e)
{
    const struct each *x = ctx;
    bool extra = size > x->s->cold->row_bytes;
    return x->fn(x->ctx, key, row, extra ? row + x->s->accessor.width : NULL, e);
}

int cold_each(struct store *s, uint32_t p, store_row_fn fn, void *ctx, struct err *e)
{
    struct each x = {s, fn, ctx};
    return s->parts[p].cold > 0 ? cold_walk(s, p, give_row, &x, e) : 0;
}

int cold_visit(struct store *s, uint32_t p, const uint64_t *keys, uint32_t n,
               cold_row_fn fn, void *ctx, struct err *e)
{
    struct cold *c = s->cold;
    struct cold_fetch *x = &c->fetch;
    TRY(cold_write_waiting(c, e));
    for (uint32_t at = 0, len; at < n; at += len) {
        uint32_t m = 0;
        len = n - at < COLD_FETCH_ROWS ? n - at : COLD_FETCH_ROWS;
        table_find(s->rows, keys + at, len, x->handles);
        for (uint32_t i = 0; i < len; i++) {
            x->keys[m] = keys[at + i];
            x->partitions[m] = p;
            m += x->handles[i] == TABLE_NONE;
        }
        TRY(tier_get(c->tier, x->partitions, x->keys, m, x->found, x->rows, x->sizes, e));
        for (uint32_t i = 0; i < m; i++) {
            if (!x->found[i])
                continue;
            if (!cold_size_fits(c, x->sizes[i]))
                return cold_damaged(s, x->keys[i], x->sizes[i], e);
            memcpy(c->image, x->rows[i], x->sizes[i]);
            TRY(fn(ctx, x->keys[i], (float *)(void *)c->image, x->sizes[i], e));
        }
    }
    return 0;
}

int cold_each_changed(struct store *s, uint32_t p, store_row_fn fn, void *ctx,
                      struct err *e)
{
    struct each x = {s, fn, ctx};
    const struct key_list *keys = &s->cold->parts[p].cut_out;
    return cold_visit(s, p, keys->at, keys->n, give_row, &x, e);
}

// Admin operations.
//
// An admin operation changes all of a partition's rows on disk or none: its changes are
// written together, and counted afterwards.

struct cold_change {
    struct store *s;
    uint32_t p;
    struct life_time t;
    bool fades; // whether a delta must name rows that are no longer worth publishing
    uint32_t removed;
};

// Notes a removed row for deltas. The space for the row's key was reserved.
static void note_gone(const struct cold_change *o, uint64_t key)
{
    struct key_list *gone = &o->s->parts[o->p].gone;
    if (!o->s->config.deltas)
        return;
    assert(gone->n < gone->cap);
    gone->at[gone->n++] = key;
}

// Notes a row for deltas that was worth publishing at or after the last
// shrink, but is not any more.
static int note_faded(const struct cold_change *o, uint64_t key, const float *before,
                      const float *row)
{
    const struct store *s = o->s;
    struct life_time then = {.day = s->cold->parts[o->p].shrunk, .step = o->t.step};
    if (s->life->saved(&s->accessor, row, SAVE_BASE, o->t) ||
        !s->life->saved(&s->accessor, before, SAVE_BASE, then))
        return 0;
    TRY(cold_reserve_out(o->s, o->p, 1));
    cold_note_out(o->s, o->p, key);
    return 0;
}

static int shrink_row(void *ctx, uint64_t key, float *row, uint32_t size, struct err *e)
{
    struct cold_change *o = ctx;
    struct store *s = o->s;
    struct cold *c = s->cold;
    memcpy(c->image, row, size);
    if (s->life->shrink(&s->accessor, row, s->admin_threshold, o->t)) {
        store_count_evicted(s, row, o->t);
        note_gone(o, key);
        o->removed++;
        return tier_delete(c->tier, o->p, key, e);
    }
    if (o->fades && note_faded(o, key, (const float *)(void *)c->image, row) != 0)
        return err_nomem(e, "the list of rows for a table's next delta");
    bool same = memcmp(c->image, row, size) == 0;
    return same ? 0 : tier_put(c->tier, o->p, key, row, size, e);
}

static int clear_row(void *ctx, uint64_t key, float *row, uint32_t size, struct err *e)
{
    struct cold_change *o = ctx;
    (void)row, (void)size, (void)e;
    note_gone(o, key);
    o->removed++;
    return 0;
}

static int cold_walk_shrink(struct cold_change *o, struct err *e)
{
    TRY(cold_walk(o->s, o->p, shrink_row, o, e));
    return tier_write(o->s->cold->tier, e);
}

static int clear(struct cold_change *o, struct err *e)
{
    TRY(cold_walk(o->s, o->p, clear_row, o, e));
    return tier_clear(o->s->cold->tier, o->p, e);
}

int cold_admin(struct store *s, uint32_t p, enum store_admin what, struct life_time t,
               struct err *e)
{
    struct store_part *part = &s->parts[p];
    struct store_stats stats = s->stats;
    uint32_t gone = part->gone.n;
    struct cold_change o = {.s = s, .p = p, .t = t};
    // Empties the batch, so that it has only the changes of this operation.
    TRY(cold_write_waiting(s->cold, e));
    int rc = 0;
    o.fades = s->config.deltas && s->life->saved != NULL && s->accessor.life.decay != 1;
    if (what == STORE_SHRINK && s->life->shrink != NULL)
        rc = cold_walk_shrink(&o, e);
    else if (what == STORE_CLEAR)
        rc = clear(&o, e);
    else if (what == STORE_PUBLISHED)
        rc = cold_publish(s, p, e);
    if (rc != 0) {
        tier_drop(s->cold->tier);
        s->stats = stats;
        part->gone.n = gone;
        return rc;
    }
    assert(o.removed <= part->cold);
    part->cold -= o.removed;
    if (what == STORE_SHRINK)
        s->cold->parts[p].shrunk = o.t.day;
    return 0;
}

int cold_forget_partition(struct store *s, uint32_t p, struct err *e)
{
    struct cold *c = s->cold;
    TRY(cold_write_waiting(c, e));
    if (s->config.cold_durable && c->parts[p].recorded)
        TRY(tier_delete(c->tier, COLD_RECORDS, p, e));
    int rc = tier_clear(c->tier, p, e);
    if (rc != 0) {
        tier_drop(c->tier);
        return rc;
    }
    s->parts[p].cold = 0;
    c->parts[p].recorded = false;
    c->parts[p].out.n = c->parts[p].published.n = 0;
    c->parts[p].hand = c->parts[p].shrunk = 0;
    return 0;
}

// Promotes rows and removes them from memory, so that the cut and the next delta note
// their removal.
static int remove_some(struct store *s, uint32_t p, const uint64_t *keys, uint32_t n,
                       struct err *e)
{
    uint32_t handles[COLD_WALK_ROWS], came = 0, done;
    uint64_t cold[COLD_WALK_ROWS];
    assert(n <= COLD_WALK_ROWS);
    table_find(s->rows, keys, n, handles);
    for (uint32_t i = 0; i < n; i++)
        if (handles[i] == TABLE_NONE)
            cold[came++] = keys[i];
    for (uint32_t i = 0; i < came; i++)
        handles[i] = TABLE_NONE;
    struct store_run run = {.partition = p, .end = came};
    TRY(cold_fetch_runs(s, &run, 1, cold, handles, &done, e));
    n = came;
    came = 0;
    for (uint32_t i = 0; i < n; i++)
        if (handles[i] != TABLE_NONE)
            handles[came++] = handles[i];
    if (came == 0)
        return 0;
    TRY(store_touch(s, p, handles, came, e));
    return store_remove_rows(s, p, handles, came, e);
}

int cold_remove(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                struct err *e)
{
    for (size_t at = 0; at < n; at += COLD_WALK_ROWS) {
        size_t len = n - at < COLD_WALK_ROWS ? n - at : COLD_WALK_ROWS;
        TRY(remove_some(s, p, keys + at, (uint32_t)len, e));
    }
    return 0;
}

// Durable tiers.
//
// While a tier is open, changes of its rows are written to disk at different times,
// and changes of rows in memory are not written at all. So after a crash the rows on
// disk would be from different times. A record marks an open tier as in use. If the
// record is found when the tier is opened, the tier was not closed. IN_USE is the key
// of that record. Keys of the other records in COLD_RECORDS are numbers of
// partitions, which are smaller.
#define IN_USE UINT64_MAX

static int mark_in_use(struct cold *c, struct err *e)
{
    TRY(tier_put(c->tier, COLD_RECORDS, IN_USE, "1", 1, e));
    TRY(tier_write(c->tier, e));
    return tier_flush(c->tier, e);
}

int cold_keep(struct store *s, struct err *e)
{
    struct cold *c = s->cold;
    for (uint32_t p = 0; p < s->n_parts; p++) {
        c->parts[p].recorded = false; // the partition's record is written again, because
                                      // the state of the entry policy has changed
        if (store_live_rows(s, p, &c->sweep) != 0)
            return err_nomem(e, "rows that go to disk");
        uint32_t n = c->sweep.n, at = 0;
        do {
            uint32_t len = n - at < COLD_GO_ROWS ? n - at : COLD_GO_ROWS;
            TRY(cold_put_rows(s, p, c->sweep.at + at, len, e));
            at += len;
        } while (at < n);
    }
    TRY(tier_delete(c->tier, COLD_RECORDS, IN_USE, e));
    TRY(tier_write(c->tier, e));
    c->unwritten = 0;
    return tier_flush(c->tier, e);
}

static int count_row(void *ctx, uint64_t key, const void *row, uint32_t size,
                     struct err *e)
{
    struct cold_change *o = ctx;
    (void)row;
    if (!cold_size_fits(o->s->cold, size))
        return cold_damaged(o->s, key, size, e);
    o->s->parts[o->p].cold++;
    return 0;
}

static int read_record(void *ctx, uint64_t key, const void *bytes, uint32_t size,
                       struct err *e)
{
    struct store *s = ctx;
    if (key == IN_USE)
        return err_set(
            e, TUG_EDATA,
            "the rows in '%s' are from different moments, because the process that used "
            "them ended without closing the table; remove the directory and load a save",
            s->cold->dir);
    // store_put_partition refuses n_parts, which stands for a bad key
    uint32_t p = key < s->n_parts ? (uint32_t)key : s->n_parts;
    TRY(store_put_partition(s, p, bytes, size, e));
    s->cold->parts[p].recorded = true;
    s->cold->parts[p].day = s->cold->parts[p].swept = s->parts[p].day;
    return 0;
}

int cold_find_again(struct store *s, struct err *e)
{
    TRY(tier_each(s->cold->tier, COLD_RECORDS, 0, read_record, s, e));
    for (uint32_t p = 0; p < s->n_parts; p++) {
        struct cold_change o = {.s = s, .p = p};
        TRY(tier_each(s->cold->tier, p, 0, count_row, &o, e));
    }
    return mark_in_use(s->cold, e);
}
