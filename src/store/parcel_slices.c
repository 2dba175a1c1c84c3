// A partition in slices, so that neither its owner nor the store that gets it stops other
// requests for longer than a slice takes. See parcel.h.
//
// A slice has blocks of rows, extra rows and changes; the last slice also has the state, the
// removed keys and the number of rows. A row counts as copied if its handle's bit is set;
// parcel_cold.c is for partitions with rows on disk.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/parcel_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "store/cold.h"

enum {
    SLICE_BYTES = 128 << 10, // most bytes of rows in a slice; one larger row is a slice
                             // of its own
    // Most entries of the partition's list that are looked at for one slice.
    SLICE_LOOKS = 16384,
    FIND = 256,
    AHEAD = 16,
};

struct parcel_copy {
    struct parcel_copy *next;
    struct store *s; // the store that is copied; NULL: it was closed
    uint32_t p;
    uint32_t at; // entries of the partition's list before this one were copied
    struct handle_bits copied;
    struct parcel_cold *cold; // if the store has a tier; else NULL
    struct key_list removed;
    // The copy is useless: a removed row could not be recorded, or a slice failed.
    bool broken;
    bool done;
};

bool parcel_has_slices(const struct store *s)
{
    return s->config.budget_rows == 0 || s->life->score != NULL;
}

// Returns the most bytes of a row in a slice.
static size_t row_bytes(const struct store *s)
{
    const struct accessor *a = &s->accessor;
    size_t extra = a->extra_width > 0 ? sizeof(uint64_t) : 0;
    return sizeof(uint64_t) + extra + (a->width + a->extra_width) * sizeof(float);
}

// Returns the most rows of a slice.
static uint32_t slice_rows(const struct store *s)
{
    size_t most = SLICE_BYTES / row_bytes(s) + 1;
    return most < PARCEL_SLICE_ROWS ? (uint32_t)most : PARCEL_SLICE_ROWS;
}

int parcel_copy_open(struct parcel_copy **ret, struct store *s, uint32_t partition,
                     struct err *e)
{
    struct parcel_copy *c = mem_zalloc(sizeof(*c));
    assert(partition < s->n_parts && parcel_has_slices(s));
    *ret = c;
    if (c == NULL)
        return err_nomem(e, "a copy of a partition");
    if (s->cold != NULL && parcel_cold_open(&c->cold, s, partition, slice_rows(s)) != 0) {
        parcel_copy_close(c);
        *ret = NULL;
        return err_nomem(e, "a copy of a partition");
    }
    c->s = s;
    c->p = partition;
    c->next = s->copies;
    s->copies = c;
    return 0;
}

void parcel_copy_close(struct parcel_copy *c)
{
    if (c == NULL)
        return;
    if (c->s != NULL) {
        struct parcel_copy **at = &c->s->copies;
        while (*at != c)
            at = &(*at)->next;
        *at = c->next;
    }
    parcel_cold_close(c->cold);
    mem_free(c->copied.words);
    mem_free(c->removed.at);
    mem_free(c);
}

void parcel_copies_end(struct store *s)
{
    for (struct parcel_copy *c = s->copies; c != NULL; c = c->next)
        c->s = NULL;
    s->copies = NULL;
}

bool parcel_is_copied(const struct store *s, uint32_t p)
{
    const struct parcel_copy *c = s->copies;
    while (c != NULL && (c->p != p || c->cold != NULL))
        c = c->next;
    return c != NULL;
}

bool parcel_keeps(const struct store *s, uint32_t p, uint32_t handle)
{
    for (const struct parcel_copy *c = s->copies; c != NULL; c = c->next)
        if (c->p == p && c->cold != NULL && parcel_cold_keeps(c->cold, handle))
            return true;
    return false;
}

void parcel_rows_made(struct store *s, uint32_t p, const uint32_t *handles, size_t n)
{
    for (struct parcel_copy *c = s->copies; c != NULL; c = c->next)
        if (c->p == p && c->cold != NULL && !c->done)
            c->broken |= parcel_cold_made(c->cold, s, handles, n) != 0;
}

void parcel_rows_leave(struct store *s, uint32_t p, const uint32_t *handles, size_t n)
{
    for (struct parcel_copy *c = s->copies; c != NULL; c = c->next)
        for (size_t i = 0; i < n && c->p == p && c->cold != NULL && !c->done; i++) {
            uint64_t key = store_key_at(s, handles[i]);
            if (parcel_cold_has(c->cold, key, handles[i]))
                c->broken |= key_list_add(&c->removed, key) != 0;
        }
}

