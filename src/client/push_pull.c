// Pushes and pulls, from the call to the caller's arrays: checks, orders keys, encodes
// values, reads answers. If a body is a contiguous part of an array, it is sent from the
// caller's array (or the request's own), and an answer is received into it.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/finite.h"
#include "base/hash.h"
#include "client/private.h"
#include "protocol/bf16.h"
#include "wire/pack.h"

enum {
    COPY_BYTES =
        4096, // the van copies smaller bodies, which is cheaper than tracking their use
    LIST_MIN_KEYS = 64 // shorter lists get no signature and are not packed
};

// ---------------------------------------------------------------- preparing

// Gathers keys in the order of sending.
static int gather_keys(struct request *r)
{
    struct client *c = r->client;
    const uint64_t *keys = r->keys;
    uint32_t *order = staging_take(r, r->n * sizeof(*order));
    uint64_t *gathered = staging_take(r, r->n * sizeof(*gathered));
    if (order == NULL || gathered == NULL)
        return TUG_ENOMEM;
    enum wire_space space = r->spec->space;
    placement_arrange(c, &c->placements[space], space, keys, r->n, order);
    for (size_t i = 0; i < r->n; i++)
        gathered[i] = keys[order[i]];
    r->order = order;
    r->keys = gathered;
    return 0;
}

static int prepare_keys(struct request *r, const uint64_t *keys, bool arranged)
{
    r->keys = keys;
    if (arranged) {
        int rc = slice_cut(r);
        if (rc !=
            // an error other than TUG_EUSAGE; that one means that the placement has
            // changed since the keys were arranged, so they are arranged again below
            TUG_EUSAGE)
            return rc;
    }
    TRY(gather_keys(r));
    return slice_cut(r);
}

// Encodes a push's values in the order of its keys. Only gradients are rounded: assigned
// values are exact.
static int prepare_values(struct request *r)
{
    const float *values = r->u.push.values;
    size_t width = r->value_bytes / sizeof(float);
    bool bf16 = r->client->o.bf16 && r->u.push.op == WIRE_GRADIENT;
    if (!bf16 && r->order == NULL) {
        r->values = (const char *)values;
        return 0;
    }
    size_t bytes = bf16 ? sizeof(uint16_t) : sizeof(float);
    char *to = staging_take(r, r->n * width * bytes);
    if (to == NULL)
        return TUG_ENOMEM;
    r->values = to;
    r->value_bytes = width * bytes;
    for (size_t i = 0; i < r->n; i++, to += width * bytes) {
        const float *from = values + (r->order != NULL ? r->order[i] : i) * width;
        if (bf16)
            bf16_from_n((uint16_t *)(void *)to, from, width);
        else
            memcpy(to, from, width * bytes);
    }
    return 0;
}

static int begin_pull(struct request *r)
{
    return prepare_keys(r, r->u.pull.keys, r->u.pull.arranged);
}

static int begin_push(struct request *r)
{
    r->order = NULL; // discards the order of an earlier cut
    r->value_bytes = (size_t)spec_value_width(r->spec, r->u.push.op) * sizeof(float);
    TRY(prepare_keys(r, r->u.push.keys, r->u.push.arranged));
    return prepare_values(r);
}

// ---------------------------------------------------------------- sending

static void release(void *ctx)
{
    struct sending *s = ctx;
    struct request *r = s->request;
    sending_give(r->client, s);
    request_unpin(r);
}

// Sends a message whose body is the request's memory.
static int send_body(struct slice *s, const void *m, uint64_t bytes)
{
    struct client *c = s->peer->client;
    struct sending *sending = bytes > COPY_BYTES ? sending_take(c) : NULL;
    c->stats.bytes_sent += bytes;
    if (sending == NULL)
        return request_send(s, m);
    sending->request = s->request;
    sending->peer = s->peer;
    sending->link = s->peer->s.link;
    s->request->pins++;
    struct van_release done = {release, sending};
    return van_send(c->van, sending->link, s->request->type, s->id, m, &done);
}

// Packs the keys of a slice if this saves bytes; leaves them unpacked if memory is short.
static void pack(struct slice *s, struct wire_span keys)
{
    struct client *c = s->peer->client;
    s->pack_tried = true;
    buf_clear(&c->packed);
    if (!pack_pays(keys.data, s->n) || pack_keys(keys.data, s->n, &c->packed) != 0)
        return;
    void *to = staging_take(s->request, c->packed.len);
    if (to == NULL)
        return;
    memcpy(to, c->packed.data, c->packed.len);
    s->packed = (struct wire_span){to, c->packed.len};
}

