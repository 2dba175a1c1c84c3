// Reads a cut out: partition by partition, block by block.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/compare.h"
#include "store/cut_internal.h"

enum {
    AHEAD = 16, // number of rows that are prefetched ahead
    KEY_BYTES = sizeof(uint64_t),
    STEP_LEAST = 32, // the fewest handles that a call looks at, if there are as many
};

static bool is_copy(const struct table_entry *x)
{
    return (x->handle & CUT_COPY) != 0;
}

static const float *entry_row(const struct store *s, const struct table_entry *x)
{
    return is_copy(x) ? side_row(&s->cut->side, x->handle & ~CUT_COPY)
                      : store_row_at(s, x->handle);
}

static const float *entry_extra(const struct store *s, const struct table_entry *x)
{
    return is_copy(x) ? side_extra(&s->cut->side, x->handle & ~CUT_COPY)
                      : store_extra_of(s, store_row_at(s, x->handle));
}

static bool is_saved(const struct store *s, uint32_t p, const float *row,
                     enum save_mode mode)
{
    if (!cut_publishes(s->cut) || s->life->saved == NULL)
        return true;
    return s->life->saved(&s->accessor, row, mode, cut_time(s->cut, p));
}

static int add_entry(struct cut *c, uint64_t key, uint32_t handle)
{
    TRY(mem_room(&c->entries, &c->cap_entries, c->n_entries + 1));
    c->entries[c->n_entries++] = (struct table_entry){key, handle};
    return 0;
}

// Collects rows of a list, up to its first n handles, that are in memory and have not
// changed since the cut began. If `noted` is true, collects only rows that had changed
// before the cut. *at counts the handles that were looked at; a call looks at most at `most`
// handles, and lowers it.
static int collect_rows(struct store *s, uint32_t p, const struct handle_list *l,
                        uint32_t n, bool noted, uint32_t *at, size_t *most)
{
    struct cut *c = s->cut;
    const uint32_t *handles = l->at;
    // The first n entries are still in place: lists are not packed during a cut.
    assert(n <= l->n);
    for (; *most != 0 && *at < n; ++*at, --*most) {
        uint32_t h = handles[*at];
        if (*at + AHEAD < n)
            __builtin_prefetch((char *)store_row_at(s, handles[*at + AHEAD]) - KEY_BYTES);
        if (handle_bit(&c->copied, h) || (noted && !handle_bit(&c->changed, h)))
            continue;
        if (store_is_live(s, p, h))
            TRY(add_entry(c, store_key_at(s, h), h));
    }
    return 0;
}

static int collect_copies(struct cut *c, uint32_t *at, size_t *most)
{
    const struct handle_list *l = &c->parts[c->at].copies;
    for (; *most != 0 && *at < l->n; ++*at, --*most) {
        if (*at + AHEAD < l->n)
            __builtin_prefetch((const char *)side_row(&c->side, l->at[*at + AHEAD]) -
                               KEY_BYTES);
        TRY(add_entry(c, table_row_key(side_row(&c->side, l->at[*at])),
                      l->at[*at] | CUT_COPY));
    }
    return 0;
}

// The context for copying all cold rows of the current partition. The rows of one
// partition fit into memory.
struct cold_ctx {
    struct store *s;
    uint32_t p;
};

// Returns whether publishing the row changes values of the row.
static bool is_published_anew(const struct store *s, const float *row)
{
    size_t bytes = s->accessor.width * sizeof(float);
    if (!s->config.deltas || s->life->published == NULL)
        return false;
    memcpy(s->first, row, bytes);
    s->life->published(&s->accessor, s->first);
    return memcmp(s->first, row, bytes) != 0;
}

bool cut_publishes_row(const struct store *s, uint32_t p, const float *row)
{
    return cut_has(s, p) && s->cut->o.mode == SAVE_BASE && is_published_anew(s, row) &&
           is_saved(s, p, row, SAVE_BASE);
}

