// Copies of partitions with rows on disk, in slices. See parcel.h.
//
// While a partition is copied, its rows go to disk and come back. So they are copied by
// ascending key, wherever they are: the keys on disk are sorted, and the copy begins by
// sorting the keys of the rows in memory. A row that comes into memory later keeps
// its copy on disk, where the walk finds its key. Rows that are made later are copied after
// the walk; until then they stay in memory.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "store/cold.h"
#include "store/parcel_internal.h"

enum { FULL = 1 }; // a walk over the disk ends, because the slice has enough rows

struct parcel_cold {
    bool walked;   // the walk is over
    uint64_t next; // if not: the rows of keys below this one were copied
    struct key_list hot;
    uint32_t hot_at;
    // The rows made since the beginning, and a bit for each that was not copied yet.
    struct handle_list made;
    uint32_t made_at;
    struct handle_bits late;
    uint64_t copied; // number of rows
    // Rows on disk that were read for the slice.
    uint32_t n, most;
    uint64_t keys[PARCEL_SLICE_ROWS];
    uint32_t sizes[PARCEL_SLICE_ROWS];
    char *bytes;
};

static int parcel_cold_list(struct store *s, uint32_t p, struct key_list *ret)
{
    struct handle_list live = {0};
    int rc = store_live_rows(s, p, &live);
    if (rc == 0)
        rc = key_list_reserve(ret, live.n);
    for (uint32_t i = 0; i < live.n && rc == 0; i++)
        ret->at[ret->n++] = store_key_at(s, live.at[i]);
    if (ret->n > 0)
        qsort(ret->at, ret->n, sizeof(*ret->at), compare_u64);
    mem_free(live.at);
    return rc;
}

int parcel_cold_open(struct parcel_cold **ret, struct store *s, uint32_t p, uint32_t most)
{
    struct parcel_cold *k = *ret = mem_zalloc(sizeof(*k));
    if (k == NULL)
        return TUG_ENOMEM;
    assert(most <= PARCEL_SLICE_ROWS);
    k->most = most;
    k->bytes = mem_alloc((size_t)most * s->cold->walk.slot_bytes + 1);
    return k->bytes != NULL ? parcel_cold_list(s, p, &k->hot) : TUG_ENOMEM;
}

void parcel_cold_close(struct parcel_cold *k)
{
    if (k == NULL)
        return;
    mem_free(k->hot.at);
    mem_free(k->made.at);
    mem_free(k->late.words);
    mem_free(k->bytes);
    mem_free(k);
}

int parcel_cold_made(struct parcel_cold *k, const struct store *s,
                     const uint32_t *handles, size_t n)
{
    TRY(handle_bits_reserve(&k->late, table_handles(s->rows)));
    for (size_t i = 0; i < n; i++) {
        TRY(handle_list_add(&k->made, handles[i]));
        handle_bit_set(&k->late, handles[i]);
    }
    return 0;
}

void parcel_cold_go(struct parcel_cold *k, uint32_t handle)
{
    handle_bit_clear(&k->late, handle);
}

bool parcel_cold_keeps(const struct parcel_cold *k, uint32_t handle)
{
    return handle_bit(&k->late, handle);
}

bool parcel_cold_has(const struct parcel_cold *k, uint64_t key, uint32_t handle)
{
    return (k->walked || key < k->next) && !handle_bit(&k->late, handle);
}

bool parcel_cold_done(const struct parcel_cold *k)
{
    return k->walked && k->made_at == k->made.n;
}

uint64_t parcel_cold_left(const struct parcel_cold *k, const struct store *s, uint32_t p)
{
    uint64_t rows = store_rows_of(s, p);
    return rows > k->copied ? rows - k->copied : 0;
}

struct disk_walk {
    const struct store *s;
    struct parcel_cold *k;
};

static int parcel_cold_gather(void *ctx, uint64_t key, const void *row, uint32_t size,
                              struct err *e)
{
    const struct disk_walk *w = ctx;
    struct parcel_cold *k = w->k;
    const struct cold *c = w->s->cold;
    if (!cold_size_fits(c, size))
        return cold_damaged(w->s, key, size, e);
    memcpy(k->bytes + (size_t)k->n * c->walk.slot_bytes, row, size);
    k->keys[k->n] = key;
    k->sizes[k->n++] = size;
    return k->n == k->most ? FULL : 0;
}

