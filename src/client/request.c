// Requests from the call that makes them to the callback that says how they ended: the
// order in which they start, the window of pushes, deadlines.
//
// A request that has failed, or was cancelled, is dropped at once: answers that still
// come find no slice. Its push number counts as closed then: the low-water mark passes
// it, and what is still under way of it is acknowledged by servers, but not applied.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "client/private.h"

// A new request in the client's list. NULL with e set: the cluster is over or not there
// yet, or no memory.
static struct request *new_request(struct client *c, enum request_kind kind,
                                   struct err *e)
{
    struct err why;
    if (c->over || member_ended(c->member, &why)) {
        member_ended(c->member, &why);
        err_set(e, TUG_EIO, "the cluster is over%s%s", why.code != 0 ? ": " : "",
                why.code != 0 ? why.text : "");
        return NULL;
    }
    if (c->epoch == 0) {
        err_set(e, TUG_EUSAGE, "the cluster is not ready yet: wait for it first");
        return NULL;
    }
    struct request *r = request_take(c);
    if (r == NULL) {
        err_nomem(e, "a request");
        return NULL;
    }
    r->kind = kind;
    r->state = REQUEST_QUEUED;
    r->deadline = van_now(c->van) + c->o.request_timeout_ns;
    r->before = c->last;
    if (c->last != NULL)
        c->last->behind = r;
    else
        c->first = r;
    c->last = r;
    if (c->queued == NULL)
        c->queued = r;
    c->in_flight++;
    return r;
}

static void unlink_request(struct request *r)
{
    struct client *c = r->client;
    if (c->queued == r)
        c->queued = r->behind;
    if (r->before != NULL)
        r->before->behind = r->behind;
    else
        c->first = r->behind;
    if (r->behind != NULL)
        r->behind->before = r->before;
    else
        c->last = r->before;
    c->in_flight--;
}

static void close_number(struct client *c, uint64_t number)
{
    if (number == 0)
        return;
    c->done_bits |= (uint64_t)1 << (number - c->low);
    while (c->done_bits & 1) {
        c->done_bits >>= 1;
        c->low++;
    }
}

static void ended(struct request *r)
{
    struct client *c = r->client;
    r->state = REQUEST_ENDED;
    r->behind = NULL;
    if (c->ended_last != NULL)
        c->ended_last->behind = r;
    else
        c->ended = r;
    c->ended_last = r;
}

// Links by which the van still sends memory of the request, or receives into it, break.
static void let_go(struct request *r, uint64_t now)
{
    struct client *c = r->client;
    struct err why;
    err_set(&why, TUG_EIO, "a request was given up");
    for (struct slice *s = r->slices; s != NULL; s = s->next)
        if (s->placing)
            peer_break(s->peer, &why, now);
    for (struct sending *s = c->sendings; s != NULL; s = s->behind)
        if (s->request == r && s->link == s->peer->link)
            peer_break(s->peer, &why, now);
}

// Where a table stands, or would stand, in the list.
static size_t table_place(const struct client *c, uint32_t table)
{
    size_t low = 0, high = c->n_tables;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c->tables[middle]->id < table)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct table_spec *client_spec(const struct client *c, uint32_t table)
{
    size_t at = table_place(c, table);
    return at < c->n_tables && c->tables[at]->id == table ? c->tables[at] : NULL;
}

// The room was made by client_table. Requests point at specs, so a known one stays.
static void learn_table(struct request *r)
{
    struct client *c = r->client;
    struct table_spec *spec = r->u.table->spec;
    if (client_spec(c, spec->id) != NULL)
        return;
    size_t at = table_place(c, spec->id);
    memmove(c->tables + at + 1, c->tables + at,
            (c->n_tables - at) * sizeof(struct table_spec *));
    c->tables[at] = spec;
    c->n_tables++;
    r->u.table->spec = NULL;
}

void request_end(struct request *r, int rc, const struct err *why)
{
    if (r->state != REQUEST_QUEUED && r->state != REQUEST_OPEN)
        return;
    struct client *c = r->client;
    r->rc = rc;
    if (rc != 0)
        r->why = *why;
    if (rc != 0 && r->pins != 0)
        let_go(r, van_now(c->van));
    while (r->slices != NULL)
        slice_drop(r->slices);
    unlink_request(r);
    if (r->kind == REQUEST_PUSH)
        close_number(c, r->number);
    if (r->kind == REQUEST_TABLE && rc == 0)
        learn_table(r);
    r->state = REQUEST_ENDING;
    if (r->pins == 0)
        ended(r);
}