// Copies a cold row. Used in all modes except SAVE_DELTA.
static int copy_cold(void *ctx, uint64_t key, const float *row, const float *extra,
                     struct err *e)
{
    const struct cold_ctx *x = ctx;
    struct store *s = x->s;
    struct cut *c = s->cut;
    if (!is_saved(s, x->p, row, SAVE_BASE))
        return 0;
    int rc = 0;
    if (cut_publishes(c) && is_published_anew(s, row))
        rc = cold_cut_published(s, x->p, key);
    if (rc == 0)
        rc = cut_add_copy(s, x->p, key, row, extra);
    return rc == 0 ? 0 : err_nomem(e, "the cold rows of a partition");
}

// Copies a cold row that had changed before the cut. Used for a delta, which later
// selects from these copies.
static int copy_changed(void *ctx, uint64_t key, const float *row, const float *extra,
                        struct err *e)
{
    const struct cold_ctx *x = ctx;
    struct store *s = x->s;
    struct cut_part *part = &s->cut->parts[x->p];
    const struct key_list *gone = &part->gone;
    int rc;
    if (!is_saved(s, x->p, row, SAVE_BASE))
        rc = 0; // the row is not published: its key is written as if the row were removed
    else if (is_saved(s, x->p, row, SAVE_DELTA) ||
             (gone->n > 0 &&
              bsearch(&key, gone->at, gone->n, KEY_BYTES, compare_u64) != NULL))
        rc = cold_cut_published(s, x->p, key);
    else
        rc = cold_cut_kept(s, x->p, key);
    if (rc == 0)
        rc = cut_add_copy(s, x->p, key, row, extra);
    return rc == 0 ? 0 : err_nomem(e, "the cold rows of a partition");
}

static int collect_cold(struct store *s, uint32_t p, struct err *e)
{
    struct cut_part *x = &s->cut->parts[p];
    struct cold_ctx cold = {s, p};
    if (cut_publishes(s->cut))
        cold_cut_open(s, p);
    if (s->cut->o.mode != SAVE_DELTA)
        return cold_each(s, p, copy_cold, &cold, e);
    if (x->gone.n > 0)
        qsort(x->gone.at, x->gone.n, KEY_BYTES, compare_u64);
    return cold_each_changed(s, p, copy_changed, &cold, e);
}

static void drop_duplicates(struct cut *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_entries; i++) {
        assert(n == 0 || c->entries[n - 1].key <= c->entries[i].key);
        if (n == 0 || c->entries[n - 1].key != c->entries[i].key)
            c->entries[n++] = c->entries[i];
    }
    c->n_entries = n;
}

// Removes the entries of rows that have changed since they were collected. These rows were
// copied, and are also among the copies.
static void drop_changed(struct store *s, uint32_t p)
{
    struct cut *c = s->cut;
    size_t n = 0;
    for (size_t i = 0; i < c->n_entries; i++) {
        const struct table_entry *x = &c->entries[i];
        if (!is_copy(x) && handle_bit(&c->copied, x->handle))
            continue;
        // A row of another partition that comes from disk takes a freed handle, and its
        // bits are cleared.
        if (!is_copy(x) && s->cold != NULL && !store_is_live(s, p, x->handle))
            continue;
        c->entries[n++] = *x;
    }
    c->n_entries = n;
}

// Collects more of the rows that the partition had when the cut began; for a delta only
// those that had changed. Looks at `most` handles, and lowers it by their number.
static int collect(struct store *s, uint32_t p, size_t *most)
{
    struct cut *c = s->cut;
    struct cut_part *x = &c->parts[p];
    bool delta = c->o.mode == SAVE_DELTA;
    const struct handle_list *rows = delta ? &x->changed : &s->parts[p].rows;
    TRY(collect_rows(s, p, rows, delta ? rows->n : x->n_rows, delta,
                     &c->looked[CUT_ROWS_LIST], most));
    TRY(collect_rows(s, p, &x->promoted, x->promoted.n, false,
                     &c->looked[CUT_PROMOTED_LIST], most));
    return collect_copies(c, &c->looked[CUT_COPIES_LIST], most);
}

