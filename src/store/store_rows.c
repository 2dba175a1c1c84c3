// Makes, removes and changes the rows of a store and their extra rows.
//
// Memory is reserved before anything changes, so that a failure changes nothing.
// The list of a partition's rows grows with each new row, and is packed when half
// of its entries are stale.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/store_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "store/parcel_internal.h"
#include "table/reclaim.h"

enum {
    PACK_SLACK = 64,
    GONE_SLACK = 1024,
    // The list of removed keys has at most GONE_MOST keys for each row, and GONE_SLACK
    // more.
    GONE_MOST = 4,
    AHEAD = 16,
    INDEX_ROW_BYTES = 6,
};

// Moves extra rows that no thread can be updating any more to the list of free ones.
static void take_from_limbo(struct store *s)
{
    uint32_t handle;
    limbo_refresh(&s->extra_limbo, table_reclaim(s->rows));
    while (handle_list_reserve(&s->extra_free, 1) == 0 &&
           (handle = limbo_pop(&s->extra_limbo)) != TABLE_NONE)
        s->extra_free.at[s->extra_free.n++] = handle;
}

int store_reserve_extras(struct store *s, size_t n)
{
    assert(n == 0 || s->accessor.extra_width > 0);
    if (s->extra_free.n < n && s->extra_limbo.first != NULL)
        take_from_limbo(s);
    while (s->extra_free.n < n) {
        uint32_t first, more = s->extras.chunk_rows;
        TRY(handle_list_reserve(&s->extra_free, more));
        TRY(slabs_take(&s->extras, &first));
        for (uint32_t i = more; i-- > 0;)
            s->extra_free.at[s->extra_free.n++] = first + i;
    }
    return 0;
}

float *store_add_extra(struct store *s, float *row)
{
    // A second extra row would replace the first, which would be lost.
    assert(store_extra_of(s, row) == NULL);
    if (store_reserve_extras(s, 1) != 0)
        return NULL;
    uint32_t handle = s->extra_free.at[--s->extra_free.n];
    float *extra = table_row(s->extra_view, handle);
    uint64_t key = table_row_key(row);
    memcpy(extra - 2, &key, sizeof(key));
    accessor_set_extra(&s->accessor, row, handle);
    s->n_extras++;
    return extra;
}

float *store_make_extra(struct store *s, float *row)
{
    float *extra = store_add_extra(s, row);
    if (extra != NULL)
        accessor_first_extra(&s->accessor, s->rows, table_row_key(row),
                             s->config.extra_low, s->config.extra_high, extra);
    return extra;
}

void store_free_extra(struct store *s, float *row)
{
    uint32_t handle = s->accessor.extra_width > 0 ? accessor_extra(&s->accessor, row)
                                                  : TABLE_NONE;
    if (handle == TABLE_NONE)
        return;
    assert(table_row_key(table_row(s->extra_view, handle)) == table_row_key(row));
    assert(s->n_extras > 0);
    accessor_set_extra(&s->accessor, row, TABLE_NONE);
    // If memory for the list is out, the extra row is never reused, which does no other
    // harm.
    if (s->steps)
        limbo_push(&s->extra_limbo, handle, reclaim_stamp(table_reclaim(s->rows)));
    else
        (void)handle_list_add(&s->extra_free, handle);
    s->n_extras--;
}

static void unmake(struct store *s, const uint64_t *keys, const uint32_t *handles,
                   size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (handles[i] != TABLE_NONE)
            store_free_extra(s, store_row_at(s, handles[i]));
    table_erase(s->rows, keys, n);
}

void store_set_limit(struct store *s, uint64_t max_bytes)
{
    s->o.max_bytes = max_bytes;
}

static uint64_t bytes_in_use(const struct store *s)
{
    uint64_t rows = s->stats.rows * (s->view.stride + INDEX_ROW_BYTES);
    return rows + s->n_extras * s->extra_view.stride + s->entry_bytes;
}

int store_check_room(const struct store *s, size_t n, struct err *e)
{
    uint64_t bytes = s->view.stride + INDEX_ROW_BYTES;
    if (s->begins_whole)
        bytes += s->extra_view.stride;
    if (s->o.max_bytes == 0 || bytes_in_use(s) + n * bytes <= s->o.max_bytes)
        return 0;
    return err_set(e, TUG_ENOMEM,
                   "no room for another row of table %s: it holds %llu rows in %llu "
                   "of the %llu bytes that it may have; raise the limit (--memory), or "
                   "have rows removed earlier (budget-rows, shrink)",
                   s->config.name, (unsigned long long)s->stats.rows,
                   (unsigned long long)bytes_in_use(s),
                   (unsigned long long)s->o.max_bytes);
}

// Returns an error if a handle occurs twice, because the caller has given its key twice.
// The row would be counted as two rows.
static int check_distinct(struct store *s, const uint32_t *handles, size_t n,
                          struct err *e)
{
    bool twice = false;
    TRY(handle_bits_reserve(&s->marks, table_handles(s->rows)));
    for (size_t i = 0; i < n; i++) {
        twice = twice || handle_bit(&s->marks, handles[i]);
        handle_bit_set(&s->marks, handles[i]);
    }
    for (size_t i = 0; i < n; i++)
        handle_bit_clear(&s->marks, handles[i]);
    if (twice)
        return err_set(e, TUG_EUSAGE, "a key occurs twice in a push to table %s",
                       s->config.name);
    return 0;
}

