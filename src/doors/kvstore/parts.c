// Pushes and pulls of a kvstore's worker. An array is cut by rows among the servers, and
// each piece is a request of its own, so that pulled elements are received directly into
// the program's array.
//
// A push stays in flight until the next call for its key; a piece owns the words that it
// sends.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/search.h"
#include "doors/kvapp/above.h"
#include "doors/kvstore/kvstore_internal.h"

static uint64_t wire_key(const struct tug_kvstore *s, const struct kvs_piece *p)
{
    return s->places[p->server].first_key + p->id;
}

static struct kvs_head head_of(const struct kvs_entry *x, const struct kvs_piece *p)
{
    return (struct kvs_head){.dtype = x->shape.dtype,
                             .rows = p->rows,
                             .width = x->width,
                             .sparse = x->shape.sparse,
                             .round = (uint32_t)x->rounds};
}

static size_t row_bytes(const struct kvs_entry *x)
{
    return x->width * kvs_dtype_size(x->shape.dtype);
}

// ---------------------------------------------------------------- cuts

enum { SLICES_MAX = 512 }; // the most slices of a key on a server

// kvapp limits the requests in flight to a server (KV_WINDOW). If two workers filled these
// windows with pushes of different keys, the rounds of both would wait for pieces that
// cannot be sent. So all pieces in flight of a worker must fit into one window.
enum { PUSHED_MAX = 3000, PULLED_MAX = 500 };

// Returns the number of slices of an array; 0 if it is not sliced.
static uint32_t slices_of(const struct tug_kvstore *s, const struct kvs_entry *x)
{
    uint64_t elements = x->shape.rows * x->shape.width, most = SLICES_MAX * s->servers;
    if (s->slice == 0 || x->shape.sparse || s->keeps_whole || elements <= s->slice)
        return 0;
    uint64_t n = (elements - 1) / s->slice + 1;
    return (uint32_t)(n < most ? n : most);
}

int kvs_parts_cut(struct tug_kvstore *s, struct kvs_entry *x, struct err *e)
{
    uint64_t elements = x->shape.rows * x->shape.width;
    uint32_t slices = slices_of(s, x), of_key = (uint32_t)(x->key.id % s->servers);
    bool spread = elements >= s->big_array && elements >= s->servers && !s->keeps_whole;
    bool by_rows = x->shape.sparse || x->shape.rows >= s->servers;
    x->rows = slices == 0 && (!spread || by_rows) ? x->shape.rows : elements;
    x->width = elements / x->rows;
    x->n_pieces = slices > 0             ? slices
                  : !spread              ? 1
                  : x->rows < s->servers ? (uint32_t)x->rows
                                         : s->servers;
    x->pieces = mem_zalloc(x->n_pieces * sizeof(*x->pieces));
    if (x->pieces == NULL)
        return err_nomem(e, "the pieces of an array");
    for (uint32_t i = 0; i < x->n_pieces; i++) {
        struct kvs_piece *p = &x->pieces[i];
        p->server = slices > 0 ? (of_key + i) % s->servers : spread ? i : of_key;
        p->slice = slices > 0 ? i : 0;
        p->id = kvs_slice_id(&x->key, p->slice);
        // The product does not overflow: at most 2^40 rows times 2^24 pieces.
        p->first = x->rows * i / x->n_pieces;
        p->rows = x->rows * (i + 1) / x->n_pieces - p->first;
    }
    return 0;
}

void kvs_parts_free(struct kvs_entry *x)
{
    for (uint32_t i = 0; i < x->n_pieces; i++)
        mem_free(x->pieces[i].send);
    mem_free(x->pieces);
    x->pieces = NULL;
    x->n_pieces = 0;
}

// ---------------------------------------------------------------- requests

// Makes room in p->send. Padding is filled with zeros.
static char *room(struct kvs_piece *p, size_t bytes, struct err *e)
{
    size_t n = kvs_padded(bytes, 8);
    if (n > p->cap_send) {
        char *more = mem_realloc(p->send, n);
        if (more == NULL) {
            err_nomem(e, "a push");
            return NULL;
        }
        p->send = more;
        p->cap_send = n;
    }
    if (n > 0)
        memset(p->send + n - 8, 0, 8);
    return p->send;
}