// Returns the keys of a slice as they are sent: plain, packed, or as their list's
// signature.
static struct wire_span keys_of(struct slice *s, uint64_t *ret_list, uint8_t *flags)
{
    const struct request *r = s->request;
    const struct client *c = r->client;
    struct wire_span keys = {r->keys + s->begin, s->n * sizeof(uint64_t)};
    *ret_list = 0;
    if (s->n < LIST_MIN_KEYS)
        return keys;
    if (c->o.cache_keys && peer_has_room(s->peer, keys.n)) {
        if (s->list == 0)
            s->list = hash_bytes(keys.data, keys.n, r->spec->id) | 1;
        *ret_list = s->list;
        if (peer_knows(s->peer, s->list, keys.n) && !s->all_keys)
            return (struct wire_span){0};
    }
    if (c->o.pack_keys && !s->pack_tried)
        pack(s, keys);
    if (s->packed.n == 0)
        return keys;
    *flags |= WIRE_KEYS_PACKED;
    return s->packed;
}

static int send_push(struct slice *s)
{
    const struct request *r = s->request;
    const struct client_push *p = &r->u.push;
    struct client *c = r->client;
    // Every loop needs the number of examples, to divide by it.
    bool each = r->spec->mode == WIRE_SYNC;
    bool bf16 = c->o.bf16 && p->op == WIRE_GRADIENT;
    struct msg_push m = {
        .table = p->table,
        .epoch = c->epoch,
        .session = member_session(c->member),
        .number = r->number,
        .low = r->lane->pushes.low,
        .op = (uint8_t)p->op,
        .flags = (uint8_t)((bf16 ? WIRE_BF16 : 0) |
                           (p->pulled != NULL ? WIRE_ALSO_PULL : 0) |
                           (p->again ? WIRE_AGAIN : 0) |
                           (r->whole && !r->all_loops ? WIRE_KEYS_ONLY : 0)),
        .n = s->n,
        .rate = p->rate,
        .pass = p->pass,
        .clock = p->clock,
        .micro = p->micro,
        .micros = p->micros,
        .id_pass = p->id_pass,
        .id_piece = p->id_piece,
        .id_group = p->id_group,
        .id_low = p->id_low,
        .examples = each || s->begin == 0 ? p->examples : 0,
        .values = {r->values + s->begin * r->value_bytes, s->n * r->value_bytes},
    };
    m.keys = keys_of(s, &m.list, &m.flags);
    return send_body(s, &m, m.keys.n + m.values.n);
}

static int send_pull(struct slice *s)
{
    const struct request *r = s->request;
    const struct client_pull *p = &r->u.pull;
    struct client *c = r->client;
    struct msg_pull m = {
        .table = p->table,
        .epoch = c->epoch,
        .session = member_session(c->member),
        .flags = p->whole_rows ? WIRE_ROWS_WHOLE
                 : c->o.bf16   ? WIRE_BF16
                               : 0,
        .n = s->n,
        .clock = p->clock,
    };
    if (p->found != NULL && !p->whole_rows)
        m.flags |= WIRE_FOUND;
    m.keys = keys_of(s, &m.list, &m.flags);
    return send_body(s, &m, m.keys.n);
}

// ---------------------------------------------------------------- answers

// Returns the bytes of a float in an answer; 0 if the message does not fit this slice.
static size_t check_pulled(const struct slice *s, const struct msg_pulled *m)
{
    const struct request *r = s->request;
    size_t bytes = m->flags & WIRE_BF16 ? sizeof(uint16_t) : sizeof(float);
    if (m->n != s->n || m->width != r->answer_width || m->changed.n != 0 ||
        m->values.n != (uint64_t)m->n * m->width * bytes)
        return 0;
    bool says = r->kind == &request_pull &&
                (r->u.pull.whole_rows || r->u.pull.found != NULL);
    return m->found.n >= (says ? (s->n + 7) / 8 : 0) ? bytes : 0;
}

// Places a body that is values only, without padding, into the caller's array.
void *rows_place(struct slice *s, uint16_t type, const union wire_any *head,
                 uint64_t body_bytes)
{
    struct request *r = s->request;
    if (type != MSG_PULLED || r->answer != type || r->order != NULL || s->placing)
        return NULL;
    if (check_pulled(s, &head->pulled) != sizeof(float) ||
        body_bytes != head->pulled.values.n || body_bytes == 0)
        return NULL;
    s->placing = true;
    r->pins++;
    return r->answers + s->begin * r->answer_width;
}

static void store_values(const struct slice *s, const struct msg_pulled *m, size_t bytes)
{
    const struct request *r = s->request;
    size_t width = r->answer_width;
    if (bytes == sizeof(float) && r->order == NULL) {
        memcpy(r->answers + s->begin * width, m->values.data, m->values.n);
        return;
    }
    const char *from = m->values.data;
    for (size_t i = 0; i < s->n; i++, from += width * bytes) {
        size_t k = s->begin + i;
        float *to = r->answers + (r->order != NULL ? r->order[k] : k) * width;
        if (bytes == sizeof(float))
            memcpy(to, from, width * bytes);
        else
            bf16_to_n(to, (const uint16_t *)(const void *)from, width);
    }
}

