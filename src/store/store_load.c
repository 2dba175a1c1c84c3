// Saved rows and partitions: reads all of a partition out, and puts it back. A load
// restores what was saved, whatever the entry policy and the budget say.
//
// A partition's state is, in little-endian bytes: version, day, step, the size of the
// entry policy's state (u64 each), and that state.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "store/store_internal.h"

enum { PARTITION_VERSION = 1 };

struct partition_head {
    uint64_t version, day, step, entry_bytes;
};

int store_get_partition(const struct store *s, uint32_t p, struct life_time t,
                        struct buf *ret)
{
    struct partition_head head = {PARTITION_VERSION, t.day, t.step, 0};
    const struct entry *entry = s->parts[p].entry;
    size_t at = ret->len;
    assert(p < s->n_parts);
    TRY(buf_add(ret, &head, sizeof(head)));
    int rc = entry != NULL ? entry_save(entry, ret) : 0;
    if (rc != 0) {
        ret->len = at;
        return rc;
    }
    head.entry_bytes = ret->len - at - sizeof(head);
    memcpy(ret->data + at, &head, sizeof(head));
    return 0;
}

static int load_entry(struct store *s, struct store_part *part, const void *bytes,
                      size_t n, struct err *e)
{
    struct entry *entry = NULL;
    if (n > 0) {
        TRY(entry_open(&entry, &s->entry, e));
        int rc = entry_load(entry, bytes, n, e);
        if (rc != 0) {
            entry_close(entry);
            return rc;
        }
        s->entry_bytes += entry_bytes(entry);
    }
    if (part->entry != NULL)
        s->entry_bytes -= entry_bytes(part->entry);
    entry_close(part->entry);
    part->entry = entry;
    return 0;
}

void store_reserve(struct store *s, uint64_t n, const uint64_t *rows)
{
    if (s->cold == NULL)
        table_reserve(s->rows, rows != NULL ? rows : &n,
                      rows != NULL ? s->o.partition_bits : 0);
}

void store_reserve_partition(struct store *s, uint32_t partition, uint64_t n,
                             uint32_t mine, uint32_t of)
{
    if (s->config.place != CONFIG_RANGE) {
        if (s->cold == NULL)
            table_reserve_partition(s->rows, partition, n, mine, of);
    } else if (table_stats(s->rows).rows == 0) {
        store_reserve(s, n * s->n_parts * mine / of, NULL);
    }
}

void store_set_day(struct store *s, uint32_t day)
{
    for (uint32_t p = 0; p < s->n_parts; p++)
        s->parts[p].day = day;
}

void store_set_day_in(struct store *s, uint32_t partition, uint32_t day)
{
    assert(partition < s->n_parts);
    s->parts[partition].day = day;
}

int store_put_partition(struct store *s, uint32_t partition, const void *bytes, size_t n,
                        struct err *e)
{
    struct partition_head head;
    if (partition >= s->n_parts)
        return err_set(e, TUG_EDATA, "table %s has no partition %u; it has %u",
                       s->config.name, partition, s->n_parts);
    if (n < sizeof(head))
        return err_set(e, TUG_EDATA,
                       "the saved state of partition %u of table %s is cut "
                       "short",
                       partition, s->config.name);
    memcpy(&head, bytes, sizeof(head));
    if (head.version != PARTITION_VERSION || head.day > UINT32_MAX ||
        head.entry_bytes != n - sizeof(head))
        return err_set(e, TUG_EDATA,
                       "the saved state of partition %u of table %s is damaged, or of a "
                       "later version of tug",
                       partition, s->config.name);
    TRY(store_turn(s, partition, e));
    if (s->cut != NULL)
        TRY(cut_before_admit(s, partition, e));
    TRY(load_entry(s, &s->parts[partition], (const char *)bytes + sizeof(head),
                   head.entry_bytes, e));
    s->parts[partition].day = (uint32_t)head.day;
    s->parts[partition].step = head.step;
    s->step = head.step > s->step ? head.step : s->step;
    return 0;
}

int store_not_finite(uint64_t key, const char *table, struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "key %llu of table %s has weights or states that are not finite",
                   (unsigned long long)key, table);
}

// Checks that loaded values are finite, as those of a push must be.
static int check_finite(const struct store *s, const uint64_t *keys, size_t n,
                        const float *rows, bool extra, struct err *e)
{
    const struct accessor *a = &s->accessor;
    for (size_t i = 0; i < n; i++)
        if (extra ? !accessor_extra_finite(a, rows + i * a->extra_width)
                  : !accessor_row_finite(a, rows + i * a->width, NULL))
            return store_not_finite(keys[i], s->config.name, e);
    return 0;
}

int store_put_rows(struct store *s, const uint64_t *keys, size_t n, const float *rows,
                   struct err *e)
{
    const struct accessor *a = &s->accessor;
    struct store_batch b = {.unset = true};
    TRY(check_finite(s, keys, n, rows, false, e));
    while (b.at + b.n < n) {
        TRY(store_batch_take(s, keys, n, &b, e));
        TRY(store_batch_find(s, &b, e));
        TRY(store_batch_make(s, &b, NULL, e));
        for (uint32_t i = 0; i < b.n; i++) {
            assert(s->batch.handles[i] !=
                   // The entry policy is not asked, so each key has a row now.
                   TABLE_NONE);
            float *row = store_row_at(s, s->batch.handles[i]);
            assert(table_row_key(row) == b.keys[i]);
            store_free_extra(s, row);
            memcpy(row, rows + (b.at + i) * a->width, a->width * sizeof(float));
            if (a->extra_width > 0)
                accessor_set_extra(a, row, TABLE_NONE);
        }
        store_look_at_rows(s, &b);
    }
    return 0;
}