static int send_piece(struct tug_kvstore *s, struct kvs_piece *p, int priority)
{
    uint64_t key = wire_key(s, p);
    struct tug_kv_request q = {
        .push = true,
        .cmd = (int32_t)p->cmd,
        .priority = priority,
        .data = {.n_keys = 1},
    };
    // The key must be valid as long as the request, so p->send holds it, before the words.
    memcpy(p->send, &key, sizeof(key));
    q.data.keys = (const uint64_t *)p->send;
    q.data.values = (const float *)(p->send + sizeof(key));
    q.data.n_values = kvs_padded(p->send_bytes, 4) / 4;
    TRY(kv_send_words(s->app, &q, &p->timestamp));
    p->pending = true;
    s->under_way++;
    return 0;
}

// Allocates p->send for a key and a request of `bytes` bytes; sets *ret to the bytes after
// the key.
static int reserve_send(struct kvs_piece *p, enum kvs_cmd cmd, size_t bytes, char **ret,
                        struct err *e)
{
    char *at = room(p, sizeof(uint64_t) + bytes, e);
    p->cmd = cmd;
    p->send_bytes = bytes;
    *ret = at != NULL ? at + sizeof(uint64_t) : NULL;
    return at != NULL ? 0 : e->code;
}

static int settle(struct tug_kvstore *s, struct kvs_entry *x)
{
    struct err first = {0};
    uint32_t n = 0;
    x->sent = 0;
    for (uint32_t i = 0; i < x->n_pieces; i++) {
        struct kvs_piece *p = &x->pieces[i];
        if (!p->pending)
            continue;
        p->pending = false;
        s->under_way--;
        n++;
        const struct kvs_awaited w = {KVS_AWAIT_ROUND, p->server, p->id, x->key.text};
        bool of_all = !s->async && p->cmd != KVS_INIT;
        if (kvs_dist_wait(s, p->timestamp, of_all ? &w : NULL) != 0 && first.code == 0)
            first = *last_error();
    }
    if (first.code == 0) { // if one piece failed, the push does not count for its round
        x->rounds += n == x->n_pieces;
        return 0;
    }
    if (s->failed.code != 0 && !s->async) // the wait for the other workers has failed
        (void)err_wrap(&first, "a push of each of the %u workers to the key", s->workers);
    (void)err_wrap(&first, "%s", x->key.text);
    return last_error_is(&first);
}

int kvs_parts_settle(struct tug_kvstore *s, struct kvs_entry *x)
{
    struct err late = x->late;
    x->late.code = 0;
    int rc = settle(s, x);
    return late.code != 0 ? last_error_is(&late) : rc;
}

// Waits for the oldest pushes until PUSHED_MAX allows a push of this key. The error of an
// old push is stored for the next call with the old push's key.
static void parts_make_room(struct tug_kvstore *s, const struct kvs_entry *x)
{
    while (s->under_way > 0 && s->under_way + x->n_pieces > PUSHED_MAX) {
        struct kvs_entry *oldest = NULL;
        for (size_t i = 0; i < s->entries.n; i++) {
            struct kvs_entry *y = s->entries.list[i];
            if (y->sent != 0 && (oldest == NULL || y->sent < oldest->sent))
                oldest = y;
        }
        if (oldest == NULL)
            return;
        if (settle(s, oldest) != 0 && oldest->late.code == 0)
            oldest->late = *last_error();
    }
}

// ---------------------------------------------------------------- init

