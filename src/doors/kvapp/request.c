// Requests of this node. Their parts are sent to nodes, and a request ends when all parts
// have their answers and the van does not use the caller's memory any more.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "doors/kvapp/node.h"

// The id of a request is count << SLOT_BITS | slot: the slot finds it without a search,
// and the count makes the id unique.
enum { SLOT_BITS = 20, SLOTS_MAX = 1 << SLOT_BITS, FIRST_OPEN = 64 };
// From this many requests in flight on, messages are sent in larger batches.
enum { MANY = 8 };

// ---------------------------------------------------------------- timestamps

static struct kv_request **request_place_of(struct tug_app *a, uint32_t timestamp)
{
    return &a->open[timestamp & (a->n_open - 1)];
}

struct kv_request *kv_request_find(struct tug_app *a, uint32_t timestamp)
{
    struct kv_request *r = a->n_open > 0 ? *request_place_of(a, timestamp) : NULL;
    return r != NULL && r->timestamp == timestamp ? r : NULL;
}

// Doubles the table of open requests until no two requests have the same index.
static int more_places(struct tug_app *a)
{
    uint32_t n = a->n_open;
    struct kv_request **open = NULL;
    bool clash = true;
    while (clash) {
        n = n == 0 ? FIRST_OPEN : n * 2;
        mem_free(open);
        open = n > SLOTS_MAX ? NULL : mem_zalloc(n * sizeof(*open));
        if (open == NULL)
            return TUG_ENOMEM;
        clash = false;
        for (uint32_t i = 0; i < a->n_open && !clash; i++) {
            if (a->open[i] == NULL)
                continue;
            struct kv_request **to = &open[a->open[i]->timestamp & (n - 1)];
            clash = *to != NULL;
            *to = a->open[i];
        }
    }
    mem_free(a->open);
    a->open = open;
    a->n_open = n;
    return 0;
}

// ---------------------------------------------------------------- slots

static struct kv_request *new_slot(struct tug_node *n)
{
    if (n->n_requests == n->cap_requests) {
        uint32_t cap = n->cap_requests == 0 ? FIRST_OPEN : n->cap_requests * 2;
        if (cap > SLOTS_MAX)
            return NULL;
        struct kv_request **more = mem_realloc_array(n->requests, cap, sizeof(*more));
        if (more == NULL)
            return NULL;
        n->requests = more;
        n->cap_requests = cap;
    }
    struct kv_request *r = mem_zalloc(sizeof(*r));
    if (r != NULL) {
        r->id = n->n_requests;
        n->requests[n->n_requests++] = r;
    }
    return r;
}

struct kv_request *kv_request_by_id(struct tug_node *n, uint64_t id)
{
    uint64_t slot = id & (SLOTS_MAX - 1);
    struct kv_request *r = slot < n->n_requests ? n->requests[slot] : NULL;
    return r != NULL && r->id == id && r->state == KV_OPEN ? r : NULL;
}

static int kv_request_make_room(struct kv_request *r, uint32_t n_parts)
{
    if (n_parts > r->cap_parts) {
        struct kv_part *parts = mem_array(n_parts, sizeof(*parts));
        if (parts == NULL)
            return TUG_ENOMEM;
        mem_free(r->parts);
        r->parts = parts;
        r->cap_parts = n_parts;
    }
    return 0;
}

static void link_in(struct tug_node *n, struct kv_request *r)
{
    list_append(n->first, n->last, r, before, behind);
    n->n_in_flight++;
    r->app->n_open_requests++;
}

static void link_out(struct tug_node *n, struct kv_request *r)
{
    n->n_in_flight--;
    r->app->n_open_requests--;
    list_remove(n->first, n->last, r, before, behind);
}

struct kv_request *kv_request_new(struct tug_app *a, uint32_t n_parts)
{
    struct tug_node *n = a->node;
    while (a->n_open == 0 || *request_place_of(a, a->next_timestamp) != NULL)
        if (more_places(a) != 0)
            return NULL;
    struct kv_request *r = n->free_requests;
    if (r == NULL)
        r = new_slot(n);
    else
        n->free_requests = r->behind;
    if (r == NULL)
        return NULL;
    if (kv_request_make_room(r, n_parts) != 0) {
        r->behind = n->free_requests;
        n->free_requests = r;
        return NULL;
    }
    struct kv_part *parts = r->parts;
    uint32_t cap = r->cap_parts;
    uint64_t slot = r->id & (SLOTS_MAX - 1);
    *r = (struct kv_request){
        .app = a,
        .id = ++n->count << SLOT_BITS | slot,
        .timestamp = a->next_timestamp++,
        .state = KV_OPEN,
        .open = n_parts + 1, // kv_request_start subtracts the 1
        .n_parts = n_parts,
        .cap_parts = cap,
        .parts = parts,
    };
    for (uint32_t i = 0; i < n_parts; i++)
        parts[i] = (struct kv_part){.request = r};
    *request_place_of(a, r->timestamp) = r;
    link_in(n, r);
    return r;
}

