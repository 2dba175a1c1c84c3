// Moves rows between memory (hot) and disk (cold). See cold.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/cold.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum {
    GO_SHARE = 16, // 1/16 of a partition's rows are demoted together
    AHEAD = 16,
};

int cold_damaged(const struct store *s, uint64_t key, uint32_t size, struct err *e)
{
    return err_because(e, TUG_EDATA, REASON_DISK, 0,
                       "the rows in '%s' are damaged: the row of key %" PRIu64
                       " has %" PRIu32 " bytes",
                       s->cold->dir, key, size);
}

bool cold_size_fits(const struct cold *c, uint32_t size)
{
    return size == c->row_bytes ||
           (c->extra_bytes > 0 && size == c->row_bytes + c->extra_bytes);
}

int cold_write_waiting(struct cold *c, struct err *e)
{
    if (c->unwritten == 0)
        return 0;
    TRY(tier_write(c->tier, e));
    c->unwritten = 0;
    return 0;
}

// ---------------------------------------------------------------- opening and closing

// Returns the size of RocksDB's cache: a sixteenth of the memory limit
// (RocksDB's write buffers get another sixteenth); 0 if there is no limit, which
// stands for RocksDB's default.
static uint64_t cache_of(uint64_t max_bytes)
{
    const uint64_t most = 64 << 20, share = max_bytes / 16;
    return max_bytes == 0 ? 0 : share < 1 ? 1 : share < most ? share : most;
}

static int open_tier(struct store *s, struct err *e)
{
    struct cold *c = s->cold;
    char about[256];
    snprintf(about, sizeof(about),
             "table %s (%" PRIu32 "): %s, rows of %" PRIu32 " + %" PRIu32
             " floats, %" PRIu32 " bits of partitions%s",
             s->config.name, s->o.id, s->config.accessor.name, s->accessor.width,
             s->accessor.extra_width, s->o.partition_bits,
             s->config.place == CONFIG_RANGE ? " by range" : "");
    struct tier_options o = {
        .dir = s->o.cold_dir,
        .durable = s->config.cold_durable,
        .about = about,
        .cache_bytes = cache_of(s->o.max_bytes),
        .row_bytes = s->config.cold_durable ? INT32_MAX // no limit, because records may
                                                        // be large
                                            : c->row_bytes + c->extra_bytes,
    };
    return tier_open(&c->tier, &o, e);
}

static int open_cold(struct store *s, struct err *e)
{
    struct cold *c = s->cold;
    c->row_bytes = s->accessor.width * sizeof(float);
    c->extra_bytes = s->accessor.extra_width * sizeof(float);
    c->share = UINT32_MAX;
    if (s->config.hot_rows > 0 && s->config.hot_rows / s->n_parts < UINT32_MAX)
        c->share = (uint32_t)(s->config.hot_rows / s->n_parts);
    c->walk.slot_bytes = (c->row_bytes + c->extra_bytes + 15) / 16 * 16;
    c->walk.max = COLD_WALK_BYTES / (c->walk.slot_bytes + 1) + 1;
    if (c->walk.max > COLD_WALK_ROWS)
        c->walk.max = COLD_WALK_ROWS;
    c->parts = mem_zalloc(s->n_parts * sizeof(*c->parts));
    c->image = mem_alloc(c->walk.slot_bytes + 1);
    c->walk.bytes = mem_alloc((size_t)c->walk.max * c->walk.slot_bytes + 1);
    if (c->parts == NULL || c->image == NULL || c->walk.bytes == NULL ||
        strlen(s->o.cold_dir) >= sizeof(c->dir))
        return err_nomem(e, "rows on disk");
    snprintf(c->dir, sizeof(c->dir), "%s", s->o.cold_dir);
    for (uint32_t p = 0; p < s->n_parts; p++)
        c->parts[p].limit = c->share;
    TRY(open_tier(s, e));
    return s->config.cold_durable ? cold_find_again(s, e) : 0;
}