void parcel_rows_go(struct store *s, uint32_t p, const uint32_t *handles, size_t n)
{
    for (struct parcel_copy *c = s->copies; c != NULL; c = c->next) {
        for (size_t i = 0; i < n && c->p == p && !c->done; i++) {
            if (c->cold != NULL)
                parcel_cold_go(c->cold, handles[i]);
            if (!handle_bit(&c->copied, handles[i]))
                continue;
            handle_bit_clear(&c->copied, handles[i]);
            c->broken |= key_list_add(&c->removed, store_key_at(s, handles[i])) != 0;
        }
    }
}

static bool has_copied(const struct parcel_copy *c, uint64_t key, uint32_t handle)
{
    if (c->s == NULL || handle == TABLE_NONE)
        return false;
    return c->cold != NULL ? parcel_cold_has(c->cold, key, handle)
                           : handle_bit(&c->copied, handle);
}

void parcel_copy_find(const struct parcel_copy *c, const uint64_t *keys, size_t n,
                      bool *ret_copied)
{
    uint32_t handles[FIND];
    for (size_t at = 0, len; at < n; at += len) {
        len = n - at < FIND ? n - at : FIND;
        if (c->s != NULL)
            table_find(c->s->rows, keys + at, len, handles);
        for (size_t i = 0; i < len; i++)
            ret_copied[at + i] = has_copied(c, keys[at + i], handles[i]);
    }
}

const uint64_t *parcel_copy_removed(const struct parcel_copy *c, size_t *ret_n)
{
    *ret_n = c->removed.n;
    return c->removed.at;
}

void parcel_copy_told(struct parcel_copy *c)
{
    c->removed.n = 0;
}

uint64_t parcel_copy_left(const struct parcel_copy *c)
{
    if (c->s == NULL || c->done)
        return 0;
    uint64_t rows = c->cold != NULL ? parcel_cold_left(c->cold, c->s, c->p)
                                    : c->s->parts[c->p].rows.n - c->at;
    return rows * row_bytes(c->s);
}

// ---------------------------------------------------------------- writing

// Chooses the rows of the next slice. Marks them as copied at once, because the list may
// have a handle twice. Returns the index in the list at which the slice ends.
static uint32_t slice_choose(struct parcel_copy *c, struct parcel_slice *x)
{
    const struct store *s = c->s;
    const struct handle_list *l = &s->parts[c->p].rows;
    uint32_t most = slice_rows(s);
    uint32_t at = c->at, end = l->n - at < SLICE_LOOKS ? l->n : at + SLICE_LOOKS;
    for (x->n = 0; at < end && x->n < most; at++) {
        if (at + AHEAD < end)
            __builtin_prefetch(store_row_at(s, l->at[at + AHEAD]) - 2);
        uint32_t h = l->at[at];
        if (handle_bit(&c->copied, h) || !store_is_live(s, c->p, h))
            continue;
        handle_bit_set(&c->copied, h);
        x->handles[x->n] = h;
        x->rows[x->n] = store_row_at(s, h);
        x->extras[x->n] = store_extra_of(s, x->rows[x->n]);
        x->keys[x->n++] = store_key_at(s, h);
    }
    return at;
}

static int slice_add_rows(const struct store *s, const struct parcel_slice *x,
                          struct buf *to, struct err *e)
{
    const struct accessor *a = &s->accessor;
    size_t bytes = a->width * sizeof(float);
    TRY(parcel_add_keys(to, PARCEL_ROWS, x->keys, x->n, e));
    TRY(parcel_reserve(to, x->n * bytes, e));
    for (uint32_t i = 0; i < x->n; i++) {
        float *copy = (float *)(void *)(to->data + to->len);
        // Cannot fail: the room was reserved.
        (void)buf_add(to, x->rows[i], bytes);
        // Zeroes the handle of the extra row, which has no meaning outside this store.
        if (a->extra_width > 0)
            accessor_set_extra(a, copy, TABLE_NONE);
    }
    parcel_pad(to);
    return 0;
}

static int add_extras(const struct store *s, const struct parcel_slice *x, struct buf *to,
                      struct err *e)
{
    size_t bytes = s->accessor.extra_width * sizeof(float), n = 0;
    uint64_t keys[PARCEL_SLICE_ROWS];
    const float *extras[PARCEL_SLICE_ROWS];
    for (uint32_t i = 0; i < x->n && bytes > 0; i++) {
        extras[n] = x->extras[i];
        keys[n] = x->keys[i];
        n += extras[n] != NULL;
    }
    if (n == 0)
        return 0;
    TRY(parcel_add_keys(to, PARCEL_EXTRAS, keys, n, e));
    TRY(parcel_reserve(to, n * bytes, e));
    for (size_t i = 0; i < n; i++)
        (void)buf_add(to, extras[i], bytes); // cannot fail: the room was reserved
    parcel_pad(to);
    return 0;
}