static void store_found(const struct slice *s, const struct msg_pulled *m)
{
    const struct request *r = s->request;
    if (r->kind != &request_pull || r->u.pull.found == NULL)
        return;
    const uint8_t *bits = m->found.data;
    for (size_t i = 0; i < s->n; i++) {
        size_t k = s->begin + i;
        r->u.pull.found[r->order != NULL ? r->order[k] : k] = bits[i / 8] >> i % 8 & 1;
    }
}

static bool take_pulled(struct slice *s, const struct van_message *m)
{
    const struct msg_pulled *p = &m->m->pulled;
    size_t bytes = m->type == MSG_PULLED ? check_pulled(s, p) : 0;
    if (bytes != 0 && !m->placed && p->values.n != 0)
        store_values(s, p, bytes);
    if (bytes != 0)
        store_found(s, p);
    return m->type == MSG_OK || bytes != 0;
}

static bool take_pushed(struct slice *s, const struct van_message *m)
{
    struct client_stats *x = &s->request->client->stats;
    if (m->type == MSG_OK && m->m->ok.value != 0 && x->left_out++ == 0) {
        x->left_out_key = m->m->ok.value - 1;
        x->left_out_table = s->request->u.push.table;
    }
    return take_pulled(s, m);
}

REQUEST_KIND(push, "a push to", MSG_PUSH, MSG_OK, begin_push, .send = send_push,
             .take = take_pushed, .numbers = NUMBERS_PUSHES);
REQUEST_KIND(pull, "a pull from", MSG_PULL, MSG_PULLED, begin_pull, .send = send_pull,
             .take = take_pulled);

// Checks the values of a push before any part is sent: if one server refused its part,
// the others would still apply theirs.
static int check_values(const struct client *c, const struct client_push *p,
                        const struct table_spec *spec, struct err *e)
{
    size_t width = spec_value_width(spec, p->op), n = p->n * width;
    bool bf16 = c->o.bf16 && p->op == WIRE_GRADIENT;
    if (bf16 ? finite_when_bf16(p->values, n) : finite_floats(p->values, n))
        return 0;
    size_t i = 0;
    while (i + 1 < n && (bf16 ? finite_when_bf16 : finite_floats)(p->values + i, 1))
        i++;
    return err_set(e, TUG_EUSAGE,
                   "a push to table %u (%s): value %zu of key %llu is %s: nothing was "
                   "pushed",
                   spec->id, spec->config.name, i % width,
                   (unsigned long long)p->keys[i / width],
                   isfinite(p->values[i]) ? "too large to travel as bf16" : "not finite");
}

static int check_count(const char *what, size_t n, struct err *e)
{
    if (n <= UINT32_MAX)
        return 0;
    return err_set(e, TUG_EUSAGE, "a %s of %zu keys is more than a message can hold",
                   what, n);
}

client_ts client_push(struct client *c, const struct client_push *p, struct err *e)
{
    const struct table_spec *spec = request_known(c, p->table, e);
    if (spec == NULL || check_count("push", p->n, e) != 0 ||
        check_values(c, p, spec, e) != 0)
        return 0;
    struct lane *lane = lane_of(c, spec, p->op);
    if (lane == NULL) {
        err_nomem(e, "the pushes to a table");
        return 0;
    }
    struct request *r = request_new_in(lane, c, &request_push, spec, e);
    if (r == NULL)
        return 0;
    r->u.push = *p;
    r->n = p->n;
    r->value_bytes = (size_t)spec_value_width(spec, p->op) * sizeof(float);
    r->answer = p->pulled != NULL ? MSG_PULLED : MSG_OK;
    r->answers = p->pulled;
    r->answer_width = spec->accessor.pull_width;
    r->all_loops = spec->mode == WIRE_SYNC && !p->fixed_keys;
    r->whole = spec->mode == WIRE_SYNC && p->op == WIRE_GRADIENT;
    r->done = p->done;
    r->ctx = p->ctx;
    c->stats.pushes++;
    c->stats.keys += p->n;
    return request_begin(r, NULL);
}

client_ts client_pull(struct client *c, const struct client_pull *p, struct err *e)
{
    const struct table_spec *spec = request_known(c, p->table, e);
    if (spec == NULL || check_count("pull", p->n, e) != 0)
        return 0;
    struct request *r = request_new(c, &request_pull, spec, e);
    if (r == NULL)
        return 0;
    r->u.pull = *p;
    r->n = p->n;
    r->answers = p->values;
    r->answer_width = p->whole_rows ? spec->accessor.width : spec->accessor.pull_width;
    r->all_loops = p->all_loops;
    r->done = p->done;
    r->ctx = p->ctx;
    c->stats.pulls++;
    c->stats.keys += p->n;
    return request_begin(r, NULL);
}