static void free_cold(struct store *s)
{
    struct cold *c = s->cold;
    tier_close(c->tier);
    for (uint32_t p = 0; p < s->n_parts && c->parts != NULL; p++)
        cold_free_lists(&c->parts[p]);
    mem_free(c->parts);
    mem_free(c->image);
    mem_free(c->walk.bytes);
    mem_free(c->uses);
    mem_free(c->copied.words);
    mem_free(c->sweep.at);
    mem_free(c);
    s->cold = NULL;
}

int cold_open(struct store *s, struct err *e)
{
    s->cold = mem_zalloc(sizeof(*s->cold));
    if (s->cold == NULL)
        return err_nomem(e, "rows on disk");
    int rc = open_cold(s, e);
    if (rc != 0)
        free_cold(s);
    return rc;
}

void cold_close(struct store *s)
{
    if (s->cold == NULL)
        return;
    // Errors are ignored here. A caller that needs the result calls cold_keep
    // before it closes the store.
    if (s->config.cold_durable)
        (void)cold_keep(s, NULL);
    free_cold(s);
}

void cold_counts(const struct store *s, struct store_stats *x)
{
    x->promoted = s->cold->promoted;
    x->demoted = s->cold->demoted;
}

uint64_t cold_bytes(const struct store *s, uint64_t rows)
{
    const struct cold *c = s->cold;
    uint64_t lists = c->sweep.cap * sizeof(uint32_t);
    for (uint32_t p = 0; p < s->n_parts; p++)
        lists += (c->parts[p].out.cap + c->parts[p].cut_out.cap) * sizeof(uint64_t);
    return sizeof(*c) + lists + c->n_uses + c->copied.n_words * sizeof(uint64_t) +
           tier_memory(c->tier, rows);
}

// ------------------------------------------------------------ promoting rows into memory

static void fill_row(struct store *s, uint32_t handle, const char *bytes, uint32_t size)
{
    const struct cold *c = s->cold;
    float *row = store_row_at(s, handle);
    memcpy(row, bytes, c->row_bytes);
    if (c->extra_bytes == 0)
        return;
    accessor_set_extra(&s->accessor, row, TABLE_NONE);
    if (size > c->row_bytes) {
        float *extra = store_make_extra(s, row);
        assert(extra != NULL); // room for the extra row was reserved
        memcpy(extra, bytes + c->row_bytes, c->extra_bytes);
    }
}

static int reserve_marks(struct store *s)
{
    struct cold *c = s->cold;
    uint32_t handles = table_handles(s->rows);
    TRY(handle_bits_reserve(&c->copied, handles));
    if (handles <= c->n_uses)
        return 0;
    uint32_t n = handles + handles / 2;
    uint8_t *uses = mem_realloc(c->uses, n);
    if (uses == NULL)
        return TUG_ENOMEM;
    memset(uses + c->n_uses, 0, n - c->n_uses);
    c->uses = uses;
    c->n_uses = n;
    return 0;
}

// Records that rows were promoted to memory with all their values.
static int note_promoted(struct store *s, uint32_t p, const uint32_t *handles, uint32_t n,
                         struct err *e)
{
    struct cold *c = s->cold;
    if (reserve_marks(s) != 0)
        return err_nomem(e, "marks of rows");
    if (!cut_has(s, p) || !cut_publishing(s))
        TRY(c->parts[p].out.n > 0 ? store_note(s, p, handles, n, e) : 0);
    for (uint32_t i = 0; s->cut != NULL && i < n; i++)
        if (cut_row_promoted(s, p, handles[i]) != 0)
            return err_nomem(e, "rows that come into memory during a save");
    for (uint32_t i = 0; i < n; i++) {
        handle_bit_set(&c->copied, handles[i]);
        c->uses[handles[i]] = COLD_CAME;
    }
    assert(n <= s->parts[p].cold);
    s->parts[p].cold -= n;
    c->promoted += n;
    return 0;
}