// Appends the keys of those rows of the slice that have changed. The last slice also has the
// keys of all changed rows on disk.
static int add_changed(const struct parcel_copy *c, const struct parcel_slice *x,
                       bool last, struct buf *to, struct err *e)
{
    const struct store *s = c->s;
    const struct key_list *out = last && c->cold != NULL ? &s->cold->parts[c->p].out
                                                         : NULL;
    uint64_t keys[PARCEL_SLICE_ROWS];
    size_t n = 0, n_out = out != NULL ? out->n : 0;
    for (uint32_t i = 0; i < x->n; i++)
        if (x->handles[i] != TABLE_NONE && handle_bit(&s->changed, x->handles[i]))
            keys[n++] = x->keys[i];
    if (n + n_out == 0)
        return 0;
    TRY(parcel_add_block(to, PARCEL_CHANGED, n + n_out, e));
    TRY(parcel_add(to, keys, n * sizeof(*keys), e));
    return n_out > 0 ? parcel_add(to, out->at, n_out * sizeof(*keys), e) : 0;
}

// Chooses the rows of the next slice. Sets *ret_last to whether no rows are left.
static int choose(struct parcel_copy *c, struct parcel_slice *x, bool *ret_last,
                  struct err *e)
{
    if (c->cold != NULL) {
        TRY(parcel_cold_next(c->cold, c->s, c->p, x, e));
        *ret_last = parcel_cold_done(c->cold);
        return 0;
    }
    if (handle_bits_reserve(&c->copied, table_handles(c->s->rows)) != 0)
        return err_nomem(e, "a copy of a partition");
    c->at = slice_choose(c, x);
    *ret_last = c->at == c->s->parts[c->p].rows.n;
    return 0;
}

static int add_slice(struct parcel_copy *c, bool *ret_last, struct buf *to, struct err *e)
{
    const struct store *s = c->s;
    struct parcel_slice x;
    TRY(choose(c, &x, ret_last, e));
    if (x.n > 0) {
        TRY(slice_add_rows(s, &x, to, e));
        TRY(add_extras(s, &x, to, e));
    }
    return add_changed(c, &x, *ret_last, to, e);
}

static int add_last(const struct parcel_copy *c, struct buf *to, struct err *e)
{
    const struct store_part *part = &c->s->parts[c->p];
    struct parcel_total total = {store_rows_of(c->s, c->p), part->published_by,
                                 part->gone_lost};
    TRY(parcel_add_state(c->s, c->p, to, e));
    TRY(parcel_add_keys(to, PARCEL_GONE, part->gone.at, part->gone.n, e));
    TRY(parcel_add_block(to, PARCEL_TOTAL, 1, e));
    return parcel_add(to, &total, sizeof(total), e);
}

int parcel_copy_next(struct parcel_copy *c, struct buf *to, bool *ret_last, struct err *e)
{
    size_t len = to->len;
    bool last = false;
    *ret_last = false;
    if (c->s == NULL)
        return err_set(e, TUG_EINTERRUPTED,
                       "the table was dropped while a partition moved");
    if (c->broken)
        return err_nomem(e, "a copy of a partition");
    assert(!c->done && c->removed.n == 0);
    int rc = add_slice(c, &last, to, e);
    if (rc == 0 && last)
        rc = add_last(c, to, e);
    if (rc != 0) {
        c->broken = true;
        to->len = len;
    }
    c->done = *ret_last = rc == 0 && last;
    return rc;
}

// ---------------------------------------------------------------- reading

// Returns whether a block of this kind may follow one of kind `before`: rows, extra rows,
// changes; then state, removed keys, total.
static bool may_follow(uint32_t kind, uint32_t before)
{
    if (kind == PARCEL_STATE)
        return before != PARCEL_STATE && before <= PARCEL_CHANGED;
    if (kind == PARCEL_GONE || kind == PARCEL_TOTAL)
        return before == (kind == PARCEL_GONE ? PARCEL_STATE : PARCEL_GONE);
    return kind <= PARCEL_CHANGED && kind > before && before != PARCEL_STATE;
}

