// The format: a head, blocks of rows and keys, and an end with a hash of all before it.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/parcel_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "store/cold.h"
#include "store/gather.h"

enum { ALIGN = 8 };

static size_t padded(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

// ---------------------------------------------------------------- writing

int parcel_reserve(struct buf *to, size_t n, struct err *e)
{
    assert(to->len % ALIGN == 0);
    return buf_reserve(to, padded(n)) == 0 ? 0
                                           : buf_error(to, "the bytes of a partition", e);
}

void parcel_pad(struct buf *to)
{
    static const char zeros[ALIGN];
    // Cannot fail: the room was reserved.
    (void)buf_add(to, zeros, padded(to->len) - to->len);
}

int parcel_add(struct buf *to, const void *bytes, size_t n, struct err *e)
{
    TRY(parcel_reserve(to, n, e));
    if (n > 0)
        (void)buf_add(to, bytes, n); // cannot fail: the room was reserved
    parcel_pad(to);
    return 0;
}

int parcel_add_block(struct buf *to, enum parcel_kind kind, size_t n, struct err *e)
{
    struct parcel_block b = {(uint32_t)kind, (uint32_t)n};
    if (n > UINT32_MAX)
        return err_set(e, TUG_EUSAGE, "a partition has more than %u keys to move",
                       UINT32_MAX);
    return parcel_add(to, &b, sizeof(b), e);
}

int parcel_add_keys(struct buf *to, enum parcel_kind kind, const uint64_t *keys, size_t n,
                    struct err *e)
{
    TRY(parcel_add_block(to, kind, n, e));
    return parcel_add(to, keys, n * sizeof(*keys), e);
}

struct writer {
    struct store *s;
    uint32_t p;
    struct buf *to;
    uint64_t rows;
    struct key_list changed;
};

// Writes a block of gathered rows.
static int write_rows(struct gather *g, struct err *e)
{
    struct writer *w = g->ctx;
    const struct accessor *a = g->accessor;
    w->rows += g->n;
    for (size_t i = 0; i < g->n && a->extra_width > 0; i++)
        accessor_set_extra(a, g->rows + i * a->width, TABLE_NONE);
    if (g->n > 0) {
        TRY(parcel_add_keys(w->to, PARCEL_ROWS, g->keys, g->n, e));
        TRY(parcel_add(w->to, g->rows, g->n * a->width * sizeof(float), e));
    }
    if (g->n_extras == 0)
        return 0;
    TRY(parcel_add_keys(w->to, PARCEL_EXTRAS, g->extra_keys, g->n_extras, e));
    return parcel_add(w->to, g->extras, g->n_extras * a->extra_width * sizeof(float), e);
}

int parcel_add_state(const struct store *s, uint32_t p, struct buf *to, struct err *e)
{
    struct buf state = BUF_INIT(UINT32_MAX);
    struct life_time t = store_time(s, p);
    // This store may know of more steps than the store that leads the partition, and whose
    // pushes the copy must stamp with the same steps.
    if (s->parts[p].backup)
        t.step = s->parts[p].step;
    int rc = store_get_partition(s, p, t, &state) != 0
                 ? err_nomem(e, "the state of a partition")
                 : parcel_add_block(to, PARCEL_STATE, state.len, e);
    if (rc == 0)
        rc = parcel_add(to, state.data, state.len, e);
    buf_free(&state);
    return rc;
}

// Writes the keys of changed rows, both in memory and demoted.
static int list_changed(struct writer *w, const struct handle_list *live, struct err *e)
{
    const struct store *s = w->s;
    const struct key_list *out = s->cold != NULL ? &s->cold->parts[w->p].out : NULL;
    int rc = key_list_reserve(&w->changed, live->n + (out != NULL ? out->n : 0));
    if (rc != 0)
        return err_nomem(e, "the notes for deltas");
    for (uint32_t i = 0; i < live->n; i++)
        if (handle_bit(&s->changed, live->at[i]))
            w->changed.at[w->changed.n++] = store_key_at(s, live->at[i]);
    for (uint32_t i = 0; out != NULL && i < out->n; i++)
        w->changed.at[w->changed.n++] = out->at[i];
    return 0;
}

static int write_all_rows(struct writer *w, struct err *e)
{
    struct store *s = w->s;
    struct handle_list live = {0};
    struct gather *g;
    TRY(gather_open(&g, &s->accessor, write_rows, w, e));
    int rc = store_live_rows(s, w->p, &live) == 0
                 ? 0
                 : err_nomem(e, "the rows of a partition");
    for (uint32_t i = 0; i < live.n && rc == 0; i++) {
        const float *row = store_row_at(s, live.at[i]);
        rc = gather_row(g, table_row_key(row), row, store_extra_of(s, row), e);
    }
    if (rc == 0 && s->cold != NULL)
        rc = cold_each(s, w->p, gather_row, g, e);
    if (rc == 0)
        rc = gather_flush(g, e);
    if (rc == 0)
        rc = list_changed(w, &live, e);
    mem_free(live.at);
    gather_close(g);
    return rc;
}

static int write_parcel(struct writer *w, bool rows, struct err *e)
{
    const struct store_part *part = &w->s->parts[w->p];
    const struct accessor *a = &w->s->accessor;
    struct parcel_head head = {
        PARCEL_VERSION,  w->p, w->s->o.partition_bits, a->width, a->extra_width,
        part->gone_lost, 0,    part->published_by};
    size_t begin = w->to->len;
    TRY(parcel_add(w->to, &head, sizeof(head), e));
    TRY(parcel_add_state(w->s, w->p, w->to, e));
    if (rows)
        TRY(write_all_rows(w, e));
    TRY(parcel_add_keys(w->to, PARCEL_CHANGED, w->changed.at, w->changed.n, e));
    TRY(parcel_add_keys(w->to, PARCEL_GONE, part->gone.at, rows ? part->gone.n : 0, e));
    head.rows = w->rows;
    memcpy(w->to->data + begin, &head, sizeof(head));
    uint64_t hash = hash_bytes(w->to->data + begin, w->to->len - begin, 0);
    TRY(parcel_add_block(w->to, PARCEL_END, 1, e));
    return parcel_add(w->to, &hash, sizeof(hash), e);
}

static int check_idle(const struct store *s, uint32_t p, struct err *e)
{
    if (!cut_has(s, p))
        return 0;
    return err_set(e, TUG_EUSAGE, "table %s cannot be moved while it is being saved",
                   s->config.name);
}

static int get(struct store *s, uint32_t partition, bool rows, struct buf *to,
               struct err *e)
{
    struct writer w = {.s = s, .p = partition, .to = to};
    size_t len = to->len;
    assert(partition < s->n_parts && len % ALIGN == 0);
    TRY(check_idle(s, partition, e));
    TRY(store_turn(s, partition, e));
    int rc = write_parcel(&w, rows, e);
    if (rc != 0)
        to->len = len;
    mem_free(w.changed.at);
    return rc;
}

int parcel_get(struct store *s, uint32_t partition, struct buf *to, struct err *e)
{
    return get(s, partition, true, to, e);
}

int parcel_get_empty(struct store *s, uint32_t partition, struct buf *to, struct err *e)
{
    return get(s, partition, false, to, e);
}

// ---------------------------------------------------------------- reading

int parcel_is_damaged(const struct parcel_reader *r, struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "the bytes of partition %u of table %s that arrived from another "
                   "server are damaged, or of another version of tug",
                   r->p, r->s->config.name);
}

