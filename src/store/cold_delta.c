// Keeps the facts about rows on disk that deltas need.
//
// A row that has changed since the last base or delta may be demoted before the next one.
// Its key is then noted in `out`; so is the key of a row that a shrink on disk has made
// too weak to be published. The row of a key in `out` is on disk, or in memory and listed
// in store_part.changed, or removed: promoted rows are listed there if they may be in
// `out`. So a delta may find the same row by both lists, which does no harm.
//
// A cut takes `out` when it begins. It keeps the keys of the cold rows that it published,
// for STORE_PUBLISHED, and of those that are left for the next delta. When the cut ends,
// keys that are noted again may belong to rows that have been promoted meanwhile.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "store/cold.h"

enum { OUT_MIN = 1024 };

static void sort_once(struct key_list *l)
{
    uint32_t n = 0;
    if (l->n > 0)
        qsort(l->at, l->n, sizeof(*l->at), compare_u64);
    for (uint32_t i = 0; i < l->n; i++)
        if (n == 0 || l->at[n - 1] != l->at[i])
            l->at[n++] = l->at[i];
    l->n = n;
}

static void drop_list(struct key_list *l)
{
    mem_free(l->at);
    *l = (struct key_list){0};
}

// Makes room for n more keys. Rows that are promoted and demoted repeatedly add the same
// keys again, so a full list is sorted, and repeated keys are dropped. If the list is
// still more than half full, it grows, so that it is sorted rarely.
int cold_reserve_out(struct store *s, uint32_t p, uint32_t n)
{
    struct key_list *out = &s->cold->parts[p].out;
    if (n <= out->cap - out->n)
        return 0;
    if (out->n >= OUT_MIN)
        sort_once(out);
    return key_list_reserve(out, n > out->n ? n : out->n);
}

void cold_note_out(struct store *s, uint32_t p, uint64_t key)
{
    struct key_list *out = &s->cold->parts[p].out;
    assert(out->n < out->cap); // cold_reserve_out was called
    out->at[out->n++] = key;
}

void cold_loaded(struct store *s)
{
    for (uint32_t p = 0; p < s->n_parts; p++)
        s->cold->parts[p].out.n = 0;
}

void cold_cut_begin(struct store *s)
{
    for (uint32_t p = 0; p < s->n_parts; p++) {
        struct cold_part *part = &s->cold->parts[p];
        if (s->parts[p].backup)
            continue;
        // cold_cut_end has emptied the list at the end of the previous cut.
        assert(part->cut_out.at == NULL);
        part->cut_out = part->out;
        part->out = (struct key_list){0};
    }
}

void cold_cut_open(struct store *s, uint32_t p)
{
    sort_once(&s->cold->parts[p].cut_out);
    s->cold->parts[p].cut_published.n = 0;
    s->cold->parts[p].cut_kept.n = 0;
}

int cold_cut_published(struct store *s, uint32_t p, uint64_t key)
{
    return key_list_add(&s->cold->parts[p].cut_published, key);
}

int cold_cut_kept(struct store *s, uint32_t p, uint64_t key)
{
    return key_list_add(&s->cold->parts[p].cut_kept, key);
}

// Records keys again for the next delta. If a key's row was promoted meanwhile, records
// the row in memory instead.
static int note_again(struct store *s, uint32_t p, struct key_list *keys)
{
    enum { CHUNK = 256 };
    uint32_t handles[CHUNK];
    TRY(cold_reserve_out(s, p, keys->n));
    while (keys->n > 0) { // each key is removed from `keys` once it was recorded
        uint32_t n = keys->n < CHUNK ? keys->n : CHUNK;
        const uint64_t *at = keys->at + keys->n - n;
        table_find(s->rows, at, n, handles);
        for (uint32_t i = 0; i < n; i++)
            if (handles[i] != TABLE_NONE)
                TRY(store_note(s, p, &handles[i], 1, NULL));
        for (uint32_t i = 0; i < n; i++)
            if (handles[i] == TABLE_NONE)
                cold_note_out(s, p, at[i]);
        keys->n -= n;
    }
    return 0;
}

int cold_cut_end(struct store *s, bool committed)
{
    for (uint32_t p = 0; p < s->n_parts; p++) {
        struct cold_part *part = &s->cold->parts[p];
        if (cut_has(s, p))
            TRY(note_again(s, p, committed ? &part->cut_kept : &part->cut_out));
    }
    for (uint32_t p = 0; p < s->n_parts; p++) {
        struct cold_part *part = &s->cold->parts[p];
        if (!cut_has(s, p))
            continue;
        drop_list(&part->cut_out);
        drop_list(&part->cut_kept);
        if (committed) {
            drop_list(&part->published);
            part->published = part->cut_published;
            part->cut_published = (struct key_list){0};
        }
        drop_list(&part->cut_published);
    }
    return 0;
}