static int send_init(struct tug_kvstore *s, struct kvs_entry *x, struct kvs_piece *p,
                     const struct tug_array *a, struct err *e)
{
    struct kvs_head h = head_of(x, p);
    size_t n = p->rows * row_bytes(x), name = strlen(x->key.name);
    char *at;
    h.n = name;
    h.named = x->key.named;
    h.slice = p->slice;
    h.number = x->key.number;
    TRY(reserve_send(p, KVS_INIT, sizeof(h) + kvs_padded(name, 8) + n, &at, e));
    memcpy(at, &h, sizeof(h));
    memset(at + sizeof(h), 0, kvs_padded(name, 8));
    memcpy(at + sizeof(h), x->key.name, name);
    memcpy(at + sizeof(h) + kvs_padded(name, 8),
           (const char *)a->data + p->first * row_bytes(x), n);
    return send_piece(s, p, 0);
}

static int push_first(struct tug_kvstore *s, struct kvs_entry *x,
                      const struct tug_array *a, struct err *e)
{
    struct kvs_rows dense = {0};
    // A sparse array is sent as a dense one, with all rows.
    int rc = a->sparse ? kvs_rows_set_dense(&dense, a, e) : 0;
    for (uint32_t i = 0; i < x->n_pieces && rc == 0; i++)
        rc = send_init(s, x, &x->pieces[i], a->sparse ? &dense.a : a, e);
    if (rc == 0)
        rc = kvs_parts_settle(s, x);
    kvs_rows_free(&dense);
    return rc;
}

// Gets a server's settings of a piece, and compares them with those of this worker. The
// server answers only after rank 0 has made the key, so the other ranks wait here.
static int parts_look(struct tug_kvstore *s, struct kvs_entry *x,
                      const struct kvs_piece *p, uint64_t *rounds, struct err *e)
{
    struct kvs_meta m;
    if (kvs_dist_meta(s, x, p, &m) != 0)
        return err_wrap(e, "%s", x->key.text);
    *rounds = m.rounds < *rounds ? m.rounds : *rounds;
    if (m.dtype == x->shape.dtype && m.rows == p->rows && m.width == x->width &&
        m.sparse == x->shape.sparse)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "%s: worker 0 has made it as a %s array of dtype %s, of which server "
                   "%u has %llu x %llu; this worker's is %s, %s, and would have %llu x "
                   "%llu there",
                   x->key.text, m.sparse ? "sparse" : "dense",
                   kvs_dtype_name((enum tug_dtype)m.dtype), p->server,
                   (unsigned long long)m.rows, (unsigned long long)m.width,
                   x->shape.sparse ? "sparse" : "dense", kvs_dtype_name(x->shape.dtype),
                   (unsigned long long)p->rows, (unsigned long long)x->width);
}

// Gets the number of rounds that have ended at all servers. A worker that died during a
// push may have sent it to only some servers; its replacement continues with the first
// round that is still open at a server.
int kvs_parts_rounds(struct tug_kvstore *s, struct kvs_entry *x, uint64_t *ret)
{
    struct kvs_meta m;
    uint64_t rounds = UINT64_MAX;
    TRY(kvs_parts_settle(s, x));
    for (uint32_t i = 0; i < x->n_pieces; i++) {
        TRY(kvs_dist_meta(s, x, &x->pieces[i], &m));
        rounds = m.rounds < rounds ? m.rounds : rounds;
    }
    *ret = x->rounds = rounds;
    return 0;
}

int kvs_parts_init(struct tug_kvstore *s, struct kvs_entry *x, const struct tug_array *a)
{
    struct err *e = last_error();
    TRY(kvs_parts_cut(s, x, e));
    if (s->rank == 0)
        TRY(push_first(s, x, a, e));
    uint64_t rounds = UINT64_MAX;
    for (uint32_t i = 0; i < x->n_pieces; i++)
        TRY(parts_look(s, x, &x->pieces[i], &rounds, e));
    x->rounds = rounds;
    return 0;
}

// ---------------------------------------------------------------- pushes

static int write_dense(struct kvs_entry *x, struct kvs_piece *p,
                       const struct tug_array *a, struct err *e)
{
    struct kvs_head h = head_of(x, p);
    size_t n = p->rows * row_bytes(x);
    char *at;
    TRY(reserve_send(p, KVS_PUSH, sizeof(h) + n, &at, e));
    memcpy(at, &h, sizeof(h));
    if (kvs_copy_finite(a->dtype, at + sizeof(h),
                        (const char *)a->data + p->first * row_bytes(x),
                        p->rows * x->width))
        return 0;
    return kvs_array_finite(a, x->key.text, e);
}