const void *parcel_take(struct parcel_reader *r, size_t n)
{
    const char *bytes = r->bytes + r->at;
    if (n > r->n - r->at || padded(n) > r->n - r->at)
        return NULL;
    r->at += padded(n);
    return bytes;
}

bool parcel_take_keys(struct parcel_reader *r, uint32_t n, uint32_t width,
                      const uint64_t **ret_keys, const float **ret_rows)
{
    *ret_keys = parcel_take(r, (size_t)n * sizeof(**ret_keys));
    *ret_rows = *ret_keys != NULL ? parcel_take(r, (size_t)n * width * sizeof(float))
                                  : NULL;
    return *ret_rows != NULL;
}

// Returns whether a block of this kind may follow a block of kind `before`.
static bool may_follow(uint32_t kind, uint32_t before)
{
    switch (kind) {
    case PARCEL_STATE:
        return before == 0;
    case PARCEL_ROWS:
        return before >= PARCEL_STATE && before <= PARCEL_EXTRAS;
    case PARCEL_EXTRAS:
        return before == PARCEL_ROWS;
    case PARCEL_CHANGED:
        return before >= PARCEL_STATE && before <= PARCEL_EXTRAS;
    default:
        return kind == before + 1 && kind <= PARCEL_END;
    }
}

int parcel_check_keys(const struct parcel_reader *r, const uint64_t *keys, uint32_t n,
                      struct err *e)
{
    for (uint32_t i = 0; i < n; i++)
        if (store_partition(r->s, keys[i]) != r->p)
            return parcel_is_damaged(r, e);
    return 0;
}