// Returns whether the key's row has changed and was demoted since its publication. The
// key of such a row stays in the list `out`.
static bool is_out(const struct store *s, uint32_t p, uint64_t key)
{
    const struct key_list *out = &s->cold->parts[p].out;
    assert(out->n < 2 || out->at[0] < out->at[out->n - 1]); // sorted by cold_publish
    return out->n > 0 && bsearch(&key, out->at, out->n, sizeof(key), compare_u64) != NULL;
}

static int publish_row(void *ctx, uint64_t key, float *row, uint32_t size, struct err *e)
{
    const struct cold_at *x = ctx;
    if (is_out(x->s, x->p, key))
        return 0;
    x->s->life->published(&x->s->accessor, row);
    return tier_put(x->s->cold->tier, x->p, key, row, size, e);
}

static void publish_hot(struct store *s, const struct key_list *keys)
{
    for (uint32_t i = 0; i < keys->n; i++) {
        uint32_t h;
        table_find(s->rows, &keys->at[i], 1, &h);
        if (h != TABLE_NONE && !handle_bit(&s->changed, h))
            s->life->published(&s->accessor, store_row_at(s, h));
    }
}

int cold_publish(struct store *s, uint32_t p, struct err *e)
{
    struct key_list *keys = &s->cold->parts[p].published;
    struct cold_at x = {s, p};
    if (keys->n == 0 || s->life->published == NULL)
        return 0;
    sort_once(&s->cold->parts[p].out);
    TRY(cold_visit(s, p, keys->at, keys->n, publish_row, &x, e));
    TRY(tier_write(s->cold->tier, e));
    publish_hot(s, keys);
    drop_list(keys);
    return 0;
}

size_t cold_out_most(const struct store *s, uint32_t p)
{
    const struct cold_part *part = &s->cold->parts[p];
    return (size_t)part->out.n + part->cut_kept.n;
}

int cold_get_out(const struct store *s, uint32_t p, struct buf *to, uint64_t *n)
{
    const struct key_list *out = &s->cold->parts[p].out;
    *n += out->n;
    return buf_add(to, out->at, out->n * sizeof(*out->at));
}

// The rows on disk of a copy of a partition that a save has published.
struct publishing {
    struct store *s;
    uint32_t p;
    struct life_time t;
    struct key_list changed; // sorted keys of rows that have changed since
};

// A base has no rows that are too weak, and a delta has only their keys.
static int publish_unchanged(void *ctx, uint64_t key, float *row, uint32_t size,
                             struct err *e)
{
    const struct publishing *x = ctx;
    struct store *s = x->s;
    const struct key_list *l = &x->changed;
    if ((l->n > 0 && bsearch(&key, l->at, l->n, sizeof(key), compare_u64) != NULL) ||
        (s->life->saved != NULL && !s->life->saved(&s->accessor, row, SAVE_BASE, x->t)))
        return 0;
    memcpy(s->first, row, s->cold->row_bytes);
    s->life->published(&s->accessor, row);
    bool same = memcmp(s->first, row, s->cold->row_bytes) == 0;
    return same ? 0 : tier_put(s->cold->tier, x->p, key, row, size, e);
}

static int publish_copy(struct publishing *x, bool all, struct err *e)
{
    struct store *s = x->s;
    struct cold *c = s->cold;
    const struct key_list *out = &c->parts[x->p].out;
    if (s->life->published == NULL || s->parts[x->p].cold == 0)
        return 0;
    int rc = all ? cold_walk(s, x->p, publish_unchanged, x, e)
                 : cold_visit(s, x->p, out->at, out->n, publish_unchanged, x, e);
    if (rc == 0)
        rc = tier_write(c->tier, e);
    if (rc != 0)
        tier_drop(c->tier);
    return rc;
}

int cold_put_published(struct store *s, uint32_t p, bool all, const uint64_t *changed,
                       size_t n, struct life_time t, struct err *e)
{
    struct publishing x = {.s = s, .p = p, .t = t};
    struct key_list *out = &s->cold->parts[p].out;
    if (key_list_reserve(&x.changed, n) != 0 || key_list_reserve(out, n) != 0) {
        drop_list(&x.changed);
        return err_nomem(e, "the notes of a save");
    }
    if (n > 0)
        memcpy(x.changed.at, changed, n * sizeof(*changed));
    x.changed.n = (uint32_t)n;
    sort_once(&x.changed);
    int rc = publish_copy(&x, all, e);
    out->n = rc == 0 ? 0 : out->n;
    for (uint32_t i = 0; i < x.changed.n && rc == 0; i++) {
        uint32_t h;
        table_find(s->rows, &x.changed.at[i], 1, &h);
        if (h == TABLE_NONE)
            cold_note_out(s, p, x.changed.at[i]);
    }
    drop_list(&x.changed);
    return rc;
}

void cold_free_lists(struct cold_part *part)
{
    drop_list(&part->out);
    drop_list(&part->cut_out);
    drop_list(&part->cut_published);
    drop_list(&part->cut_kept);
    drop_list(&part->published);
}