int kv_request_new_to(struct kv_request **ret, struct tug_app *a, uint32_t group_or_id,
                      enum kv_kind kind, struct err *e)
{
    struct tug_node *n = a->node;
    uint32_t ids[ROSTER_MAX_NODES];
    if (n->over)
        return last_error_is(&n->why);
    size_t n_ids = kv_node_ids(n, group_or_id, ids, ROSTER_MAX_NODES);
    if (n_ids == 0)
        return err_set(e, TUG_EUSAGE, "there is no node or group %u", group_or_id);
    struct kv_request *r = kv_request_new(a, (uint32_t)n_ids);
    if (r == NULL)
        return err_nomem(e, "a request");
    r->kind = kind;
    for (size_t i = 0; i < n_ids; i++)
        r->parts[i].node = ids[i];
    *ret = r;
    return 0;
}

void kv_request_free(struct kv_request *r)
{
    struct tug_node *n = r->app->node;
    assert(r->state != KV_FREE && r->pins == 0);
    assert(*request_place_of(r->app, r->timestamp) == r);
    *request_place_of(r->app, r->timestamp) = NULL;
    mem_free(r->body);
    r->body = NULL;
    for (uint32_t i = 0; i < r->n_parts; i++)
        mem_free(r->parts[i].copy);
    r->n_parts = 0;
    r->state = KV_FREE;
    r->behind = n->free_requests;
    n->free_requests = r;
}

void kv_request_unmake(struct kv_request *r)
{
    r->app->next_timestamp--;
    link_out(r->app->node, r);
    kv_request_free(r);
}

// ---------------------------------------------------------------- the end

static void drop_kept(struct kv_request *r)
{
    for (uint32_t i = 0; i < r->n_parts; i++) {
        if (r->parts[i].kept != NULL)
            van_unkeep(r->app->node->van, r->parts[i].kept);
        r->parts[i].kept = NULL;
    }
}

// Ends a request. A failed request is not freed, so that tug_app_wait can return its
// error.
static void settle(struct kv_request *r)
{
    assert(r->open == 0 && r->pins == 0);
    uint32_t n = r->kind == KV_DATA ? r->app->node->n_servers : r->n_parts;
    r->app->done[r->timestamp & (KV_DONE - 1)] = (struct kv_responses){true, r->timestamp,
                                                                       n};
    drop_kept(r);
    link_out(r->app->node, r);
    if (r->why.code == 0)
        kv_request_free(r);
    else
        r->state = KV_FAILED;
}

static void end_as_work(struct pump_work *w)
{
    struct kv_request *r = (struct kv_request *)w;
    struct tug_node *n = r->app->node;
    if (r->kv.pull && r->why.code == 0)
        (void)kv_assemble(r);
    if (r->kv.done != NULL) {
        if (r->why.code != 0)
            last_error_is(&r->why);
        r->kv.done(r->kv.ctx, r->timestamp, r->why.code);
    }
    pump_enter(n->pump);
    settle(r);
    pump_leave(n->pump);
}

static bool something_kept(const struct kv_request *r)
{
    for (uint32_t i = 0; i < r->n_parts; i++)
        if (r->parts[i].kept != NULL)
            return true;
    return false;
}

static void end_if_over(struct kv_request *r)
{
    if (r->state != KV_OPEN || r->open > 0 || r->pins > 0)
        return;
    r->state = KV_ENDING;
    bool assemble = r->kv.pull && !r->in_place;
    bool handled =
        r->kind ==
            // The request must not end before the handler of its answers has run.
            KV_BY_HAND ||
        (r->kind == KV_SIMPLE && r->app->h.response != NULL);
    if (r->kv.done != NULL || assemble || handled || something_kept(r)) {
        r->work.run = end_as_work;
        pump_queue(r->app->node->pump, &r->work);
    } else {
        settle(r);
    }
}

void kv_part_answered(struct kv_part *p, const struct err *why)
{
    struct kv_request *r = p->request;
    if (p->answered)
        return;
    p->answered = true;
    if (p->peer != NULL)
        kv_peer_answered(p);
    if (why != NULL && r->why.code == 0)
        r->why = *why;
    assert(r->open > 0);
    r->open--;
    end_if_over(r);
}