void request_unpin(struct request *r)
{
    if (--r->pins == 0 && r->state == REQUEST_ENDING)
        ended(r);
}

void slice_answered(struct slice *s)
{
    struct request *r = s->request;
    slice_drop(s);
    if (r->open == 0)
        request_end(r, 0, NULL);
}

void request_end_all(struct client *c, const struct err *why)
{
    while (c->first != NULL)
        request_end(c->first, why->code, why);
}

// Callbacks may make new requests, and free nothing but by client_cancel.
void request_flush(struct client *c)
{
    while (c->ended != NULL) {
        struct request *r = c->ended;
        c->ended = r->behind;
        if (c->ended == NULL)
            c->ended_last = NULL;
        client_ts ts = r->ts;
        r->state = REQUEST_DONE;
        if (r->done == NULL && !r->forget)
            continue;
        if (r->done != NULL)
            r->done(r->ctx, ts, r->rc);
        if (request_find(c, ts) != NULL) // the callback did not ask for the sentence
            request_give(r);
    }
}

// Starting.

static int start(struct request *r)
{
    struct client *c = r->client;
    switch (r->kind) {
    case REQUEST_PUSH:
    case REQUEST_PULL:
        TRY(encode_prepare(r));
        break;
    case REQUEST_ROWS: {
        const struct placement *p = &c->placements[r->spec->space];
        TRY(slice_add(r, p->loops[p->loop[r->u.rows.message.partition]], 0, 0));
        break;
    }
    default:
        TRY(slice_cut_all(r));
    }
    if (r->kind == REQUEST_PUSH)
        r->number = c->next_number++;
    r->state = REQUEST_OPEN;
    return 0;
}

static bool has_room(const struct client *c, const struct request *r)
{
    return r->kind != REQUEST_PUSH || c->next_number - c->low < SHARD_WINDOW;
}

void request_advance(struct client *c, uint64_t now)
{
    while (c->queued != NULL && has_room(c, c->queued)) {
        struct request *r = c->queued;
        int rc = start(r);
        if (rc != 0) {
            struct err e;
            err_nomem(&e, "a request's slices");
            request_end(r, rc, &e);
            continue;
        }
        c->queued = r->behind;
        if (r->slices == NULL)
            request_end(r, 0, NULL);
        for (struct slice *s = r->slices, *next; s != NULL; s = next) {
            next = s->next;
            encode_send(s, now);
            if (r->state != REQUEST_OPEN)
                break;
        }
    }
}

// Deadlines.

static const char *const kind_names[] = {
    [REQUEST_PUSH] = "a push to",    [REQUEST_PULL] = "a pull from",
    [REQUEST_TABLE] = "making",      [REQUEST_TICK] = "a tick of",
    [REQUEST_ORDER] = "an order to", [REQUEST_STAT] = "figures of",
    [REQUEST_ROWS] = "rows of",
};

// "no answer for 60 s to a push to table 3 (x) from server 0 (a:1), server 1 (b:2: why)"
static void say_who_is_missing(const struct request *r, struct err *e)
{
    struct client *c = r->client;
    char who[512], name[ROSTER_NAME_MAX];
    size_t at = 0;
    const struct slice *s = r->slices;
    who[0] = '\0';
    for (int n = 0; s != NULL && at < sizeof(who); s = s->next, n++) {
        const struct peer *p = s->peer;
        const char *why = p->state != PEER_READY ? p->why.text : "";
        int m = snprintf(who + at, sizeof(who) - at, "%s%s%s%.200s%s", n > 0 ? ", " : "",
                         peer_name(p, name), *why ? " (" : "", why, *why ? ")" : "");
        at += m > 0 ? (size_t)m : 0;
    }
    err_set(e, TUG_EIO, "no answer for %.1f s to %s table %u (%s) from %s",
            (double)c->o.request_timeout_ns * 1e-9, kind_names[r->kind], r->spec->id,
            r->spec->name,
            r->state == REQUEST_QUEUED ? "the servers: pushes before it have no answer"
                                       : who);
}

void request_check_deadlines(struct client *c, uint64_t now)
{
    while (c->first != NULL && c->first->deadline <= now) {
        struct err e;
        say_who_is_missing(c->first, &e);
        request_end(c->first, e.code, &e);
    }
}

