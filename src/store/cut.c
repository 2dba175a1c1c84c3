// Begins and ends cuts, and copies rows that change meanwhile. See cut_internal.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/cut.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "base/search.h"
#include "store/cut_internal.h"

enum {
    SIDE_BYTES_MIN = 64 << 20,
    STATE_BYTES_MAX = 1 << 30,
    STATE_BYTES_MORE = 64, // bytes of a partition's state, without the state of its entry
                           // policy
    FIND_KEYS = 256,
    AHEAD = 16, // number of rows that are prefetched ahead
};

bool cut_going(const struct store *s)
{
    return s->cut != NULL;
}

enum save_mode cut_mode(const struct store *s)
{
    return s->cut->o.mode;
}

uint32_t cut_day(const struct store *s)
{
    uint32_t day = 0;
    for (uint32_t p = 0; p < s->n_parts; p++)
        if (!s->cut->parts[p].out && cut_time(s->cut, p).day > day)
            day = cut_time(s->cut, p).day;
    return day;
}

struct cut_stats cut_stats(const struct store *s)
{
    return s->cut != NULL ? s->cut->stats : (struct cut_stats){0};
}

static void free_part(struct cut_part *x)
{
    buf_free(&x->state);
    mem_free(x->copies.at);
    mem_free(x->promoted.at);
    mem_free(x->changed.at);
    mem_free(x->kept.at);
    mem_free(x->published.at);
    mem_free(x->gone.at);
}

static void free_cut(struct cut *c, uint32_t n_parts)
{
    for (uint32_t p = 0; c->parts != NULL && p < n_parts; p++)
        free_part(&c->parts[p]);
    side_close(&c->side);
    mem_free(c->parts);
    mem_free(c->made.words);
    mem_free(c->copied.words);
    mem_free(c->changed.words);
    mem_free(c->entries);
    mem_free(c->gone.at);
    mem_free(c->block);
    mem_free(c);
}

void cut_close(struct store *s)
{
    if (s->cut != NULL)
        free_cut(s->cut, s->n_parts);
    s->cut = NULL;
}

static int check_begin(const struct store *s, enum save_mode mode, struct err *e)
{
    const char *name = s->config.name;
    if (s->cut != NULL)
        return err_set(e, TUG_EUSAGE,
                       "table %s: a save (%s) is in progress; the next one can begin "
                       "when it has ended",
                       name, save_mode_name(s->cut->o.mode));
    if (s->admin_at < s->n_parts)
        return err_set(
            e, TUG_EUSAGE,
            "table %s: an admin operation (shrink, clear, or the end of a save) is in "
            "progress; a save can begin when it has ended",
            name);
    if (mode == SAVE_DELTA && !s->config.deltas)
        return err_set(e, TUG_EUSAGE,
                       "table %s: a delta cannot be saved, because the table does not "
                       "note which rows change; set deltas = yes for it, or save a base",
                       name);
    for (uint32_t p = 0; p < s->n_parts && mode == SAVE_DELTA; p++)
        if (!s->parts[p].backup && s->parts[p].gone_lost)
            return err_set(e, TUG_EUSAGE,
                           "table %s: more rows were removed since the last base than a "
                           "delta can list; save a base",
                           name);
    return 0;
}

static uint64_t default_side_bytes(const struct store *s)
{
    uint64_t tenth = store_stats(s).bytes / 10;
    return tenth > SIDE_BYTES_MIN ? tenth : SIDE_BYTES_MIN;
}

static int open_cut(const struct store *s, const struct cut_options *o, struct cut **ret)
{
    struct cut *c = mem_zalloc(sizeof(*c));
    if (c == NULL)
        return TUG_ENOMEM;
    c->o = *o;
    if (o->side_bytes == 0)
        c->o.side_bytes = default_side_bytes(s);
    c->step = s->step;
    int rc = side_open(&c->side, s->accessor.width, s->accessor.extra_width);
    c->parts = mem_zalloc(s->n_parts * sizeof(*c->parts));
    if (rc == 0 && cut_publishes(c)) // cut_begin exchanges c->changed with the store's
                                     // bits
        rc = handle_bits_reserve(&c->changed, table_handles(s->rows));
    if (rc != 0 || c->parts == NULL) {
        free_cut(c, 0);
        return TUG_ENOMEM;
    }
    *ret = c;
    return 0;
}