struct kv_part *kv_request_part(struct kv_request *r, uint32_t node)
{
    for (uint32_t i = 0; i < r->n_parts; i++)
        if (r->parts[i].node == node && !r->parts[i].answered)
            return &r->parts[i];
    return NULL;
}

void kv_requests_of_node_fail(struct tug_node *n, uint32_t node, const struct err *why)
{
    for (struct kv_request *r = n->first, *behind; r != NULL; r = behind) {
        behind = r->behind;
        struct kv_part *p = r->state == KV_OPEN ? kv_request_part(r, node) : NULL;
        if (p != NULL)
            kv_part_answered(p, why);
    }
}

bool kv_request_waits(const struct tug_app *a, const struct kv_peer *p)
{
    for (const struct kv_request *r = a->node->first; r != NULL; r = r->behind)
        for (uint32_t i = 0; i < r->n_parts && r->app == a && r->state == KV_OPEN; i++)
            if (r->parts[i].peer == p && !r->parts[i].answered)
                return true;
    return false;
}

void kv_requests_give_up(struct tug_app *a)
{
    struct err why;
    err_set(&why, TUG_EIO, "the customer was closed before the answer arrived");
    kv_peers_give_up(a->node, a, &why);
}

// ---------------------------------------------------------------- sending

static void unpin(void *ctx)
{
    struct kv_part *p = ctx;
    struct kv_request *r = p->request;
    assert(r->pins > 0 && p->peer->in_van >= p->bytes);
    p->peer->in_van -= p->bytes;
    r->pins--;
    end_if_over(r);
}

static struct msg_app message_of(const struct kv_part *p)
{
    const struct kv_request *r = p->request;
    const struct tug_kv_data *d = &p->d;
    struct msg_app m = p->copy != NULL ? *p->copy : (struct msg_app){0};
    m.app = r->app->app;
    m.customer = r->app->customer;
    m.timestamp = r->timestamp;
    m.sender = member_id(r->app->node->member);
    if (r->kind == KV_BY_HAND)
        return m;
    m.head = r->head;
    m.flags = WIRE_APP_REQUEST;
    if (r->kind == KV_SIMPLE) {
        m.flags |= WIRE_APP_SIMPLE;
        m.body = (struct wire_span){r->body, r->body_bytes};
        return m;
    }
    m.flags |= (r->kv.push ? WIRE_APP_PUSH : 0) | (r->kv.pull ? WIRE_APP_PULL : 0);
    m.priority = r->kv.priority;
    m.value_bytes = (uint8_t)d->value_bytes;
    m.keys = (struct wire_span){d->keys, d->n_keys * sizeof(*d->keys)};
    if (!r->kv.push)
        return m;
    m.values = (struct wire_span){d->values,
                                  d->n_values * kv_value_bytes(d->value_bytes)};
    if (d->lengths != NULL)
        m.lengths = (struct wire_span){d->lengths, d->n_keys * sizeof(*d->lengths)};
    return m;
}

const char *kv_unsent(int rc)
{
    return rc == TUG_EUSAGE ? "it is too long (1 GiB of keys or of values at most)"
                            : err_text(rc);
}

void kv_part_transmit(struct tug_node *n, struct kv_peer *to, struct kv_part *p)
{
    struct kv_request *r = p->request;
    struct msg_app m = message_of(p);
    struct van_release release = {.release = unpin, .ctx = p};
    struct err why;
    char name[ROSTER_NAME_MAX];
    m.number = p->number;
    m.acked = to->acked;
    p->bytes = m.body.n + m.keys.n + m.values.n + m.lengths.n;
    to->in_van += p->bytes;
    r->pins++;
    if (n->n_in_flight >= MANY)
        van_hold(n->van); // with so many requests, throughput counts more than latency
    int rc = van_send(n->van, to->s.link, MSG_APP, r->id, &m, &release);
    // TUG_EIO: the link broke. The part is sent again after the van has closed the link.
    if (rc == 0 || rc == TUG_EIO)
        return;
    err_set(&why, rc, "a request cannot be sent to %s: %s",
            kv_node_name(n, to->node, name), kv_unsent(rc));
    kv_part_answered(p, &why);
}

void kv_request_start(struct kv_request *r)
{
    for (uint32_t i = 0; i < r->n_parts; i++)
        kv_peer_send(r->app->node, &r->parts[i]);
    r->open--;
    end_if_over(r);
}

void kv_requests_free(struct tug_node *n)
{
    for (uint32_t i = 0; i < n->n_requests; i++) {
        struct kv_request *r = n->requests[i];
        for (uint32_t j = 0; j < r->n_parts; j++)
            mem_free(r->parts[j].copy);
        mem_free(r->body);
        mem_free(r->parts);
        mem_free(r);
    }
    mem_free(n->requests);
}