// The calls.

static const struct table_spec *known(struct client *c, uint32_t table, struct err *e)
{
    const struct table_spec *s = client_spec(c, table);
    if (s == NULL)
        err_set(e, TUG_EUSAGE, "table %u is not known: make it first", table);
    return s;
}

static client_ts begin(struct request *r, client_done_fn done, void *ctx)
{
    struct client *c = r->client;
    client_ts ts = r->ts;
    r->done = done;
    r->ctx = ctx;
    request_advance(c, van_now(c->van));
    if (c->o.resend_ns != 0)
        van_wake(c->van); // what is due has changed, and perhaps nothing ever comes
    return ts;
}

client_ts client_push(struct client *c, const struct client_push *p, struct err *e)
{
    const struct table_spec *spec = known(c, p->table, e);
    if (spec == NULL)
        return 0;
    if (p->n > UINT32_MAX) {
        err_set(e, TUG_EUSAGE, "a push of %zu keys: more than a message holds", p->n);
        return 0;
    }
    struct request *r = new_request(c, REQUEST_PUSH, e);
    if (r == NULL)
        return 0;
    const struct accessor *a = &spec->accessor;
    uint32_t width = p->op == WIRE_GRADIENT ? a->push_width
                     : p->op == WIRE_ASSIGN ? a->pull_width
                                            : a->width;
    r->spec = spec;
    r->u.push = *p;
    r->n = p->n;
    r->value_bytes = (size_t)width * sizeof(float);
    r->answers = p->pulled;
    r->answer_width = a->pull_width;
    c->stats.pushes++;
    c->stats.keys += p->n;
    return begin(r, p->done, p->ctx);
}

client_ts client_pull(struct client *c, const struct client_pull *p, struct err *e)
{
    const struct table_spec *spec = known(c, p->table, e);
    if (spec == NULL)
        return 0;
    if (p->n > UINT32_MAX) {
        err_set(e, TUG_EUSAGE, "a pull of %zu keys: more than a message holds", p->n);
        return 0;
    }
    struct request *r = new_request(c, REQUEST_PULL, e);
    if (r == NULL)
        return 0;
    r->spec = spec;
    r->u.pull = *p;
    r->n = p->n;
    r->answers = p->values;
    r->answer_width = p->whole_rows ? spec->accessor.width : spec->accessor.pull_width;
    c->stats.pulls++;
    c->stats.keys += p->n;
    return begin(r, p->done, p->ctx);
}

static void wanted_free(struct table_wanted *w)
{
    if (w == NULL)
        return;
    buf_free(&w->groups);
    buf_free(&w->inits);
    mem_free(w->spec);
    mem_free(w);
}

void request_free_own(struct request *r)
{
    if (r->kind != REQUEST_TABLE)
        return;
    wanted_free(r->u.table);
    r->u.table = NULL;
}

static int wanted_open(struct client *c, struct table_wanted **ret,
                       const struct table_spec *s, struct err *e)
{
    // Room for all tables whose making is under way.
    size_t room = c->n_tables + c->in_flight + 1;
    if (room > c->max_tables) {
        void *p = mem_realloc_array(c->tables, room * 2, sizeof(struct table_spec *));
        if (p == NULL)
            return err_nomem(e, "the list of tables");
        c->tables = p;
        c->max_tables = room * 2;
    }
    struct table_wanted *w = mem_zalloc(sizeof(*w));
    if (w == NULL)
        return err_nomem(e, "a table's description");
    w->groups = BUF_INIT(WIRE_BYTES_MAX);
    w->inits = BUF_INIT(WIRE_BYTES_MAX);
    w->spec = mem_alloc(sizeof(*w->spec));
    int rc = w->spec == NULL ? TUG_ENOMEM : 0;
    if (rc == 0) {
        *w->spec = *s;
        w->spec->options.partition_bits = c->partition_bits;
        rc = spec_encode(w->spec, &w->groups, &w->inits, &w->message);
    }
    if (rc != 0) {
        wanted_free(w);
        return err_set(e, rc, "table %u (%s): %s", s->id, s->name, err_text(rc));
    }
    *ret = w;
    return 0;
}