static int make_in_table(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                         uint32_t *handles, struct err *e)
{
    int made = table_rows_unset(s->rows, keys, n, handles);
    for (size_t i = 0; i < n && s->accessor.extra_width > 0; i++)
        if (handles[i] != TABLE_NONE)
            accessor_set_extra(&s->accessor, store_row_at(s, handles[i]), TABLE_NONE);
    TRY(made);
    TRY(check_distinct(s, handles, n, e));
    for (size_t i = 0; i < n && s->cut != NULL; i++)
        TRY(cut_row_made(s, p, handles[i]));
    return store_turns_rows(s, p) ? store_turn_made(s, handles, n) : 0;
}

int store_add_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                   uint32_t *ret_handles, struct err *e)
{
    struct store_part *part = &s->parts[p];
    assert(p < s->n_parts && n > 0);
    assert(store_partition_of(s, keys[0]) == p &&
           store_partition_of(s, keys[n - 1]) == p);
    TRY(store_check_room(s, n, e));
    if (handle_list_reserve(&part->rows, n) != 0)
        return err_nomem(e, "rows of a table");
    int rc = make_in_table(s, p, keys, n, ret_handles, e);
    if (rc != 0) {
        unmake(s, keys, ret_handles, n);
        return rc == TUG_ENOMEM ? err_nomem(e, "rows of a table") : rc;
    }
    memcpy(part->rows.at + part->rows.n, ret_handles, n * sizeof(*ret_handles));
    part->rows.n += (uint32_t)n;
    part->live += (uint32_t)n;
    assert(part->live <= part->rows.n && part->rows.n <= part->rows.cap);
    s->stats.rows += n;
    return 0;
}

int store_add_new_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                       uint32_t *ret_handles, struct err *e)
{
    TRY(store_add_rows(s, p, keys, n, ret_handles, e));
    int rc = store_note(s, p, ret_handles, n, e);
    if (rc != 0) {
        store_drop_rows(s, p, ret_handles, n);
        return rc;
    }
    s->stats.made += n;
    if (s->copies != NULL)
        parcel_rows_made(s, p, ret_handles, n);
    return 0;
}

void store_first_row(const struct store *s, uint64_t key, uint32_t day, float *ret_row,
                     float *ret_extra)
{
    const struct table_config *c = &s->config;
    struct life_time t = store_time(s, store_partition_of(s, key));
    t.day = day;
    table_first_values(s->rows, key, ret_row);
    if (s->life->begin != NULL)
        s->life->begin(&s->accessor, ret_row, t);
    if (ret_extra != NULL)
        accessor_first_extra(&s->accessor, s->rows, key, c->extra_low, c->extra_high,
                             ret_extra);
}

int store_make_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                    uint32_t *ret_handles, struct err *e)
{
    if (s->begins_whole && store_reserve_extras(s, n) != 0)
        return err_nomem(e, "rows of a table");
    TRY(store_add_new_rows(s, p, keys, n, ret_handles, e));
    for (size_t i = 0; i < n; i++) {
        float *row = store_row_at(s, ret_handles[i]);
        store_first_row(s, keys[i], s->parts[p].day, row, NULL);
        if (s->begins_whole)
            store_make_extra(s, row);
    }
    return 0;
}

// Removes repeated entries. Only the last entry of a handle stays, which was added when
// its present row was made.
static int unique(struct store *s, struct handle_list *l)
{
    uint32_t kept = 0;
    TRY(handle_bits_reserve(&s->marks, table_handles(s->rows)));
    for (uint32_t i = l->n; i-- > 0;) {
        if (handle_bit(&s->marks, l->at[i]))
            l->at[i] = TABLE_NONE;
        else
            handle_bit_set(&s->marks, l->at[i]);
    }
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->at[i] == TABLE_NONE)
            continue;
        handle_bit_clear(&s->marks, l->at[i]);
        l->at[kept++] = l->at[i];
    }
    l->n = kept;
    return 0;
}

bool store_is_live(const struct store *s, uint32_t p, uint32_t handle)
{
    return table_is_live(s->rows, handle) &&
           store_partition(s, store_key_at(s, handle)) == p;
}

// Copies the entries of the list that are rows of partition p now. Returns their number.
static uint32_t keep_live(const struct store *s, uint32_t p, const struct handle_list *l,
                          uint32_t *ret)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        if (i + AHEAD < l->n)
            __builtin_prefetch(store_row_at(s, l->at[i + AHEAD]) - 2);
        if (store_is_live(s, p, l->at[i]))
            ret[n++] = l->at[i];
    }
    return n;
}