// Lists the next keys on disk and in k->hot. from[i] is the index of a key's row on disk;
// UINT32_MAX: it has none. Sets *ret_end to whether these are the last ones.
static uint32_t merge(struct parcel_cold *k, bool full, uint64_t *keys, uint32_t *from,
                      bool *ret_end)
{
    uint32_t n = 0, i = 0;
    uint64_t limit = full ? k->keys[k->n - 1] : UINT64_MAX;
    while (n < k->most) {
        bool disk = i < k->n, hot = k->hot_at < k->hot.n;
        uint64_t key = hot ? k->hot.at[k->hot_at] : UINT64_MAX;
        if (disk && k->keys[i] < key)
            key = k->keys[i];
        if ((!disk && !hot) || key > limit)
            break;
        keys[n] = key;
        from[n++] = disk && k->keys[i] == key ? i++ : UINT32_MAX;
        k->hot_at += hot && k->hot.at[k->hot_at] == key;
    }
    *ret_end = !full && i == k->n && k->hot_at == k->hot.n;
    return n;
}

static void parcel_cold_add(struct parcel_cold *k, struct parcel_slice *x, uint64_t key,
                            uint32_t handle, const float *row, const float *extra)
{
    x->keys[x->n] = key;
    x->handles[x->n] = handle;
    x->rows[x->n] = row;
    x->extras[x->n++] = extra;
    k->copied++;
}

static int walk_on(struct parcel_cold *k, struct store *s, uint32_t p,
                   struct parcel_slice *x, struct err *e)
{
    uint64_t keys[PARCEL_SLICE_ROWS];
    uint32_t from[PARCEL_SLICE_ROWS], handles[PARCEL_SLICE_ROWS];
    struct disk_walk w = {s, k};
    bool end;
    k->n = 0;
    TRY(cold_write_waiting(s->cold, e));
    int rc = tier_each(s->cold->tier, p, k->next, parcel_cold_gather, &w, e);
    if (rc < 0)
        return rc;
    uint32_t n = merge(k, rc == FULL, keys, from, &end);
    if (n > 0)
        table_find(s->rows, keys, n, handles);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t h = handles[i];
        if (h != TABLE_NONE) {
            const float *row = store_row_at(s, h);
            if (!handle_bit(&k->late, h)) // else it is copied after the walk
                parcel_cold_add(k, x, keys[i], h, row, store_extra_of(s, row));
        } else if (from[i] != UINT32_MAX) {
            const float *row = (const void *)(k->bytes +
                                              (size_t)from[i] * s->cold->walk.slot_bytes);
            bool more = k->sizes[from[i]] > s->cold->row_bytes;
            parcel_cold_add(k, x, keys[i], TABLE_NONE, row,
                            more ? row + s->accessor.width : NULL);
        } // else the row was removed
    }
    k->walked = end || keys[n - 1] == UINT64_MAX;
    k->next = k->walked ? UINT64_MAX : keys[n - 1] + 1;
    return 0;
}

static void add_late(struct parcel_cold *k, const struct store *s, uint32_t p,
                     struct parcel_slice *x)
{
    for (; k->made_at < k->made.n && x->n < k->most; k->made_at++) {
        uint32_t h = k->made.at[k->made_at];
        if (!handle_bit(&k->late, h))
            continue; // the row was removed, or copied for an earlier entry
        assert(store_is_live(s, p, h));
        handle_bit_clear(&k->late, h);
        const float *row = store_row_at(s, h);
        parcel_cold_add(k, x, table_row_key(row), h, row, store_extra_of(s, row));
    }
    (void)p;
}

int parcel_cold_next(struct parcel_cold *k, struct store *s, uint32_t p,
                     struct parcel_slice *x, struct err *e)
{
    x->n = 0;
    if (!k->walked)
        return walk_on(k, s, p, x, e);
    add_late(k, s, p, x);
    return 0;
}