client_ts client_table(struct client *c, const struct table_spec *s, struct err *e)
{
    struct table_wanted *w = NULL;
    if (wanted_open(c, &w, s, e) != 0)
        return 0;
    struct request *r = new_request(c, REQUEST_TABLE, e);
    if (r == NULL) {
        wanted_free(w);
        return 0;
    }
    r->u.table = w;
    r->spec = w->spec;
    return begin(r, NULL, NULL);
}

client_ts client_tick(struct client *c, uint32_t table, uint64_t clock, struct err *e)
{
    const struct table_spec *spec = known(c, table, e);
    struct request *r = spec != NULL ? new_request(c, REQUEST_TICK, e) : NULL;
    if (r == NULL)
        return 0;
    r->spec = spec;
    r->u.tick = (struct msg_tick){
        .table = table, .session = member_session(c->member), .clock = clock};
    return begin(r, NULL, NULL);
}

client_ts client_order(struct client *c, uint32_t table, enum wire_order what,
                       uint32_t other, struct err *e)
{
    const struct table_spec *spec = known(c, table, e);
    struct request *r = spec != NULL ? new_request(c, REQUEST_ORDER, e) : NULL;
    if (r == NULL)
        return 0;
    r->spec = spec;
    r->u.order = (struct msg_table_do){
        .table = table, .what = (uint8_t)what, .other = other};
    return begin(r, NULL, NULL);
}

client_ts client_clock(struct client *c, uint32_t table, uint64_t clock, struct err *e)
{
    const struct table_spec *spec = known(c, table, e);
    struct request *r = spec != NULL ? new_request(c, REQUEST_ORDER, e) : NULL;
    if (r == NULL)
        return 0;
    r->spec = spec;
    r->u.order = (struct msg_table_do){
        .table = table, .what = WIRE_CLOCK, .clock = clock};
    return begin(r, NULL, NULL);
}

client_ts client_stat(struct client *c, uint32_t table, struct msg_table_is *ret,
                      struct err *e)
{
    const struct table_spec *spec = known(c, table, e);
    struct request *r = spec != NULL ? new_request(c, REQUEST_STAT, e) : NULL;
    if (r == NULL)
        return 0;
    *ret = (struct msg_table_is){.clock = UINT64_MAX};
    r->spec = spec;
    r->u.stat = ret;
    return begin(r, NULL, NULL);
}

client_ts client_rows(struct client *c, uint32_t table, uint32_t partition, uint64_t from,
                      uint32_t max, uint64_t *ret_keys, float *ret_values,
                      uint32_t *ret_n, bool *ret_more, struct err *e)
{
    const struct table_spec *spec = known(c, table, e);
    if (spec != NULL && partition >> c->partition_bits != 0) {
        err_set(e, TUG_EUSAGE, "there is no partition %u", partition);
        return 0;
    }
    struct request *r = spec != NULL ? new_request(c, REQUEST_ROWS, e) : NULL;
    if (r == NULL)
        return 0;
    r->spec = spec;
    r->u.rows = (struct rows_wanted){
        .message = {.table = table, .partition = partition, .from = from, .max = max},
        .keys = ret_keys,
        .values = ret_values,
        .n = ret_n,
        .more = ret_more,
    };
    return begin(r, NULL, NULL);
}

bool client_done(struct client *c, client_ts ts, int *ret_rc, struct err *e)
{
    struct request *r = request_find(c, ts);
    if (r == NULL) {
        *ret_rc = err_set(e, TUG_EUSAGE, "there is no such request, or it is forgotten");
        return true;
    }
    if (r->state != REQUEST_DONE)
        return false;
    *ret_rc = r->rc;
    if (r->rc != 0 && e != NULL)
        *e = r->why;
    request_give(r);
    return true;
}

// Its arrays are the caller's again when the van has let go of them: links that hold them
// have broken, and what is queued there goes out for a moment only.
void client_cancel(struct client *c, client_ts ts)
{
    struct request *r = request_find(c, ts);
    if (r == NULL)
        return;
    if (r->state == REQUEST_DONE) {
        request_give(r);
        return;
    }
    struct err why;
    err_set(&why, TUG_EINTERRUPTED, "cancelled");
    r->done = NULL;
    r->forget = true;
    request_end(r, why.code, &why);
    while (request_find(c, ts) != NULL && r->state == REQUEST_ENDING)
        if (van_poll(c->van, van_now(c->van), &why) != 0)
            break;
}

size_t client_in_flight(const struct client *c)
{
    return c->in_flight;
}