static int write_coded(struct tug_kvstore *s, struct kvs_entry *x, struct kvs_piece *p,
                       const struct tug_array *a, struct err *e)
{
    struct kvs_head h = head_of(x, p);
    size_t from = p->first * x->width, n = p->rows * x->width;
    size_t words = kvs_coded_words(s->coding, n);
    float *left = kvs_left(x, 0);
    char *at;
    if (left == NULL)
        return err_nomem(e, "the residuals of a compression");
    h.coding = s->coding;
    h.threshold = s->threshold;
    h.n = n;
    TRY(reserve_send(p, KVS_PUSH_CODED, sizeof(h) + words * 4, &at, e));
    memcpy(at, &h, sizeof(h));
    kvs_encode(s->coding, s->threshold, (const float *)a->data + from, left + from, n,
               (uint32_t *)(at + sizeof(h)));
    return 0;
}

// Returns the index of the first id, from index `from` on, that is not below `row`.
static uint64_t ids_before(const struct tug_array *a, uint64_t from, uint64_t row)
{
    return search_first(from, a->n_ids, i, (uint64_t)a->ids[i] >= row);
}

static int parts_write_rows(struct kvs_entry *x, struct kvs_piece *p,
                            const struct tug_array *a, struct err *e)
{
    struct kvs_head h = head_of(x, p);
    uint64_t from = ids_before(a, 0, p->first);
    uint64_t n = ids_before(a, from, p->first + p->rows) - from;
    size_t ids = n * sizeof(int64_t), data = n * row_bytes(x);
    char *at;
    h.n = n;
    TRY(reserve_send(p, KVS_PUSH_ROWS, sizeof(h) + ids + data, &at, e));
    memcpy(at, &h, sizeof(h));
    for (uint64_t i = 0; i < n; i++)
        ((int64_t *)(at + sizeof(h)))[i] = a->ids[from + i] - (int64_t)p->first;
    if (n > 0)
        memcpy(at + sizeof(h) + ids, (const char *)a->data + from * row_bytes(x), data);
    return 0;
}

static int write_piece(struct tug_kvstore *s, struct kvs_entry *x, struct kvs_piece *p,
                       const struct tug_array *a, struct err *e)
{
    if (a->sparse)
        return parts_write_rows(x, p, a, e);
    if (s->coding != KVS_UNCODED)
        return write_coded(s, x, p, a, e);
    return write_dense(x, p, a, e);
}

int kvs_parts_write(struct tug_kvstore *s, struct kvs_entry *x, const struct tug_array *a)
{
    struct tug_array as = *a;
    if (a->sparse &&
        x->rows != x->shape.rows) { // cut by elements, so a push cannot name rows
        TRY(kvs_rows_set_dense(&s->coded, a, last_error()));
        as = s->coded.a;
    }
    for (uint32_t i = 0; i < x->n_pieces; i++)
        TRY(write_piece(s, x, &x->pieces[i], &as, last_error()));
    return 0;
}

int kvs_parts_send(struct tug_kvstore *s, struct kvs_entry *x, int priority)
{
    parts_make_room(s, x);
    x->sent = ++s->pushes;
    for (uint32_t i = 0; i < x->n_pieces; i++)
        if (send_piece(s, &x->pieces[i], priority) != 0)
            return err_wrap(last_error(), "%s", x->key.text);
    return 0;
}

// ---------------------------------------------------------------- pulls

struct pull {
    struct kvs_entry *x;
    uint64_t *keys;       // the pieces' keys, which the requests use
    uint32_t *timestamps; // timestamps of the requests that were sent
    uint32_t n_sent, n_waited;
    char *to;     // receives all elements, in the key's dtype
    void *bounce; // memory for `to`; NULL: `to` is the caller's array
};

// Returns whether answers can be received directly into the item's array: if each is whole
// words, in the array's dtype.
static bool in_place(const struct kvs_entry *x, const struct tug_array *a)
{
    bool words = row_bytes(x) % 4 == 0;
    return words && !a->sparse && a->dtype == x->shape.dtype;
}