static int check_head(struct parcel_reader *r, struct err *e)
{
    const struct store *s = r->s;
    const struct parcel_head *head = parcel_take(r, sizeof(*head));
    if (head == NULL || (uintptr_t)r->bytes % ALIGN != 0)
        return parcel_is_damaged(r, e);
    r->head = *head;
    if (head->version != PARCEL_VERSION || head->partition != r->p ||
        head->bits != s->o.partition_bits || head->width != s->accessor.width ||
        head->extra_width != s->accessor.extra_width || head->gone_lost > 1 ||
        head->rows > UINT32_MAX)
        return parcel_is_damaged(r, e);
    return 0;
}

bool parcel_skip_block(struct parcel_reader *r, const struct parcel_block *b,
                       const uint64_t **ret_keys)
{
    const struct accessor *a = &r->s->accessor;
    const float *ignored;
    *ret_keys = NULL;
    switch (b->kind) {
    case PARCEL_STATE:
        return parcel_take(r, b->n) != NULL;
    case PARCEL_ROWS:
        return parcel_take_keys(r, b->n, a->width, ret_keys, &ignored);
    case PARCEL_EXTRAS:
        return a->extra_width != 0 &&
               parcel_take_keys(r, b->n, a->extra_width, ret_keys, &ignored);
    case PARCEL_CHANGED:
    case PARCEL_GONE:
        return parcel_take_keys(r, b->n, 0, ret_keys, &ignored);
    default:
        return false;
    }
}

// Checks the next block, and skips it. The content of PARCEL_STATE is checked later,
// by store_put_partition.
static int check_block(struct parcel_reader *r, uint32_t *kind, uint64_t *rows,
                       struct err *e)
{
    const struct parcel_block *b = parcel_take(r, sizeof(*b));
    const uint64_t *keys = NULL;
    bool whole = b != NULL && may_follow(b->kind, *kind);
    if (!whole)
        return parcel_is_damaged(r, e);
    *kind = b->kind;
    whole = b->kind == PARCEL_END ? b->n == 1 && parcel_take(r, sizeof(uint64_t)) != NULL
                                  : parcel_skip_block(r, b, &keys);
    if (!whole)
        return parcel_is_damaged(r, e);
    if (b->kind == PARCEL_ROWS)
        *rows += b->n;
    return keys != NULL ? parcel_check_keys(r, keys, b->n, e) : 0;
}

// Checks everything in the parcel that can be checked before the store changes.
static int check_parcel(struct parcel_reader *r, struct err *e)
{
    uint32_t kind = 0;
    uint64_t rows = 0, hash;
    TRY(check_head(r, e));
    while (kind != PARCEL_END)
        TRY(check_block(r, &kind, &rows, e));
    if (r->at != r->n || rows != r->head.rows)
        return parcel_is_damaged(r, e);
    size_t hashed = r->n - sizeof(hash) - sizeof(struct parcel_block);
    memcpy(&hash, r->bytes + r->n - sizeof(hash), sizeof(hash));
    return hash == hash_bytes(r->bytes, hashed, 0) ? 0 : parcel_is_damaged(r, e);
}

// Returns TUG_ENOMEM if the rows that stay in memory have no room.
static int check_rows_fit(const struct parcel_reader *r, struct err *e)
{
    const struct store *s = r->s;
    uint64_t rows = r->head.rows;
    if (s->cold != NULL && rows > s->cold->parts[r->p].limit)
        rows = s->cold->parts[r->p].limit;
    return store_check_room(s, rows, e);
}