// Moves n fetched rows of one partition, from index `begin` on, into memory.
static int promote(struct store *s, uint32_t begin, uint32_t n, struct err *e)
{
    struct cold *c = s->cold;
    struct cold_fetch *x = &c->fetch;
    uint32_t p = x->partitions[begin], *handles = x->handles + begin;
    for (uint32_t i = begin; i < begin + n; i++)
        if (!cold_size_fits(c, x->sizes[i]))
            return cold_damaged(s, x->keys[i], x->sizes[i], e);
    if (c->extra_bytes > 0 && store_reserve_extras(s, n) != 0)
        return err_nomem(e, "rows that come into memory");
    TRY(store_add_rows(s, p, x->keys + begin, n, handles, e));
    for (uint32_t i = 0; i < n; i++)
        fill_row(s, handles[i], x->rows[begin + i], x->sizes[begin + i]);
    int rc = note_promoted(s, p, handles, n, e);
    if (rc != 0)
        store_drop_rows(s, p, handles, n);
    return rc;
}

// Moves those of x's n keys whose rows were found on disk to the front.
// Returns their number.
static uint32_t pack_found(struct cold_fetch *x, uint32_t n)
{
    uint32_t m = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!x->found[i])
            continue;
        x->which[m] = x->which[i];
        x->partitions[m] = x->partitions[i];
        x->keys[m] = x->keys[i];
        x->rows[m] = x->rows[i];
        x->sizes[m] = x->sizes[i];
        m++;
    }
    return m;
}

static int fetch(struct store *s, uint32_t n, uint32_t *ret_handles, struct err *e)
{
    struct cold *c = s->cold;
    struct cold_fetch *x = &c->fetch;
    assert(n <= COLD_FETCH_ROWS);
    TRY(cold_write_waiting(c, e));
    TRY(tier_get(c->tier, x->partitions, x->keys, n, x->found, x->rows, x->sizes, e));
    n = pack_found(x, n);
    for (uint32_t begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && x->partitions[end] == x->partitions[begin];)
            end++;
        TRY(promote(s, begin, end - begin, e));
        for (uint32_t i = begin; i < end; i++)
            ret_handles[x->which[i]] = x->handles[i];
    }
    return 0;
}

int cold_fetch_runs(struct store *s, const struct store_run *runs, uint32_t n_runs,
                    const uint64_t *keys, uint32_t *handles, uint32_t *ret_runs,
                    struct err *e)
{
    struct cold_fetch *x = &s->cold->fetch;
    uint32_t n = 0;
    *ret_runs = 0;
    for (uint32_t r = 0; r < n_runs; r++) {
        if (s->parts[runs[r].partition].cold == 0)
            continue;
        for (uint32_t i = runs[r].begin; i < runs[r].end; i++) {
            if (handles[i] != TABLE_NONE)
                continue;
            x->which[n] = i;
            x->partitions[n] = runs[r].partition;
            x->keys[n++] = keys[i];
            if (n < COLD_FETCH_ROWS)
                continue;
            TRY(fetch(s, n, handles, e));
            n = 0;
            // Run r is not counted yet, because a later fetch of its other rows may fail.
            *ret_runs = r;
        }
    }
    if (n > 0)
        TRY(fetch(s, n, handles, e));
    *ret_runs = n_runs;
    return 0;
}

void cold_used(struct store *s, const uint32_t *handles, size_t n)
{
    struct cold *c = s->cold;
    // If memory for the counts is out, some uses are not counted, and their rows may
    // be demoted too early.
    bool all = reserve_marks(s) == 0;
    for (size_t i = 0; i < n; i++)
        if ((all || handles[i] < c->n_uses) && c->uses[handles[i]] != COLD_USED)
            c->uses[handles[i]]++;
}

// ---------------------------------------------------------------- demoting rows to disk