static void swap_bits(struct handle_bits *a, struct handle_bits *b)
{
    struct handle_bits x = *a;
    *a = *b;
    *b = x;
}

// Records the state of a partition at the beginning of the cut, and takes over its
// lists of changed rows.
static void note_part(struct store *s, struct cut *c, uint32_t p)
{
    struct store_part *from = &s->parts[p];
    bool out = from->backup;
    c->parts[p] = (struct cut_part){
        .out = out,
        .n_rows = out ? 0 : from->rows.n,
        .day = from->day,
        .state = BUF_INIT(STATE_BYTES_MAX),
    };
    if (!cut_publishes(c) || out)
        return;
    c->parts[p].changed = from->changed;
    c->parts[p].gone = from->gone;
    c->parts[p].gone_lost = from->gone_lost;
    from->gone_lost = false;
    from->changed = (struct handle_list){0};
    from->gone = (struct key_list){0};
}

// Gives the bits of changed rows of partitions that do not belong to the cut back to the
// store.
static void keep_others(struct store *s, struct cut *c)
{
    for (uint32_t p = 0; p < s->n_parts; p++) {
        const struct handle_list *l = &s->parts[p].changed;
        for (uint32_t i = 0; i < l->n && c->parts[p].out; i++) {
            uint32_t h = l->at[i];
            if (!handle_bit(&c->changed, h) || !store_is_live(s, p, h))
                continue;
            handle_bit_clear(&c->changed, h);
            handle_bit_set(&s->changed, h); // open_cut has made room
        }
    }
}

int cut_begin(struct store *s, const struct cut_options *o, struct err *e)
{
    struct cut *c;
    TRY(check_begin(s, o->mode, e));
    if (open_cut(s, o, &c) != 0)
        return err_nomem(e, "a save");
    for (uint32_t p = 0; p < s->n_parts; p++)
        note_part(s, c, p);
    if (cut_publishes(c)) {
        swap_bits(&c->changed, &s->changed);
        keep_others(s, c);
    }
    if (cut_publishes(c) && s->cold != NULL)
        cold_cut_begin(s);
    if (o->mode == SAVE_DAY && !o->keeps_day)
        store_day(s);
    s->cut = c;
    return 0;
}

void cut_note_peak(struct cut *c)
{
    uint64_t bytes = side_bytes(&c->side) + c->state_bytes;
    if (bytes > c->stats.side_peak)
        c->stats.side_peak = bytes;
}

// Returns whether the row of a handle belongs to the cut and is not copied yet. Only rows
// that had changed before the cut belong to the cut of a delta.
static bool is_wanted(const struct cut *c, uint32_t handle)
{
    return !handle_bit(&c->copied, handle) &&
           (c->o.mode != SAVE_DELTA || handle_bit(&c->changed, handle));
}

static struct table_entry *find_key(struct table_entry *x, size_t n, uint64_t key)
{
    size_t at = search_first(0, n, i, x[i].key >= key);
    return at < n && x[at].key == key ? &x[at] : NULL;
}

// Returns the entry of a row of the current partition if it is still to be written,
// otherwise NULL.
static struct table_entry *find_entry(const struct cut *c, uint64_t key)
{
    struct table_entry *x = find_key(c->entries + c->rows_at, c->n_entries - c->rows_at,
                                     key);
    return x != NULL ? x : find_key(c->entries, c->n_extras, key);
}

int cut_add_copy(struct store *s, uint32_t p, uint64_t key, const float *row,
                 const float *extra)
{
    struct handle_list *to = &s->cut->parts[p].copies;
    TRY(handle_list_reserve(to, 1));
    TRY(side_add(&s->cut->side, key, row, extra, &to->at[to->n]));
    to->n++;
    return 0;
}

