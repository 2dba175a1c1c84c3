// The effects of a committed base or delta on a partition: rows count as published, and there
// are notes for the next delta. The store that leads the partition gets them
// from its rows, and a store with a copy of the partition (store_set_backup), which has
// made no cut, puts them into its own rows. Both must have the same rows at that time.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "store/cut_internal.h"

// The lengths are numbers of keys. Keys of changed rows may be listed twice.
struct published_head {
    uint64_t mode, step, gone_lost, n_changed, n_gone;
};

size_t cut_published_most(const struct store *s, uint32_t p)
{
    const struct store_part *part = &s->parts[p];
    assert(s->cut != NULL && p < s->n_parts);
    size_t keys = (size_t)part->changed.n + s->cut->parts[p].kept.n + part->gone.n;
    if (s->cold != NULL)
        keys += cold_out_most(s, p);
    return sizeof(struct published_head) + keys * sizeof(uint64_t);
}

int cut_get_published(const struct store *s, uint32_t p, struct buf *to)
{
    const struct store_part *part = &s->parts[p];
    struct published_head head = {.mode = (uint64_t)s->published_mode,
                                  .step = s->published_step,
                                  .gone_lost = part->gone_lost,
                                  .n_gone = part->gone.n};
    size_t begin = to->len;
    // STORE_PUBLISHED changes rows without noting them, so it must not have begun here.
    assert(s->cut == NULL && part->admin != s->admin_number);
    int rc = buf_add(to, &head, sizeof(head));
    for (uint32_t i = 0; i < part->changed.n && rc == 0; i++) {
        uint32_t h = part->changed.at[i];
        if (!handle_bit(&s->changed, h) || !store_is_live(s, p, h))
            continue;
        uint64_t key = store_key_at(s, h);
        rc = buf_add(to, &key, sizeof(key));
        head.n_changed++;
    }
    if (rc == 0 && s->cold != NULL)
        rc = cold_get_out(s, p, to, &head.n_changed);
    if (rc == 0)
        rc = buf_add(to, part->gone.at, part->gone.n * sizeof(*part->gone.at));
    if (rc != 0)
        to->len = begin;
    else
        memcpy(to->data + begin, &head, sizeof(head));
    return rc;
}

static int damaged(const struct store *s, uint32_t p, struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "the notes of a save for partition %u of table %s are damaged", p,
                   s->config.name);
}

static bool keys_fit(const struct store *s, uint32_t p, const uint64_t *keys, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (store_partition_of(s, keys[i]) != p)
            return false;
    return true;
}

// Finds the rows of the keys, without those that are not in memory and without repeats.
// Their marks in s->marks are set.
static int mark_rows(struct store *s, const uint64_t *keys, uint64_t n,
                     struct handle_list *ret)
{
    TRY(handle_bits_reserve(&s->marks, table_handles(s->rows)));
    TRY(handle_list_reserve(ret, n));
    for (uint64_t i = 0; i < n; i++) {
        uint32_t h;
        table_find(s->rows, &keys[i], 1, &h);
        if (h == TABLE_NONE || handle_bit(&s->marks, h))
            continue;
        handle_bit_set(&s->marks, h);
        ret->at[ret->n++] = h;
    }
    return 0;
}

// Marks the rows of a list as published that the save has written: they are live, they
// have not changed since (so they have no mark), and a base has such rows.
static void publish(struct store *s, uint32_t p, const struct handle_list *rows,
                    struct life_time t)
{
    for (uint32_t i = 0; i < rows->n && s->life->published != NULL; i++) {
        uint32_t h = rows->at[i];
        if (handle_bit(&s->marks, h) || !store_is_live(s, p, h))
            continue;
        float *row = store_row_at(s, h);
        if (s->life->saved == NULL || s->life->saved(&s->accessor, row, SAVE_BASE, t))
            s->life->published(&s->accessor, row);
    }
}

// Replaces the partition's notes. There is room for them.
static void put_notes(struct store *s, uint32_t p, struct handle_list *changed,
                      const uint64_t *gone, uint64_t n_gone)
{
    struct store_part *part = &s->parts[p];
    for (uint32_t i = 0; i < part->changed.n; i++)
        if (store_is_live(s, p, part->changed.at[i]))
            handle_bit_clear(&s->changed, part->changed.at[i]);
    for (uint32_t i = 0; i < changed->n; i++) {
        handle_bit_clear(&s->marks, changed->at[i]);
        handle_bit_set(&s->changed, changed->at[i]);
    }
    mem_free(part->changed.at);
    part->changed = *changed;
    *changed = (struct handle_list){0};
    if (n_gone > 0)
        memcpy(part->gone.at, gone, n_gone * sizeof(*gone));
    part->gone.n = (uint32_t)n_gone;
}

static void unmark(struct store *s, struct handle_list *rows)
{
    for (uint32_t i = 0; i < rows->n; i++)
        handle_bit_clear(&s->marks, rows->at[i]);
    mem_free(rows->at);
}

static int read_head(const struct store *s, uint32_t p, const void *bytes, size_t n,
                     struct published_head *ret, struct err *e)
{
    if (n < sizeof(*ret))
        return damaged(s, p, e);
    memcpy(ret, bytes, sizeof(*ret));
    uint64_t keys = (n - sizeof(*ret)) / sizeof(uint64_t);
    bool good = n % sizeof(uint64_t) == 0 && ret->n_changed <= keys &&
                ret->n_gone == keys - ret->n_changed && ret->gone_lost <= 1 &&
                (ret->mode == SAVE_BASE || ret->mode == SAVE_DELTA) && keys <= UINT32_MAX;
    return good ? 0 : damaged(s, p, e);
}

int cut_put_published(struct store *s, uint32_t p, const void *bytes, size_t n,
                      struct err *e)
{
    struct store_part *part = &s->parts[p];
    struct handle_list live = {0}, changed = {0};
    struct published_head head;
    assert(p < s->n_parts && (s->cut == NULL || s->cut->parts[p].out));
    if (!s->config.deltas)
        return damaged(s, p, e);
    TRY(read_head(s, p, bytes, n, &head, e));
    const uint64_t *keys = (const uint64_t *)(const void *)((const char *)bytes +
                                                            sizeof(head));
    const uint64_t *gone = keys + head.n_changed;
    if (!keys_fit(s, p, keys, head.n_changed + head.n_gone))
        return damaged(s, p, e);
    TRY(store_turn(s, p, e));
    if (handle_bits_reserve(&s->changed, table_handles(s->rows)) != 0 ||
        key_list_reserve(&part->gone, head.n_gone) != 0 ||
        (head.mode == SAVE_BASE && store_live_rows(s, p, &live) != 0) ||
        mark_rows(s, keys, head.n_changed, &changed) != 0) {
        mem_free(live.at);
        mem_free(changed.at);
        return err_nomem(e, "the notes of a save");
    }
    struct life_time t = {.day = part->day, .step = head.step};
    // Rows on disk come first, because only they can fail.
    int rc = s->cold != NULL ? cold_put_published(s, p, head.mode == SAVE_BASE, keys,
                                                  head.n_changed, t, e)
                             : 0;
    if (rc != 0) {
        unmark(s, &changed);
        mem_free(live.at);
        return rc;
    }
    // A delta has rows that had changed since the save before.
    publish(s, p, head.mode == SAVE_BASE ? &live : &part->changed, t);
    put_notes(s, p, &changed, gone, head.n_gone);
    part->gone_lost = head.gone_lost != 0;
    mem_free(live.at);
    return 0;
}