// Copies a row, in the format of the disk, to c->image.
static uint32_t make_image(const struct store *s, const float *row, const void **ret)
{
    const struct cold *c = s->cold;
    *ret = row;
    if (c->extra_bytes == 0)
        return c->row_bytes;
    const float *extra = store_extra_of(s, row);
    memcpy(c->image, row, c->row_bytes);
    memset(c->image + s->accessor.extra * sizeof(float), 0, sizeof(float));
    *ret = c->image;
    if (extra == NULL)
        return c->row_bytes;
    memcpy(c->image + c->row_bytes, extra, c->extra_bytes);
    return c->row_bytes + c->extra_bytes;
}

static int put_record(struct store *s, uint32_t p, struct err *e)
{
    struct cold *c = s->cold;
    struct cold_part *part = &c->parts[p];
    if (!s->config.cold_durable || (part->recorded && part->day == s->parts[p].day))
        return 0;
    struct buf b = BUF_INIT(INT32_MAX);
    int rc = store_get_partition(s, p, store_time(s, p), &b);
    if (rc == 0)
        rc = tier_put(c->tier, COLD_RECORDS, p, b.data, (uint32_t)b.len, e);
    else
        rc = err_nomem(e, "the state of a partition");
    buf_free(&b);
    TRY(rc);
    c->unwritten++;
    part->recorded = true;
    part->day = s->parts[p].day;
    return 0;
}

int cold_put_rows(struct store *s, uint32_t p, const uint32_t *handles, uint32_t n,
                  struct err *e)
{
    struct cold *c = s->cold;
    if (c->unwritten >= COLD_WAITING)
        TRY(cold_write_waiting(c, e));
    if (reserve_marks(s) != 0)
        return err_nomem(e, "marks of rows");
    TRY(put_record(s, p, e));
    for (uint32_t i = 0; i < n; i++) {
        const void *image;
        uint32_t size = make_image(s, store_row_at(s, handles[i]), &image);
        TRY(tier_put(c->tier, p, store_key_at(s, handles[i]), image, size, e));
        handle_bit_set(&c->copied, handles[i]);
        c->unwritten++;
    }
    return 0;
}

// Writes the first n rows of c->going to disk and drops them from memory.
static int send_out(struct store *s, uint32_t p, uint32_t n, struct err *e)
{
    struct cold *c = s->cold;
    assert(n <= COLD_GO_ROWS && n <= s->parts[p].live);
    struct key_list *published = &c->parts[p].cut_published;
    if (s->config.deltas && (cold_reserve_out(s, p, n) != 0 ||
                             (s->cut != NULL && key_list_reserve(published, n) != 0)))
        return err_nomem(e, "the list of rows for a table's next delta");
    int rc = cold_put_rows(s, p, c->going, n, e);
    for (uint32_t i = 0; i < n; i++) {
        // The end of the base marks rows as published that are in memory or in this list.
        if (rc == 0 && s->cut != NULL &&
            cut_publishes_row(s, p, store_row_at(s, c->going[i])))
            published->at[published->n++] = store_key_at(s, c->going[i]);
        if (rc == 0 && handle_bit(&s->changed, c->going[i]))
            cold_note_out(s, p, store_key_at(s, c->going[i]));
        if (c->going[i] < c->n_uses)
            c->uses[c->going[i]] = 0;
        if (rc == 0)
            handle_bit_clear(&c->copied, c->going[i]);
    }
    TRY(rc);
    store_drop_rows(s, p, c->going, n);
    s->parts[p].cold += n;
    c->demoted += n;
    return 0;
}

static bool may_go(const struct store *s, uint32_t p, uint32_t handle)
{
    return (s->cut == NULL || !cut_keeps(s, p, handle)) &&
           (s->copies == NULL || !parcel_keeps(s, p, handle));
}