static int copy_row(struct store *s, struct cut *c, uint32_t p, uint32_t handle)
{
    bool sorted = cut_is_sorted(c, p);
    assert(!cut_read_out(c, p) && store_is_live(s, p, handle));
    const float *row = store_row_at(s, handle);
    uint64_t key = table_row_key(row);
    struct table_entry *entry = sorted ? find_entry(c, key) : NULL;
    if (!sorted || entry != NULL) {
        TRY(cut_add_copy(s, p, key, row, store_extra_of(s, row)));
        c->stats.copied++;
    }
    assert(entry == NULL || entry->handle == handle);
    if (entry != NULL)
        entry->handle = c->parts[p].copies.at[c->parts[p].copies.n - 1] | CUT_COPY;
    handle_bit_set(&c->copied, handle);
    return 0;
}

static bool has_bytes(const struct cut *c, uint64_t more)
{
    return side_bytes(&c->side) + c->state_bytes + more <= c->o.side_bytes;
}

bool cut_crowded(const struct store *s)
{
    return !has_bytes(s->cut, s->cut->o.side_bytes / 2);
}

static int no_room(const struct store *s, struct err *e)
{
    return err_set(e, TUG_EUSAGE,
                   "table %s: rows cannot change now, because the save in progress has "
                   "no room left for copies of them; finish the save first",
                   s->config.name);
}

static void prefetch_row(const struct store *s, uint32_t handle)
{
    const float *row = store_row_at(s, handle);
    table_row_prefetch((const float *)((const char *)row - sizeof(uint64_t)),
                       sizeof(uint64_t) + s->accessor.width * sizeof(float));
}

bool cut_wants(const struct store *s, const uint64_t *keys, const uint32_t *handles,
               size_t n)
{
    const struct cut *c = s->cut;
    for (size_t i = 0; i < n; i++)
        if (is_wanted(c, handles[i]) && !cut_read_out(c, store_partition(s, keys[i])))
            return true;
    return false;
}

void cut_prefetch(const struct store *s, uint32_t p, const uint32_t *handles, size_t n)
{
    const struct cut *c = s->cut;
    for (size_t i = 0; i < n && i < AHEAD && !cut_read_out(c, p); i++)
        if (handles[i] != TABLE_NONE && is_wanted(c, handles[i]))
            prefetch_row(s, handles[i]);
}

int cut_before_change(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                      struct err *e)
{
    struct cut *c = s->cut;
    uint64_t copies = 0;
    assert(p < s->n_parts);
    if (cut_read_out(c, p))
        return 0;
    for (size_t i = 0; i < n; i++)
        copies += is_wanted(c, handles[i]);
    if (!has_bytes(c, copies * side_row_bytes(&c->side)))
        return no_room(s, e);
    int rc = handle_bits_reserve(&c->copied, table_handles(s->rows));
    for (size_t i = 0; i < n && copies > 0 && rc == 0; i++) {
        if (i + AHEAD < n)
            prefetch_row(s, handles[i + AHEAD]);
        if (is_wanted(c, handles[i]))
            rc = copy_row(s, c, p, handles[i]);
    }
    cut_note_peak(c);
    return rc == 0 ? 0 : err_nomem(e, "copies of rows that change during a save");
}

int cut_row_made(struct store *s, uint32_t p, uint32_t handle)
{
    // The bit is set whatever p is, even if p was read out: the handle may earlier have
    // had a row of another partition, which is not read out yet.
    (void)p;
    struct cut *c = s->cut;
    TRY(handle_bits_reserve(&c->made, table_handles(s->rows)));
    TRY(handle_bits_reserve(&c->copied, table_handles(s->rows)));
    handle_bit_set(&c->made, handle);
    handle_bit_set(&c->copied, handle);
    return 0;
}