static void select_base(struct store *s, uint32_t p)
{
    struct cut *c = s->cut;
    size_t n = 0;
    for (size_t i = 0; i < c->n_entries; i++)
        if (is_saved(s, p, entry_row(s, &c->entries[i]), SAVE_BASE))
            c->entries[n++] = c->entries[i];
    c->n_entries = n;
}

// Adds a row to those that a delta writes, if it must be published. `gone`: the row was
// made after the published row of the same key was removed.
static int select_changed(struct store *s, uint32_t p, struct table_entry x, bool gone)
{
    struct cut *c = s->cut;
    const float *row = entry_row(s, &x);
    if (!is_saved(s, p, row, SAVE_BASE))
        return key_list_add(&c->gone, x.key);
    if (gone || is_saved(s, p, row, SAVE_DELTA))
        c->entries[c->n_entries++] = x;
    // A row with a copy has changed since the cut began, so it is already
    // recorded for the next delta.
    else if (!is_copy(&x))
        return handle_list_add(&c->parts[p].kept, x.handle);
    return 0;
}

static int select_delta(struct store *s, uint32_t p)
{
    struct cut *c = s->cut;
    struct cut_part *x = &c->parts[p];
    size_t n = c->n_entries, g = 0;
    if (x->gone.n > 0)
        qsort(x->gone.at, x->gone.n, sizeof(*x->gone.at), compare_u64);
    x->kept.n = 0;
    c->n_entries = 0;
    for (size_t i = 0; i < n; i++) {
        struct table_entry entry = c->entries[i];
        bool gone = false;
        for (; g < x->gone.n && x->gone.at[g] <= entry.key; g++) {
            gone = x->gone.at[g] == entry.key;
            if (!gone)
                TRY(key_list_add(&c->gone, x->gone.at[g]));
        }
        TRY(select_changed(s, p, entry, gone));
    }
    for (; g < x->gone.n; g++)
        TRY(key_list_add(&c->gone, x->gone.at[g]));
    return 0;
}

static void drop_duplicate_keys(struct key_list *l)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        assert(n == 0 || l->at[n - 1] <= l->at[i]);
        if (n == 0 || l->at[n - 1] != l->at[i])
            l->at[n++] = l->at[i];
    }
    l->n = n;
}

static int select_rows(struct store *s, uint32_t p, struct err *e)
{
    struct cut *c = s->cut;
    c->gone.n = 0;
    if (c->o.mode == SAVE_BASE)
        select_base(s, p);
    if (c->o.mode == SAVE_DELTA && select_delta(s, p) != 0)
        return err_nomem(e, "the rows of a delta");
    drop_duplicate_keys(&c->gone);
    return 0;
}

static void collect_anew(struct cut *c)
{
    c->n_entries = 0;
    memset(c->looked, 0, sizeof(c->looked));
}

// Begins to collect the rows of the current partition: copies the rows on disk. On failure
// nothing has changed.
static int open_part(struct store *s, struct err *e)
{
    struct cut *c = s->cut;
    struct handle_list *copies = &c->parts[c->at].copies;
    uint32_t before = copies->n;
    assert(c->stage == CUT_BEGIN && c->at < s->n_parts);
    int rc = s->cold != NULL ? collect_cold(s, c->at, e) : 0;
    cut_note_peak(c);
    if (rc != 0) {
        side_free(&c->side, copies->at + before, copies->n - before);
        copies->n = before;
        return rc;
    }
    collect_anew(c);
    c->gone_at = c->rows_at = c->n_extras = c->extras_at = 0;
    c->stage = CUT_COLLECT;
    return 0;
}