// Advances the clock hand (CLOCK replacement), at most once around, until `want` rows are
// chosen. Returns the number of chosen rows.
static uint32_t go_round(struct store *s, uint32_t p, uint32_t want)
{
    struct cold *c = s->cold;
    const struct handle_list *rows = &s->parts[p].rows;
    uint32_t hand = c->parts[p].hand, n = 0;
    assert(want <= COLD_GO_ROWS && rows->n <= rows->cap);
    for (uint32_t step = 0; step < rows->n && n < want; step++) {
        hand = hand < rows->n ? hand : 0;
        uint32_t h = rows->at[hand++];
        if (hand + AHEAD < rows->n)
            __builtin_prefetch(store_row_at(s, rows->at[hand + AHEAD]) - 2);
        if (!store_is_live(s, p, h))
            continue;
        assert(h < c->n_uses); // keep_share has reserved a mark for each handle
        if (c->uses[h] >= 1 && c->uses[h] <= COLD_USED) {
            c->uses[h]--;
        } else if (c->uses[h] != COLD_GOING && may_go(s, p, h)) {
            c->uses[h] = COLD_GOING;
            c->going[n++] = h;
        }
    }
    c->parts[p].hand = hand;
    return n;
}

// Demotes rows until the partition has less than its share of rows in memory. After
// COLD_USED + 2 rounds of the clock hand, every row that may be demoted was chosen. If
// these rows are too few, as during a save, raises the partition's limit, so that the
// next search begins only when the partition has more rows.
static int keep_share(struct store *s, uint32_t p, struct err *e)
{
    struct cold *c = s->cold;
    struct store_part *part = &s->parts[p];
    uint32_t less = c->share / GO_SHARE, floor = c->share - less;
    if (reserve_marks(s) != 0)
        return err_nomem(e, "marks of rows");
    for (uint32_t round = 0; round <= COLD_USED + 1 && part->live > floor;) {
        uint32_t want = part->live - floor;
        want = want < COLD_GO_ROWS ? want : COLD_GO_ROWS;
        uint32_t n = go_round(s, p, want);
        if (n > 0)
            TRY(send_out(s, p, n, e));
        round += n < want;
    }
    c->parts[p].limit = part->live > c->share ? part->live + less + 1 : c->share;
    return 0;
}

// Demotes the rows of a partition that were not seen for cold_after_days days.
static int sweep_unseen(struct store *s, uint32_t p, struct err *e)
{
    struct cold *c = s->cold;
    struct life_time t = store_time(s, p);
    float days = s->accessor.life.cold_after_days;
    uint32_t n = 0;
    if (store_live_rows(s, p, &c->sweep) != 0)
        return err_nomem(e, "rows that go to disk");
    for (uint32_t i = 0; i < c->sweep.n; i++) {
        uint32_t h = c->sweep.at[i];
        float unseen = (float)s->life->unseen(&s->accessor, store_row_at(s, h), t);
        if (unseen <= days || !may_go(s, p, h))
            continue;
        c->going[n++] = h;
        if (n == COLD_GO_ROWS) {
            TRY(send_out(s, p, n, e));
            n = 0;
        }
    }
    if (n > 0)
        TRY(send_out(s, p, n, e));
    c->parts[p].swept = t.day;
    return 0;
}

int cold_demote(struct store *s, uint32_t p, struct err *e)
{
    struct cold *c = s->cold;
    if (s->life->unseen != NULL && c->parts[p].swept != s->parts[p].day)
        TRY(sweep_unseen(s, p, e));
    return s->parts[p].live > c->parts[p].limit ? keep_share(s, p, e) : 0;
}

void cold_forget(struct store *s, uint32_t p, const uint32_t *handles, size_t n)
{
    struct cold *c = s->cold;
    for (size_t i = 0; i < n; i++) {
        if (handles[i] < c->n_uses)
            c->uses[handles[i]] = 0;
        if (!handle_bit(&c->copied, handles[i]))
            continue;
        handle_bit_clear(&c->copied, handles[i]);
        (void)tier_delete(c->tier, p, store_key_at(s, handles[i]), NULL);
        c->unwritten++;
    }
    // A failure is not returned here: the changes stay in the batch, and the next caller
    // that needs the disk gets the error.
    if (c->unwritten >= COLD_WAITING)
        (void)cold_write_waiting(c, NULL);
}