static int check_found(const struct store *s, const struct store_batch *b, struct err *e)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (s->batch.handles[i] == TABLE_NONE)
            return err_set(e, TUG_EDATA,
                           "key %llu of table %s has an extra row without a row",
                           (unsigned long long)b->keys[i], s->config.name);
    return 0;
}

int store_put_extras(struct store *s, const uint64_t *keys, size_t n, const float *extras,
                     struct err *e)
{
    const uint32_t width = s->accessor.extra_width;
    struct store_batch b = {0};
    if (width == 0)
        return err_set(
            e, TUG_EDATA,
            "by its accessor, table %s has no extra rows, but the data has some",
            s->config.name);
    TRY(check_finite(s, keys, n, extras, true, e));
    while (b.at + b.n < n) {
        TRY(store_batch_take(s, keys, n, &b, e));
        TRY(store_batch_find(s, &b, e));
        TRY(check_found(s, &b, e));
        TRY(store_batch_make(s, &b, NULL, e)); // finds the rows; makes none, because all
                                               // exist
        for (uint32_t i = 0; i < b.n; i++) {
            float *row = store_row_at(s, s->batch.handles[i]);
            float *extra = store_extra_of(s, row);
            if (extra == NULL)
                extra = store_add_extra(s, row);
            assert(extra != NULL); // store_batch_make has reserved memory for it
            memcpy(extra, extras + (b.at + i) * width, width * sizeof(float));
        }
        store_look_at_rows(s, &b);
    }
    return 0;
}

static int remove_run(struct store *s, const struct store_batch *b, struct store_run run,
                      struct err *e)
{
    uint32_t n = 0, *some = s->batch.some;
    for (uint32_t i = run.begin; i < run.end; i++)
        if (s->batch.handles[i] != TABLE_NONE)
            some[n++] = s->batch.handles[i];
    if (s->parts[run.partition].cold > 0)
        TRY(cold_remove(s, run.partition, b->keys + run.begin, run.end - run.begin, e));
    if (n == 0)
        return 0;
    TRY(store_touch(s, run.partition, some, n, e));
    return store_remove_rows(s, run.partition, some, n, e);
}

int store_remove(struct store *s, const uint64_t *keys, size_t n, struct err *e)
{
    struct store_batch b = {0};
    while (b.at + b.n < n) {
        TRY(store_batch_take(s, keys, n, &b, e));
        for (uint32_t r = 0; r < b.n_runs; r++)
            TRY(store_turn(s, s->batch.runs[r].partition, e));
        table_find(s->rows, b.keys, b.n, s->batch.handles);
        for (uint32_t r = 0; r < b.n_runs; r++)
            TRY(remove_run(s, &b, s->batch.runs[r], e));
    }
    return 0;
}

// A walk over all rows of a partition by ascending key: the rows in memory are sorted and
// merged with the cold ones.

struct merge {
    struct store *s;
    struct table_entry *rows;
    uint32_t n, at;
    uint64_t from;
    store_row_fn fn;
    void *ctx;
};

// Passes the rows in memory with keys below `end` (NULL: all) to the caller.
static int give(struct merge *m, const uint64_t *end, struct err *e)
{
    const struct accessor *a = &m->s->accessor;
    for (; m->at < m->n && (end == NULL || m->rows[m->at].key < *end); m->at++) {
        assert(m->at == 0 || m->rows[m->at - 1].key < m->rows[m->at].key);
        const float *row = store_row_at(m->s, m->rows[m->at].handle);
        float *copy =
            m->s->first; // a copy without the handle of the extra row, which is valid in
                         // this store only
        memcpy(copy, row, a->width * sizeof(float));
        if (a->extra_width > 0)
            accessor_set_extra(a, copy, TABLE_NONE);
        TRY(m->fn(m->ctx, m->rows[m->at].key, copy, store_extra_of(m->s, row), e));
    }
    return 0;
}

static int give_cold(void *ctx, uint64_t key, const float *row, const float *extra,
                     struct err *e)
{
    struct merge *m = ctx;
    if (key < m->from)
        return 0;
    TRY(give(m, &key, e));
    // A key's row is in memory or cold, never both.
    assert(m->at == m->n || m->rows[m->at].key != key);
    return m->fn(m->ctx, key, row, extra, e);
}

static int list_rows(struct merge *m, uint32_t partition)
{
    struct handle_list live = {0};
    int rc = store_live_rows(m->s, partition, &live);
    m->rows = rc == 0 ? mem_array(live.n + 1, sizeof(*m->rows)) : NULL;
    for (uint32_t i = 0; i < live.n && m->rows != NULL; i++) {
        uint64_t key = store_key_at(m->s, live.at[i]);
        if (key >= m->from)
            m->rows[m->n++] = (struct table_entry){key, live.at[i]};
    }
    mem_free(live.at);
    return m->rows != NULL ? 0 : TUG_ENOMEM;
}

int store_each_from(struct store *s, uint32_t partition, uint64_t from, store_row_fn fn,
                    void *ctx, struct err *e)
{
    struct merge m = {.s = s, .from = from, .fn = fn, .ctx = ctx};
    assert(partition < s->n_parts);
    TRY(store_turn(s, partition, e));
    if (list_rows(&m, partition) != 0)
        return err_nomem(e, "the rows of a partition");
    table_sort_by_key(m.rows, m.n);
    int rc = s->parts[partition].cold > 0 ? cold_each(s, partition, give_cold, &m, e) : 0;
    if (rc == 0)
        rc = give(&m, NULL, e);
    mem_free(m.rows);
    return rc;
}

int store_each(struct store *s, uint32_t partition, store_row_fn fn, void *ctx,
               struct err *e)
{
    return store_each_from(s, partition, 0, fn, ctx, e);
}