// Looks at `most` handles of the current partition, and lowers it by their number. Once all
// rows are collected, sorts and selects them. On failure the caller may call it again.
static int collect_part(struct store *s, size_t *most, struct err *e)
{
    struct cut *c = s->cut;
    if (collect(s, c->at, most) != 0)
        return err_nomem(e, "the rows of a partition, sorted");
    if (*most == 0)
        return 0; // there may be more rows
    drop_changed(s, c->at);
    cut_sort(c->entries, c->n_entries);
    drop_duplicates(c);
    int rc = select_rows(s, c->at, e);
    if (rc != 0)
        collect_anew(c); // selecting has removed entries
    else
        c->stage = CUT_PARTITION;
    return rc;
}

static void close_part(struct cut *c)
{
    struct cut_part *x = &c->parts[c->at];
    assert(c->rows_at == c->n_entries && c->extras_at == c->n_extras);
    assert(c->gone_at == c->gone.n);
    assert(!x->admitted || c->state_bytes >= x->state.cap);
    side_free(&c->side, x->copies.at, x->copies.n);
    mem_free(x->copies.at);
    x->copies = (struct handle_list){0};
    if (x->admitted)
        c->state_bytes -= x->state.cap;
    buf_free(&x->state);
    mem_free(x->promoted.at);
    x->promoted = (struct handle_list){0};
    c->n_entries = c->rows_at = c->n_extras = 0;
    c->at++;
    c->stage = CUT_BEGIN;
}

static int reserve_block(struct cut *c, size_t bytes)
{
    return mem_room(&c->block, &c->cap_block, bytes);
}