static int forget_changed(struct store *s, uint32_t p, struct err *e)
{
    struct handle_list live = {0};
    if (store_live_rows(s, p, &live) != 0)
        return err_nomem(e, "the notes for deltas");
    for (uint32_t i = 0; i < live.n; i++)
        handle_bit_clear(&s->changed, live.at[i]);
    mem_free(live.at);
    s->parts[p].changed.n = 0;
    if (s->cold != NULL)
        s->cold->parts[p].out.n = 0;
    return 0;
}

int store_loaded_in(struct store *s, uint32_t partition, uint64_t published_by,
                    struct err *e)
{
    struct store_part *part = &s->parts[partition];
    assert(partition < s->n_parts && !cut_has(s, partition));
    TRY(forget_changed(s, partition, e));
    part->gone.n = 0;
    part->gone_lost = false;
    part->published_by = published_by;
    return 0;
}

// Replaces the partition's list of changed rows by the parcel's list. Before, the
// partition's list has all rows, because putting them counted as a change.
static int put_changed(struct store *s, uint32_t p, const uint64_t *keys, uint32_t n,
                       struct err *e)
{
    TRY(forget_changed(s, p, e));
    if (s->cold != NULL && s->config.deltas && cold_reserve_out(s, p, n) != 0)
        return err_nomem(e, "the notes for deltas");
    for (uint32_t i = 0; i < n && s->config.deltas; i++) {
        uint32_t h;
        table_find(s->rows, &keys[i], 1, &h);
        if (h != TABLE_NONE)
            TRY(store_note(s, p, &h, 1, e));
        else if (s->cold != NULL)
            cold_note_out(s, p, keys[i]);
    }
    return 0;
}

int parcel_put_gone(struct store *s, uint32_t p, const uint64_t *keys, uint32_t n,
                    struct err *e)
{
    struct key_list *gone = &s->parts[p].gone;
    gone->n = 0;
    if (n == 0)
        return 0;
    if (key_list_reserve(gone, n) != 0)
        return err_nomem(e, "the notes for deltas");
    memcpy(gone->at, keys, n * sizeof(*keys));
    gone->n = n;
    return 0;
}

static int put_block(struct parcel_reader *r, const struct parcel_block *b, struct err *e)
{
    struct store *s = r->s;
    const struct accessor *a = &s->accessor;
    const uint64_t *keys;
    const float *rows;
    int rc;
    switch (b->kind) {
    case PARCEL_STATE:
        return store_put_partition(s, r->p, parcel_take(r, b->n), b->n, e);
    case PARCEL_ROWS:
        (void)parcel_take_keys(r, b->n, a->width, &keys, &rows);
        rc = store_put_rows(s, keys, b->n, rows, e);
        return rc == TUG_EUSAGE ? parcel_is_damaged(r, e)
                                : rc; // TUG_EUSAGE: the parcel has a key twice
    case PARCEL_EXTRAS:
        (void)parcel_take_keys(r, b->n, a->extra_width, &keys, &rows);
        return store_put_extras(s, keys, b->n, rows, e);
    case PARCEL_CHANGED:
        (void)parcel_take_keys(r, b->n, 0, &keys, &rows);
        return put_changed(s, r->p, keys, b->n, e);
    default:
        (void)parcel_take_keys(r, b->n, 0, &keys, &rows);
        return parcel_put_gone(s, r->p, keys, b->n, e);
    }
}

static int put_parcel(struct parcel_reader *r, struct err *e)
{
    struct store_part *part = &r->s->parts[r->p];
    r->at = padded(sizeof(r->head));
    for (;;) {
        const struct parcel_block *b = parcel_take(r, sizeof(*b));
        if (b->kind == PARCEL_END)
            break;
        TRY(put_block(r, b, e));
    }
    if (r->s->cold != NULL)
        TRY(cold_demote(r->s, r->p, e));
    if ((uint64_t)part->live + part->cold != r->head.rows)
        return parcel_is_damaged(r, e); // the parcel has a key twice
    part->gone_lost = r->head.gone_lost;
    part->published_by = r->head.published_by;
    return 0;
}