static int pull_open(struct pull *p, struct kvs_entry *x, const struct tug_array *first,
                     struct err *e)
{
    *p = (struct pull){.x = x, .to = first->data};
    p->keys = mem_array(x->n_pieces, sizeof(*p->keys));
    p->timestamps = mem_array(x->n_pieces, sizeof(*p->timestamps));
    if (!in_place(x, first)) // each piece has up to a word of padding
        p->to = p->bounce = mem_zalloc(x->rows * row_bytes(x) + 4 * x->n_pieces);
    return p->keys == NULL || p->timestamps == NULL || p->to == NULL
               ? err_nomem(e, "a pull")
               : 0;
}

static void pull_free(struct pull *p)
{
    mem_free(p->keys);
    mem_free(p->timestamps);
    mem_free(p->bounce);
}

// Sends the requests of a pull. The memory for the answers has one piece after the other,
// each at a multiple of 4 bytes.
static int pull_send(struct tug_kvstore *s, struct pull *p, int priority)
{
    size_t at = 0;
    for (uint32_t i = 0; i < p->x->n_pieces; i++) {
        const struct kvs_piece *piece = &p->x->pieces[i];
        struct tug_kv_request q = {
            .pull = true,
            .cmd = KVS_PULL,
            .priority = priority,
            .data = {.keys = &p->keys[i], .n_keys = 1},
            .pulled = (float *)(p->to + at),
            .n_pulled = kvs_padded(piece->rows * row_bytes(p->x), 4) / 4,
        };
        at += q.n_pulled * 4;
        p->keys[i] = wire_key(s, piece);
        TRY(kv_send_words(s->app, &q, &p->timestamps[i]));
        p->n_sent++;
    }
    return 0;
}

static int pull_wait(struct tug_kvstore *s, struct pull *p)
{
    struct err first = {0};
    for (; p->n_waited < p->n_sent; p->n_waited++)
        if (kvs_dist_wait(s, p->timestamps[p->n_waited], NULL) != 0 && first.code == 0)
            first = *last_error();
    if (first.code == 0)
        return 0;
    (void)err_wrap(&first, "%s", p->x->key.text);
    return last_error_is(&first);
}

// Waits for the first n pulls. Sets *first to their first error, unless *first already has
// an error.
static void pulls_wait(struct tug_kvstore *s, struct pull *pulls, size_t n,
                       struct err *first)
{
    for (size_t i = 0; i < n; i++)
        if (pulls[i].x != NULL && pull_wait(s, &pulls[i]) != 0 && first->code == 0)
            *first = *last_error();
}

// Removes the padding between pieces.
static void close_gaps(struct pull *p)
{
    size_t to = 0, from = 0;
    for (uint32_t i = 0; i < p->x->n_pieces; i++) {
        size_t n = p->x->pieces[i].rows * row_bytes(p->x);
        memmove(p->to + to, p->to + from, n);
        to += n;
        from += kvs_padded(n, 4);
    }
}

static int pull_give(struct pull *p, const struct kvs_items *t, struct err *e)
{
    struct tug_array a = p->x->shape;
    if (p->bounce != NULL)
        close_gaps(p);
    a.sparse = false;
    a.data = p->to;
    for (size_t i = p->x->first; i != KVS_NONE; i = t->next[i])
        TRY(kvs_array_gives(&a, t->items[i].array->dtype, p->x->key.text, e));
    for (size_t i = p->x->first; i != KVS_NONE; i = t->next[i])
        kvs_give(&a, t->items[i].array);
    return 0;
}