int cut_row_promoted(struct store *s, uint32_t p, uint32_t handle)
{
    struct cut *c = s->cut;
    bool copied_already = p == c->at && c->stage != CUT_BEGIN;
    if (cut_read_out(c, p) || copied_already)
        return cut_row_made(s, p, handle);
    // The row may have changed before the cut, when it was in memory earlier
    // (cold_delta.c), so a delta needs it.
    if (c->o.mode == SAVE_DELTA) {
        TRY(handle_bits_reserve(&c->changed, table_handles(s->rows)));
        TRY(handle_list_add(&c->parts[p].changed, handle));
        handle_bit_clear(&c->made, handle);
        handle_bit_clear(&c->copied, handle);
        handle_bit_set(&c->changed, handle);
        return 0;
    }
    TRY(handle_list_add(&c->parts[p].promoted, handle));
    handle_bit_clear(&c->made, handle);
    handle_bit_clear(&c->copied, handle);
    handle_bit_clear(&c->changed, handle);
    return 0;
}

bool cut_has(const struct store *s, uint32_t p)
{
    return s->cut != NULL && !s->cut->parts[p].out;
}

bool cut_publishing(const struct store *s)
{
    return cut_publishes(s->cut);
}

bool cut_keeps(const struct store *s, uint32_t p, uint32_t handle)
{
    const struct cut *c = s->cut;
    if (c->parts[p].out)
        return false;
    // A row that has changed since its publication stays in memory until the cut ends. If
    // it were demoted and promoted again, it would count as published.
    return !cut_read_out(c, p) || handle_bit(&c->changed, handle) ||
           (cut_publishes(c) && handle_bit(&s->changed, handle));
}

static bool wants_state(const struct cut *c, uint32_t p)
{
    bool written = cut_read_out(c, p) || (p == c->at && c->stage > CUT_PARTITION);
    return !cut_publishes(c) && !written && !c->parts[p].admitted;
}

static uint64_t state_need(const struct store *s, uint32_t p)
{
    const struct entry *entry = s->parts[p].entry;
    return entry != NULL ? entry_bytes(entry) + STATE_BYTES_MORE : 0;
}

int cut_before_admit(struct store *s, uint32_t p, struct err *e)
{
    struct cut *c = s->cut;
    struct cut_part *x = &c->parts[p];
    if (!wants_state(c, p))
        return 0;
    if (!has_bytes(c, state_need(s, p)))
        return no_room(s, e);
    buf_clear(&x->state);
    if (store_get_partition(s, p, cut_time(c, p), &x->state) != 0)
        return err_nomem(e, "the entry policy's state at the beginning of a save");
    x->admitted = true;
    c->state_bytes += x->state.cap;
    cut_note_peak(c);
    return 0;
}

// Returns the bytes that a cut needs for a push to n keys of partition p, without the
// copies of their rows.
static uint64_t part_need(const struct store *s, uint32_t p, size_t n)
{
    const struct cut *c = s->cut;
    const struct store_part *part = &s->parts[p];
    uint64_t bytes = 0;
    if (wants_state(c, p))
        bytes += state_need(s, p);
    if (s->config.budget_rows > 0 && !cut_read_out(c, p))
        bytes += store_over_budget(s, part->live + (uint32_t)n) *
                 side_row_bytes(&c->side);
    return bytes;
}

// Returns the bytes that a cut needs for a push to keys of several partitions, without
// the copies of rows. The partitions of the keys must ascend.
static uint64_t parts_need(const struct store *s, const uint64_t *keys, size_t n)
{
    uint64_t bytes = 0;
    if (!s->admits && s->config.budget_rows == 0)
        return 0;
    for (size_t i = 0, end; i < n; i = end) {
        uint32_t p = store_partition(s, keys[i]);
        for (end = i + 1; end < n && store_partition(s, keys[end]) == p;)
            end++;
        bytes += part_need(s, p, end - i);
    }
    return bytes;
}

// Returns the largest number of rows that a push to these keys copies.
static uint64_t count_copies(const struct store *s, const uint64_t *keys, size_t n)
{
    const struct cut *c = s->cut;
    uint32_t handles[FIND_KEYS];
    uint64_t copies = 0;
    for (size_t at = 0; at < n; at += FIND_KEYS) {
        size_t len = n - at < FIND_KEYS ? n - at : FIND_KEYS;
        table_find(s->rows, keys + at, len, handles);
        for (size_t i = 0; i < len; i++) {
            uint32_t p = store_partition(s, keys[at + i]);
            bool wanted = handles[i] == TABLE_NONE ? s->parts[p].cold > 0
                                                   : is_wanted(c, handles[i]);
            copies += wanted && !cut_read_out(c, p);
        }
    }
    return copies;
}