int store_live_rows(struct store *s, uint32_t p, struct handle_list *ret)
{
    const struct store_part *part = &s->parts[p];
    ret->n = 0;
    TRY(handle_list_reserve(ret, part->rows.n));
    if (part->rows.n == part->live) { // no entry is stale
        if (part->live > 0)
            memcpy(ret->at, part->rows.at, part->live * sizeof(*ret->at));
        ret->n = part->live;
        return 0;
    }
    ret->n = keep_live(s, p, &part->rows, ret->at);
    assert(ret->n >= part->live); // each live row is in its partition's list
    return ret->n == part->live ? 0 : unique(s, ret);
}

static bool mostly_stale(const struct handle_list *l, uint32_t live)
{
    return l->n / 2 > live && l->n > PACK_SLACK;
}

static void pack_changed(struct store *s, uint32_t p)
{
    struct handle_list *l = &s->parts[p].changed;
    uint32_t kept = 0;
    l->n = keep_live(s, p, l, l->at);
    for (uint32_t i = 0; i < l->n; i++) {
        if (!handle_bit(&s->changed, l->at[i]))
            continue;
        handle_bit_clear(&s->changed, l->at[i]);
        l->at[kept++] = l->at[i];
    }
    l->n = kept;
    for (uint32_t i = 0; i < kept; i++)
        handle_bit_set(&s->changed, l->at[i]);
}

// Packs the list of a partition's rows: removes its stale entries. If memory is out,
// a later call does it.
static void pack(struct store *s, uint32_t p)
{
    struct store_part *part = &s->parts[p];
    if (mostly_stale(&part->changed, part->live))
        pack_changed(s, p);
    if (!mostly_stale(&part->rows, part->live))
        return;
    if (handle_bits_reserve(&s->marks, table_handles(s->rows)) != 0)
        return;
    part->rows.n = keep_live(s, p, &part->rows, part->rows.at);
    (void)unique(s, &part->rows);
    assert(part->rows.n == part->live);
}

void store_drop_rows(struct store *s, uint32_t p, const uint32_t *handles, size_t n)
{
    enum { CHUNK = 256 };
    uint64_t keys[CHUNK];
    assert(n <= s->parts[p].live && n <= s->stats.rows);
    for (size_t at = 0, len; at < n; at += len) {
        len = n - at < CHUNK ? n - at : CHUNK;
        for (size_t i = 0; i < len; i++) {
            // a repeated handle would not be live the second time
            assert(store_is_live(s, p, handles[at + i]));
            keys[i] = store_key_at(s, handles[at + i]);
        }
        if (s->copies != NULL)
            parcel_rows_go(s, p, handles + at, len);
        if (s->removed != NULL) // must come before the handles can get other rows
            s->removed(s->removed_ctx, keys, len);
        for (size_t i = 0; i < len; i++) {
            store_free_extra(s, store_row_at(s, handles[at + i]));
            handle_bit_clear(&s->changed, handles[at + i]);
        }
        table_erase(s->rows, keys, len);
    }
    s->parts[p].live -= (uint32_t)n;
    s->stats.rows -= n;
    if (s->cut == NULL && !parcel_is_copied(s, p))
        pack(s, p);
}

void store_trim_gone(struct store *s, uint32_t p)
{
    struct store_part *part = &s->parts[p];
    uint64_t rows = (uint64_t)part->live + part->cold;
    if (!part->gone_lost && part->gone.n <= GONE_MOST * rows + GONE_SLACK)
        return;
    mem_free(part->gone.at);
    part->gone = (struct key_list){0};
    part->gone_lost = true;
}

int store_remove_rows(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                      struct err *e)
{
    struct key_list *gone = &s->parts[p].gone;
    assert(p < s->n_parts);
    if (s->config.deltas && !s->parts[p].gone_lost) {
        if (key_list_reserve(gone, n) != 0)
            return err_nomem(e, "the list of rows for a table's next delta");
        for (size_t i = 0; i < n; i++)
            gone->at[gone->n++] = store_key_at(s, handles[i]);
    }
    if (s->cold != NULL)
        cold_forget(s, p, handles, n);
    if (s->copies != NULL)
        parcel_rows_leave(s, p, handles, n);
    store_drop_rows(s, p, handles, n);
    store_trim_gone(s, p);
    return 0;
}

int store_note(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
               struct err *e)
{
    struct handle_list *changed = &s->parts[p].changed;
    assert(p < s->n_parts);
    if (!s->config.deltas)
        return 0;
    if (handle_bits_reserve(&s->changed, table_handles(s->rows)) != 0 ||
        handle_list_reserve(changed, n) != 0)
        return err_nomem(e, "the list of rows for a table's next delta");
    for (size_t i = 0; i < n; i++) {
        if (handle_bit(&s->changed, handles[i]))
            continue;
        handle_bit_set(&s->changed, handles[i]);
        changed->at[changed->n++] = handles[i];
    }
    return 0;
}

int store_touch(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                struct err *e)
{
    if (s->cut != NULL)
        TRY(cut_before_change(s, p, handles, n, e));
    TRY(store_note(s, p, handles, n, e));
    if (s->cold != NULL)
        cold_used(s, handles, n);
    return 0;
}