static int remove_live_rows(struct store *s, uint32_t p, struct err *e)
{
    struct handle_list live = {0};
    if (store_live_rows(s, p, &live) != 0)
        return err_nomem(e, "the rows of a partition");
    if (s->cold != NULL)
        cold_forget(s, p, live.at, live.n);
    store_drop_rows(s, p, live.at, live.n);
    mem_free(live.at);
    return 0;
}

// Removes all that is left of a partition without rows in memory: cold rows, state and
// lists. Records nothing for deltas.
static int forget_rest(struct store *s, uint32_t p, struct err *e)
{
    struct store_part *part = &s->parts[p];
    if (s->cold != NULL)
        TRY(cold_forget_partition(s, p, e));
    if (part->entry != NULL)
        s->entry_bytes -= entry_bytes(part->entry);
    entry_close(part->entry);
    part->entry = NULL;
    part->rows.n = part->changed.n = part->gone.n = part->published.n = 0;
    part->gone_lost = false;
    assert(part->live == 0 && part->cold == 0);
    return 0;
}

// Removes all rows and other data of a partition. Records nothing for deltas.
static int forget_partition(struct store *s, uint32_t p, struct err *e)
{
    TRY(remove_live_rows(s, p, e));
    return forget_rest(s, p, e);
}

int parcel_put(struct store *s, uint32_t partition, const void *bytes, size_t n,
               struct err *e)
{
    struct parcel_reader r = {.s = s, .p = partition, .bytes = bytes, .n = n};
    assert(partition < s->n_parts);
    assert(s->parts[partition].live == 0 && s->parts[partition].cold == 0);
    TRY(check_idle(s, partition, e));
    TRY(store_turn(s, partition, e));
    TRY(check_parcel(&r, e));
    TRY(check_rows_fit(&r, e));
    uint64_t made = s->stats.made, step = s->step;
    int rc = put_parcel(&r, e);
    // The rows do not count as made here, because they were counted in the store that made
    // them.
    s->stats.made = made;
    if (rc == 0)
        s->not_owned[partition] = false;
    if (rc != 0) {
        s->step = step;
        (void)forget_partition(s, partition, NULL);
    }
    return rc;
}

int store_drop(struct store *s, uint32_t partition, struct err *e)
{
    assert(partition < s->n_parts);
    TRY(check_idle(s, partition, e));
    TRY(forget_partition(s, partition, e));
    s->not_owned[partition] = true;
    return 0;
}

// Removes rows at the end of the partition's list, because the rest of the
// list then stays as it is.
int store_drop_some(struct store *s, uint32_t partition, uint32_t most, bool *ret_left,
                    struct err *e)
{
    struct store_part *part = &s->parts[partition];
    struct handle_list go = {0};
    assert(partition < s->n_parts);
    TRY(check_idle(s, partition, e));
    *ret_left = true;
    if (handle_list_reserve(&go, part->rows.n < most ? part->rows.n : most) != 0 ||
        handle_bits_reserve(&s->marks, table_handles(s->rows)) != 0)
        return err_nomem(e, "the rows of a partition");
    while (part->rows.n > 0 && go.n < most) {
        uint32_t h = part->rows.at[--part->rows.n];
        if (handle_bit(&s->marks, h) || !store_is_live(s, partition, h))
            continue;
        handle_bit_set(&s->marks, h);
        go.at[go.n++] = h;
    }
    for (uint32_t i = 0; i < go.n; i++)
        handle_bit_clear(&s->marks, go.at[i]);
    if (s->cold != NULL)
        cold_forget(s, partition, go.at, go.n);
    store_drop_rows(s, partition, go.at, go.n);
    mem_free(go.at);
    if (part->rows.n > 0)
        return 0;
    TRY(forget_rest(s, partition, e));
    s->not_owned[partition] = true;
    *ret_left = false;
    return 0;
}

int store_move(struct store *to, struct store *from, uint32_t partition, struct err *e)
{
    struct buf parcel = BUF_INIT(SIZE_MAX);
    assert(to != from && to->n_parts == from->n_parts);
    int rc = check_idle(to, partition, e);
    if (rc == 0)
        rc = parcel_get(from, partition, &parcel, e);
    if (rc == 0)
        rc = parcel_put(to, partition, parcel.data, parcel.len, e);
    buf_free(&parcel);
    return rc == 0 ? store_drop(from, partition, e) : rc;
}