bool cut_has_room(const struct store *s, const uint64_t *keys, size_t n)
{
    const struct cut *c = s->cut;
    if (c == NULL)
        return true;
    uint64_t need = parts_need(s, keys, n), row = side_row_bytes(&c->side);
    // Looking up keys takes time, so it is only done if copies of all their rows would
    // not fit.
    return has_bytes(c, need + n * row) ||
           has_bytes(c, need + count_copies(s, keys, n) * row);
}

// Adds the handles in `list`, of rows that had changed before the cut, to the handles
// that the store has recorded since.
static int give_back_changed(struct store *s, uint32_t p, struct handle_list *list)
{
    const struct cut *c = s->cut;
    struct store_part *to = &s->parts[p];
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t h = list->at[i];
        if (!handle_bit(&c->changed, h) || handle_bit(&s->changed, h) ||
            !store_is_live(s, p, h))
            continue;
        TRY(handle_bits_reserve(&s->changed, h + 1));
        TRY(handle_list_add(&to->changed, h));
        handle_bit_set(&s->changed, h);
    }
    mem_free(list->at);
    *list = (struct handle_list){0};
    return 0;
}

static int give_back_gone(struct store *s, uint32_t p, struct key_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        TRY(key_list_add(&s->parts[p].gone, list->at[i]));
    mem_free(list->at);
    *list = (struct key_list){0};
    return 0;
}

// Gives the list of written rows in memory to the operation STORE_PUBLISHED. Handles that
// have the row of another key by now are left out.
static void give_published(struct store *s, uint32_t p, struct handle_list *list)
{
    const struct cut *c = s->cut;
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++)
        if (!handle_bit(&c->made, list->at[i]))
            list->at[n++] = list->at[i];
    list->n = n;
    assert(s->parts[p].published.n ==
           // the operation STORE_PUBLISHED has emptied the list after the previous cut
           0);
    mem_free(s->parts[p].published.at);
    s->parts[p].published = *list;
    *list = (struct handle_list){0};
}

static int cut_give_back(struct store *s, bool committed)
{
    struct cut *c = s->cut;
    for (uint32_t p = 0; p < s->n_parts; p++) {
        struct cut_part *x = &c->parts[p];
        TRY(give_back_changed(s, p, committed ? &x->kept : &x->changed));
        if (!committed)
            TRY(give_back_gone(s, p, &x->gone));
        if (!committed && x->gone_lost)
            s->parts[p].gone_lost = true;
    }
    return 0;
}

int cut_end(struct store *s, bool committed, struct err *e)
{
    struct cut *c = s->cut;
    if (c == NULL)
        return err_set(e, TUG_EUSAGE, "table %s: no save is in progress", s->config.name);
    if (committed && c->at < s->n_parts)
        return err_set(e, TUG_EUSAGE,
                       "table %s: a save was committed before all of it was read out",
                       s->config.name);
    // The copies of a partition were freed when it was read out, so no copies are left.
    assert(!committed || (c->side.rows.used == 0 && c->side.extras.used == 0));
    assert(!committed || c->state_bytes == 0);
    bool cold = cut_publishes(c) && s->cold != NULL;
    if (cut_give_back(s, committed) != 0 || (cold && cold_cut_end(s, committed) != 0))
        return err_nomem(e, "the rows that a save did not publish");
    bool published = committed && cut_publishes(c) && s->config.deltas;
    for (uint32_t p = 0; p < s->n_parts && published; p++)
        give_published(s, p, &c->parts[p].published);
    if (published) {
        s->published_mode = c->o.mode;
        s->published_step = c->step;
    }
    cut_close(s);
    return published ? store_admin(s, STORE_PUBLISHED, NAN, e) : 0;
}