static int pull_all(struct tug_kvstore *s, const struct kvs_items *t, struct pull *pulls,
                    int priority)
{
    struct err first = {0}, early = {0};
    uint64_t asked = 0; // number of pieces requested since the last pulls_wait
    int rc = 0;
    for (size_t i = 0; i < t->n && rc == 0; i++)
        if (t->of[i]->first == i)
            rc = kvs_parts_settle(s, t->of[i]);
    for (size_t i = 0; i < t->n && rc == 0; i++) {
        if (t->of[i]->first != i)
            continue;
        rc = pull_open(&pulls[i], t->of[i], t->items[i].array, last_error());
        if (rc == 0)
            rc = pull_send(s, &pulls[i], priority);
        asked += t->of[i]->n_pieces;
        if (rc == 0 && asked > PULLED_MAX) {
            pulls_wait(s, pulls, i + 1, &early);
            asked = 0;
        }
    }
    if (rc != 0)
        first = *last_error();
    if (first.code == 0)
        first = early;
    pulls_wait(s, pulls, t->n, &first);
    for (size_t i = 0; i < t->n && first.code == 0; i++)
        if (pulls[i].x != NULL && pull_give(&pulls[i], t, last_error()) != 0)
            first = *last_error();
    return first.code != 0 ? last_error_is(&first) : 0;
}

int kvs_parts_pull(struct tug_kvstore *s, const struct kvs_items *t, int priority)
{
    struct pull *pulls = mem_zalloc((t->n + 1) * sizeof(*pulls));
    if (pulls == NULL)
        return err_nomem(last_error(), "a pull");
    int rc = pull_all(s, t, pulls, priority);
    for (size_t i = 0; i < t->n; i++)
        pull_free(&pulls[i]);
    mem_free(pulls);
    return rc;
}

// Pulls the rows of a piece: those with the n ids from index `from` on.
static int pull_piece_rows(struct tug_kvstore *s, struct kvs_entry *x,
                           struct kvs_piece *p, struct tug_array *to, uint64_t from,
                           uint64_t n, int priority)
{
    struct err *e = last_error();
    struct kvs_head h = head_of(x, p);
    size_t data = n * row_bytes(x);
    uint64_t key = wire_key(s, p);
    char *at, *got = mem_alloc(kvs_padded(data, 4) + 4);
    h.n = n;
    int rc = got == NULL ? err_nomem(e, "rows of a pull")
                         : reserve_send(p, KVS_PULL_ROWS, sizeof(h) + n * sizeof(int64_t),
                                        &at, e);
    if (rc == 0) {
        memcpy(at, &h, sizeof(h));
        for (uint64_t i = 0; i < n; i++)
            ((int64_t *)(at + sizeof(h)))[i] = to->ids[from + i] - (int64_t)p->first;
        struct tug_kv_request q = {
            .push = true,
            .pull = true,
            .cmd = KVS_PULL_ROWS,
            .priority = priority,
            .data = {.keys = &key,
                     .n_keys = 1,
                     .values = (const float *)at,
                     .n_values = (sizeof(h) + n * sizeof(int64_t)) / 4},
            .pulled = (float *)got,
            .n_pulled = kvs_padded(data, 4) / 4,
        };
        rc = kv_send_words(s->app, &q, &p->timestamp);
    }
    if (rc == 0)
        rc = kvs_dist_wait(s, p->timestamp, NULL);
    struct tug_array rows = x->shape;
    rows.rows = n;
    rows.width = x->width;
    rows.data = got;
    if (rc == 0)
        rc = kvs_array_gives(&rows, to->dtype, "the rows", e);
    if (rc == 0)
        kvs_cast(to->dtype, (char *)to->data + kvs_bytes(to, from), x->shape.dtype, got,
                 n * x->width);
    mem_free(got);
    return rc;
}

int kvs_parts_pull_rows(struct tug_kvstore *s, struct kvs_entry *x, struct tug_array *to,
                        int priority)
{
    TRY(kvs_parts_settle(s, x));
    for (uint32_t i = 0; i < x->n_pieces; i++) {
        struct kvs_piece *p = &x->pieces[i];
        uint64_t from = ids_before(to, 0, p->first);
        uint64_t n = ids_before(to, from, p->first + p->rows) - from;
        if (n > 0 && pull_piece_rows(s, x, p, to, from, n, priority) != 0)
            return err_wrap(last_error(), "%s", x->key.text);
    }
    return 0;
}