// Checks the blocks of a slice. The content of PARCEL_STATE is checked later,
// by store_put_partition.
static int check_slice(struct parcel_reader *r, struct err *e)
{
    uint32_t before = 0;
    if ((uintptr_t)r->bytes % sizeof(uint64_t) != 0)
        return parcel_is_damaged(r, e);
    for (r->at = 0; r->at < r->n;) {
        const struct parcel_block *b = parcel_take(r, sizeof(*b));
        const uint64_t *keys = NULL;
        if (b == NULL || !may_follow(b->kind, before))
            return parcel_is_damaged(r, e);
        before = b->kind;
        bool whole = b->kind == PARCEL_TOTAL
                         ? b->n == 1 &&
                               parcel_take(r, sizeof(struct parcel_total)) != NULL
                         : parcel_skip_block(r, b, &keys);
        if (!whole)
            return parcel_is_damaged(r, e);
        if (keys != NULL)
            TRY(parcel_check_keys(r, keys, b->n, e));
    }
    return 0;
}

// Puts rows; none of them counts as changed.
static int put_rows(struct parcel_reader *r, uint32_t n, struct err *e)
{
    struct store *s = r->s;
    struct handle_list *changed = &s->parts[r->p].changed;
    uint32_t noted = changed->n;
    const uint64_t *keys;
    const float *rows;
    (void)parcel_take_keys(r, n, s->accessor.width, &keys, &rows);
    int rc = store_put_rows(s, keys, n, rows, e);
    for (uint32_t i = noted; i < changed->n; i++)
        handle_bit_clear(&s->changed, changed->at[i]);
    changed->n = noted < changed->n ? noted : changed->n;
    // TUG_EUSAGE: the slice has a key twice.
    return rc == TUG_EUSAGE ? parcel_is_damaged(r, e) : rc;
}

static int note_changed(struct store *s, uint32_t p, const uint64_t *keys, uint32_t n,
                        struct err *e)
{
    uint32_t handles[FIND];
    for (uint32_t at = 0, len; at < n && s->config.deltas; at += len) {
        uint32_t found = 0;
        len = n - at < FIND ? n - at : FIND;
        table_find(s->rows, keys + at, len, handles);
        if (s->cold != NULL && cold_reserve_out(s, p, len) != 0)
            return err_nomem(e, "the notes for deltas");
        for (uint32_t i = 0; i < len; i++) {
            if (handles[i] != TABLE_NONE)
                handles[found++] = handles[i];
            else if (s->cold != NULL)
                cold_note_out(s, p, keys[at + i]);
        }
        TRY(store_note(s, p, handles, found, e));
    }
    return 0;
}

static int put_total(struct parcel_reader *r, struct err *e)
{
    struct store_part *part = &r->s->parts[r->p];
    struct parcel_total total;
    memcpy(&total, parcel_take(r, sizeof(total)), sizeof(total));
    if ((uint64_t)part->live + part->cold != total.rows || total.gone_lost > 1)
        return parcel_is_damaged(r, e); // rows are missing, or were put twice
    part->gone_lost = total.gone_lost != 0;
    part->published_by = total.published_by;
    return 0;
}

static int put_block(struct parcel_reader *r, const struct parcel_block *b, struct err *e)
{
    const uint64_t *keys;
    const float *rows;
    switch (b->kind) {
    case PARCEL_STATE:
        return store_put_partition(r->s, r->p, parcel_take(r, b->n), b->n, e);
    case PARCEL_ROWS:
        return put_rows(r, b->n, e);
    case PARCEL_EXTRAS:
        (void)parcel_take_keys(r, b->n, r->s->accessor.extra_width, &keys, &rows);
        return store_put_extras(r->s, keys, b->n, rows, e);
    case PARCEL_TOTAL:
        return put_total(r, e);
    default:
        (void)parcel_take_keys(r, b->n, 0, &keys, &rows);
        return b->kind == PARCEL_CHANGED ? note_changed(r->s, r->p, keys, b->n, e)
                                         : parcel_put_gone(r->s, r->p, keys, b->n, e);
    }
}

int parcel_slice_put(struct store *s, uint32_t partition, const void *bytes, size_t n,
                     bool *ret_last, struct err *e)
{
    struct parcel_reader r = {.s = s, .p = partition, .bytes = bytes, .n = n};
    uint64_t made = s->stats.made;
    int rc = 0;
    assert(partition < s->n_parts && s->cut == NULL);
    *ret_last = false;
    if (!parcel_has_slices(s)) // servers send the rows of such a table in one parcel
        return parcel_is_damaged(&r, e);
    TRY(store_turn(s, partition, e));
    TRY(check_slice(&r, e));
    if (s->cold != NULL) // now, so that none of the slice's rows is demoted at once
        TRY(cold_demote(s, partition, e));
    for (r.at = 0; r.at < n && rc == 0;) {
        const struct parcel_block *b = parcel_take(&r, sizeof(*b));
        *ret_last = b->kind == PARCEL_TOTAL;
        rc = put_block(&r, b, e);
    }
    // The rows do not count as made here, because they were counted in the store that made
    // them.
    s->stats.made = made;
    return rc;
}