// Returns how many of the `left` elements that are not written yet fit into a
// block of about `bytes`.
static uint32_t block_elements(size_t bytes, size_t element, size_t left)
{
    size_t n = bytes / element;
    assert(left > 0); // an empty block would end the stage
    n = n == 0 ? 1 : n;
    n = n < left ? n : left;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static int partition_block(struct store *s, struct rows_block *ret)
{
    struct cut *c = s->cut;
    struct cut_part *x = &c->parts[c->at];
    if (cut_publishes(c))
        return 0;
    if (!x->admitted) {
        buf_clear(&x->state);
        TRY(store_get_partition(s, c->at, cut_time(c, c->at), &x->state));
    }
    ret->kind = ROWS_PARTITION;
    ret->n = (uint32_t)x->state.len;
    ret->payload = x->state.data;
    return 0;
}

static void gone_block(struct cut *c, size_t bytes, struct rows_block *ret)
{
    ret->kind = ROWS_GONE;
    ret->n = block_elements(bytes, KEY_BYTES, c->gone.n - c->gone_at);
    ret->payload = c->gone.at + c->gone_at;
    c->gone_at += ret->n;
    c->stats.gone += ret->n;
}

// Writes a row. The row's handle of its extra row has no meaning outside this store, so
// only a flag is written: whether the row has an extra row.
static void write_row(const struct store *s, const struct table_entry *x,
                      const float *extra, char *to)
{
    const struct accessor *a = &s->accessor;
    float *row = (float *)(void *)(to + KEY_BYTES);
    memcpy(to, &x->key, KEY_BYTES);
    memcpy(row, entry_row(s, x), a->width * sizeof(float));
    if (a->extra_width > 0)
        accessor_set_extra(a, row, extra != NULL ? 0 : TABLE_NONE);
    if (cut_publishes(s->cut) && s->life->published != NULL)
        s->life->published(a, row);
}

static void prefetch_entry(const struct store *s, size_t i)
{
    const struct cut *c = s->cut;
    if (i < c->n_entries)
        table_row_prefetch(entry_row(s, &c->entries[i]),
                           s->accessor.width * sizeof(float));
}

static int rows_block(struct store *s, size_t bytes, struct rows_block *ret)
{
    struct cut *c = s->cut;
    size_t element = KEY_BYTES + s->accessor.width * sizeof(float);
    uint32_t n = block_elements(bytes, element, c->n_entries - c->rows_at);
    struct handle_list *published = &c->parts[c->at].published;
    TRY(reserve_block(c, n * element));
    TRY(handle_list_reserve(published, cut_publishes(c) ? n : 0));
    for (uint32_t i = 0; i < n; i++) {
        struct table_entry *x = &c->entries[c->rows_at + i];
        prefetch_entry(s, c->rows_at + i + AHEAD);
        const float *extra = entry_extra(s, x);
        write_row(s, x, extra, c->block + i * element);
        if (extra != NULL) {
            table_row_prefetch(extra, s->accessor.extra_width * sizeof(float));
            // The next line overwrites only entries whose rows were already written.
            assert(c->n_extras <= c->rows_at + i);
            c->entries[c->n_extras++] = *x;
        }
        if (cut_publishes(c) && !is_copy(x))
            published->at[published->n++] = x->handle;
    }
    c->rows_at += n;
    c->stats.rows += n;
    *ret = (struct rows_block){ROWS_ROW, c->at, n, s->accessor.width, c->block};
    return 0;
}

static int extras_block(struct store *s, size_t bytes, struct rows_block *ret)
{
    struct cut *c = s->cut;
    size_t row_bytes = s->accessor.extra_width * sizeof(float);
    size_t element = KEY_BYTES + row_bytes;
    uint32_t n = block_elements(bytes, element, c->n_extras - c->extras_at);
    TRY(reserve_block(c, n * element));
    for (uint32_t i = 0; i < n; i++) {
        const struct table_entry *x = &c->entries[c->extras_at + i];
        const float *extra = entry_extra(s, x);
        assert(extra !=
               // the row had an extra row when it was written, and was copied
               // before any later change
               NULL);
        memcpy(c->block + i * element, &x->key, KEY_BYTES);
        memcpy(c->block + i * element + KEY_BYTES, extra, row_bytes);
    }
    c->extras_at += n;
    c->stats.extras += n;
    *ret = (struct rows_block){ROWS_EXTRA, c->at, n, s->accessor.extra_width, c->block};
    return 0;
}

// Makes the next block of the partition's current stage. n == 0 means that the stage has
// ended.
static int stage_block(struct store *s, size_t bytes, struct rows_block *ret)
{
    struct cut *c = s->cut;
    *ret = (struct rows_block){.kind = ROWS_ROW, .partition = c->at};
    if (c->stage == CUT_PARTITION)
        TRY(partition_block(s, ret));
    else if (c->stage == CUT_GONE && c->gone_at < c->gone.n)
        gone_block(c, bytes, ret);
    else if (c->stage == CUT_ROWS && c->rows_at < c->n_entries)
        TRY(rows_block(s, bytes, ret));
    else if (c->stage == CUT_EXTRAS && c->extras_at < c->n_extras)
        TRY(extras_block(s, bytes, ret));
    // The stage CUT_PARTITION has one block, with the partition's state; the other stages
    // have any number of blocks.
    if (ret->n == 0 || c->stage == CUT_PARTITION)
        c->stage++;
    return 0;
}

int cut_next(struct store *s, size_t bytes, struct rows_block *ret, struct err *e)
{
    struct cut *c = s->cut;
    size_t looked = 0;
    if (c == NULL)
        return err_set(e, TUG_EUSAGE, "table %s: no save is in progress", s->config.name);
    *ret = (struct rows_block){.kind = ROWS_ROW};
    while (c->at < s->n_parts && (looked == 0 || looked < bytes)) {
        if (c->parts[c->at].out) {
            c->at++;
            continue;
        }
        if (c->stage == CUT_BEGIN)
            TRY(open_part(s, e));
        if (c->stage == CUT_COLLECT) {
            size_t most = (bytes - looked) / s->view.stride + STEP_LEAST, left = most;
            TRY(collect_part(s, &left, e));
            looked += (most - left) * s->view.stride;
            continue;
        }
        if (c->stage == CUT_DONE) {
            close_part(c);
            continue;
        }
        if (stage_block(s, bytes, ret) != 0)
            return err_nomem(e, "a block of a save");
        if (ret->n > 0)
            return 0;
    }
    if (c->at == s->n_parts)
        ret->kind = ROWS_END;
    return 0;
}
