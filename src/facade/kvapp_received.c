// Requests of other nodes: kept until their handler has run and their answer has left.
// Those for whom there is no customer yet are held for a while: processes do not start at
// the same moment.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "facade/kvapp_internal.h"

enum { SLOT_BITS = 24, SLOTS_MAX = 1 << SLOT_BITS, FIRST_SLOTS = 64 };
#define HOLD_NS (10 * SECOND)

// Tickets: (count << SLOT_BITS | slot).

static int more_slots(struct tug_node *n)
{
    uint32_t cap = n->cap_received == 0 ? FIRST_SLOTS : n->cap_received * 2;
    if (cap > SLOTS_MAX)
        return TUG_ENOMEM;
    struct received **list = mem_realloc_array(n->received, cap,
                                               sizeof(struct received *));
    if (list == NULL)
        return TUG_ENOMEM;
    n->received = list;
    uint32_t *unused = mem_realloc_array(n->free_received, cap, sizeof(*unused));
    if (unused == NULL)
        return TUG_ENOMEM;
    n->free_received = unused;
    for (uint32_t i = n->cap_received; i < cap; i++) {
        n->received[i] = NULL;
        n->free_received[n->n_free_received++] = i;
    }
    n->cap_received = cap;
    return 0;
}

static struct received *find(struct tug_node *n, uint64_t ticket)
{
    uint64_t slot = ticket & (SLOTS_MAX - 1);
    struct received *q = slot < n->cap_received ? n->received[slot] : NULL;
    return q != NULL && q->ticket == ticket ? q : NULL;
}

static void uncount(struct received *q)
{
    budget_give(&q->node->process.budget, BUDGET_PENDING, q->counted);
    q->counted = 0;
}

static struct received *received_new(struct tug_node *n, van_link link,
                                     struct van_message *m)
{
    if (n->n_free_received == 0 && more_slots(n) != 0)
        return NULL;
    struct received *q = mem_zalloc(sizeof(*q));
    if (q == NULL)
        return NULL;
    uint32_t slot = n->free_received[n->n_free_received - 1];
    *q = (struct received){
        .node = n,
        .link = link,
        .request = m->request,
        .ticket = ++n->tickets << SLOT_BITS | slot,
        .m = m->m->app,
    };
    atomic_init(&q->refs, 1); // for whoever is to run its handler
    // Answers to this node's own requests find room in any case.
    q->counted = sizeof(*q) + m->body_bytes;
    bool fits = link != 0 ? budget_take(&n->process.budget, BUDGET_PENDING, q->counted)
                          : budget_force(&n->process.budget, BUDGET_PENDING, q->counted);
    if (link != 0 && !fits) {
        mem_free(q);
        return NULL;
    }
    if (m->body_bytes > 0 && (q->body = van_keep(n->van, m)) == NULL) {
        uncount(q);
        mem_free(q);
        return NULL;
    }
    n->n_free_received--;
    n->received[slot] = q;
    return q;
}

// Nobody looks at it any more; the answer needs no memory of it. With the van.
static void let_go(struct received *q)
{
    struct tug_node *n = q->node;
    if (atomic_fetch_sub(&q->refs, 1) > 1)
        return;
    if (q->body != NULL)
        van_unkeep(n->van, q->body);
    q->body = NULL;
    uncount(q);
    if (q->answered || q->is_response) {
        uint32_t slot = (uint32_t)(q->ticket & (SLOTS_MAX - 1));
        n->received[slot] = NULL;
        n->free_received[n->n_free_received++] = slot;
        mem_free(q);
    }
}

void *tug_kv_keep(struct tug_app *a, uint64_t ticket)
{
    pump_enter(a->node->pump);
    struct received *q = find(a->node, ticket);
    if (q != NULL)
        atomic_fetch_add(&q->refs, 1);
    pump_leave(a->node->pump);
    return q;
}

void tug_kv_release(void *kept)
{
    struct received *q = kept;
    if (q == NULL)
        return;
    struct pump *p = q->node->pump;
    pump_enter(p);
    let_go(q);
    pump_leave(p);
}

// Answers. With the van.

static void send_error(struct tug_node *n, van_link link, uint64_t request, int code,
                       const char *why)
{
    struct msg_error m = {.code = code, .what = wire_text(why)};
    // Who is gone needs no answer.
    (void)van_send(n->van, link, MSG_ERROR, request, &m, NULL);
}

// It is answered: its memory goes when nobody looks at it either.
static void close_request(struct received *q)
{
    q->answered = true;
    atomic_fetch_add(&q->refs, 1);
    let_go(q);
}

static int check_ticket(const struct received *q, struct err *e)
{
    if (q == NULL || q->answered || q->is_response)
        return err_set(
            e, TUG_EUSAGE,
            "no such request waits for an answer: each request is answered once");
    return 0;
}

static int check_data(const struct received *q, const struct tug_kv_data *d,
                      struct err *e)
{
    size_t asked = q->m.keys.n / sizeof(uint64_t);
    if (!(q->m.flags & WIRE_APP_PULL))
        return 0;
    if (d == NULL || (d->n_keys != asked))
        return err_set(e, TUG_EUSAGE, "the answer to a pull of %zu keys holds %zu keys",
                       asked, d == NULL ? 0 : d->n_keys);
    if (d->lengths == NULL && (asked == 0 ? d->n_values != 0 : d->n_values % asked != 0))
        return err_set(e, TUG_EUSAGE,
                       "the answer to a pull has %zu values, which cannot be divided "
                       "evenly among %zu keys",
                       d->n_values, asked);
    return 0;
}

static int send_answer(struct tug_node *n, struct received *q, struct msg_app *m,
                       const struct van_release *release, struct err *e)
{
    char name[ROSTER_NAME_MAX];
    m->app = q->m.app;
    m->customer = q->m.customer;
    m->timestamp = q->m.timestamp;
    m->sender = member_id(n->member);
    m->head = q->m.head;
    m->flags = q->m.flags & ~WIRE_APP_REQUEST;
    uint64_t request = q->request;
    uint32_t asker = q->m.sender;
    van_link link = q->link;
    close_request(q);
    int rc = van_send(n->van, link, MSG_APP, request, m, release);
    if (rc != 0)
        return err_set(e, rc, "the answer to %s cannot be sent: %s",
                       kv_node_name(n, asker, name), err_text(rc));
    return 0;
}

int tug_kv_answer(struct tug_app *a, uint64_t ticket, const struct tug_kv_data *d,
                  void (*release)(void *ctx), void *ctx)
{
    struct tug_node *n = a->node;
    struct err *e = last_error();
    struct van_release let = {.release = release, .ctx = ctx};
    struct msg_app m = {0};
    pump_enter(n->pump);
    struct received *q = find(n, ticket);
    int rc = check_ticket(q, e);
    if (rc == 0)
        rc = check_data(q, d, e);
    if (rc == 0 && (q->m.flags & WIRE_APP_PULL)) {
        m.values = (struct wire_span){d->values, d->n_values * sizeof(*d->values)};
        if (d->lengths != NULL)
            m.lengths = (struct wire_span){d->lengths, d->n_keys * sizeof(*d->lengths)};
    }
    // Lengths are few and may be gone when `release` is called: then all is copied.
    bool shared = release != NULL && m.lengths.n == 0;
    if (rc == 0)
        rc = send_answer(n, q, &m, shared ? &let : NULL, e);
    else
        shared = false;
    pump_leave(n->pump);
    if (!shared && release != NULL)
        release(ctx);
    return rc;
}

int tug_kv_refuse(struct tug_app *a, uint64_t ticket, int code, const char *why)
{
    struct tug_node *n = a->node;
    pump_enter(n->pump);
    struct received *q = find(n, ticket);
    int rc = check_ticket(q, last_error());
    if (rc == 0) {
        send_error(n, q->link, q->request, code < 0 ? code : TUG_EUSAGE, why);
        close_request(q);
    }
    pump_leave(n->pump);
    return rc;
}

int tug_app_answer(struct tug_app *a, uint64_t ticket, const void *body,
                   size_t body_bytes)
{
    struct tug_node *n = a->node;
    struct msg_app m = {.body = {body, body_bytes}};
    pump_enter(n->pump);
    struct received *q = find(n, ticket);
    int rc = check_ticket(q, last_error());
    if (rc == 0)
        rc = send_answer(n, q, &m, NULL, last_error());
    pump_leave(n->pump);
    return rc;
}

// Handlers, as work: the van is not lent.

static void handle_simple(struct received *q)
{
    struct tug_app *a = q->app;
    struct tug_simple s = {
        .head = q->m.head,
        .body = q->m.body.data,
        .body_bytes = q->m.body.n,
        .sender = q->m.sender,
        .timestamp = q->m.timestamp,
        .customer = q->m.customer,
        .ticket = q->ticket,
    };
    if (q->is_response)
        a->h.response(a->h.ctx, a, &s);
    else if (a->h.request != NULL)
        a->h.request(a->h.ctx, a, &s);
    else
        (void)tug_app_answer(a, q->ticket, NULL, 0);
}

static void handle_kv(struct received *q)
{
    struct tug_app *a = q->app;
    const struct msg_app *m = &q->m;
    struct tug_kv_meta meta = {
        .cmd = m->head,
        .push = m->flags & WIRE_APP_PUSH,
        .pull = m->flags & WIRE_APP_PULL,
        .sender = m->sender,
        .timestamp = m->timestamp,
        .customer = m->customer,
        .ticket = q->ticket,
    };
    struct tug_kv_data d = {
        .keys = m->keys.data,
        .n_keys = m->keys.n / sizeof(uint64_t),
        .values = m->values.data,
        .n_values = m->values.n / sizeof(float),
        .lengths = m->lengths.n > 0 ? m->lengths.data : NULL,
    };
    if (a->h.kv != NULL)
        a->h.kv(a->h.ctx, a, &meta, &d);
    else
        (void)tug_kv_refuse(a, q->ticket, TUG_EUSAGE,
                            "this customer does not handle pushes and pulls");
}

static void handle(struct pump_work *w)
{
    struct received *q = (struct received *)w;
    struct pump *p = q->node->pump;
    if (q->app != NULL && (q->m.flags & WIRE_APP_SIMPLE))
        handle_simple(q);
    else if (q->app != NULL)
        handle_kv(q);
    pump_enter(p);
    let_go(q);
    pump_leave(p);
}

// Deliveries. With the van.

static struct tug_app *customer_of(struct tug_node *n, const struct msg_app *m)
{
    uint32_t customer = n->role == WIRE_SERVER ? m->app : m->customer;
    struct tug_app *any = NULL;
    for (struct tug_app *a = n->apps; a != NULL; a = a->next) {
        if (a->app != m->app)
            continue;
        if (a->customer == customer)
            return a;
        any = a;
    }
    return any;
}

static void queue(struct received *q, struct tug_app *a)
{
    q->app = a;
    q->work.run = handle;
    pump_queue(q->node->pump, &q->work);
}

static void hold(struct tug_node *n, struct received *q)
{
    q->give_up = van_now(n->van) + HOLD_NS;
    q->before = n->last_held;
    if (n->last_held != NULL)
        n->last_held->behind = q;
    else
        n->held = q;
    n->last_held = q;
}

static void unhold(struct tug_node *n, struct received *q)
{
    if (q->before != NULL)
        q->before->behind = q->behind;
    else
        n->held = q->behind;
    if (q->behind != NULL)
        q->behind->before = q->before;
    else
        n->last_held = q->before;
    q->before = q->behind = NULL;
}

static const char *wrong_with(const struct msg_app *m)
{
    size_t n_keys = m->keys.n / sizeof(uint64_t);
    if (m->keys.n % sizeof(uint64_t) != 0 || m->values.n % sizeof(float) != 0)
        return "keys must have 8 bytes and values 4";
    if (m->lengths.n > 0) {
        const int32_t *lengths = m->lengths.data;
        uint64_t sum = 0;
        if (m->lengths.n != n_keys * sizeof(*lengths))
            return "there are not as many lengths as keys";
        for (size_t i = 0; i < n_keys; i++) {
            if (lengths[i] < 0)
                return "a length is negative";
            sum += (uint64_t)lengths[i];
        }
        return sum * sizeof(float) != m->values.n
                   ? "the lengths do not add up to the number of values"
                   : NULL;
    }
    if (n_keys == 0 ? m->values.n > 0 : m->values.n / sizeof(float) % n_keys != 0)
        return "the values cannot be divided evenly among the keys";
    return NULL;
}

void kv_received_app(struct tug_node *n, van_link link, uint32_t from,
                     struct van_message *m)
{
    const struct msg_app *app = &m->m->app;
    struct err e;
    bool known = wire_check_flags(MSG_APP, m->m, &e) == 0;
    const char *wrong = known ? wrong_with(app) : e.text;
    if (wrong != NULL || !(app->flags & WIRE_APP_REQUEST)) {
        send_error(n, link, m->request, TUG_EDATA,
                   wrong != NULL ? wrong : "this is not a request");
        return;
    }
    struct received *q = received_new(n, link, m);
    if (q == NULL) {
        send_error(n, link, m->request, TUG_ENOMEM,
                   "too many requests wait here already");
        return;
    }
    if (from != 0)
        q->m.sender = from; // as it greeted
    struct tug_app *a = customer_of(n, app);
    if (a != NULL)
        queue(q, a);
    else
        hold(n, q);
}

void kv_received_response(struct tug_app *a, uint32_t from, struct van_message *m)
{
    struct received *q = received_new(a->node, 0, m);
    if (q == NULL)
        return; // the request is answered all the same
    q->is_response = true;
    q->m.sender = from;
    queue(q, a);
}

void kv_received_deliver_held(struct tug_node *n)
{
    for (struct received *q = n->held, *behind; q != NULL; q = behind) {
        behind = q->behind;
        struct tug_app *a = customer_of(n, &q->m);
        if (a == NULL)
            continue;
        unhold(n, q);
        queue(q, a);
    }
}

uint64_t kv_received_expire(struct tug_node *n, uint64_t now)
{
    while (n->held != NULL && n->held->give_up <= now) {
        struct received *q = n->held;
        struct err why;
        unhold(n, q);
        err_set(&why, TUG_EUSAGE, "this process has no customer of app %u (customer %u)",
                q->m.app, q->m.customer);
        send_error(n, q->link, q->request, why.code, why.text);
        q->answered = true;
        let_go(q);
    }
    return n->held != NULL ? n->held->give_up : VAN_NEVER;
}

// Work that is queued for it finds no customer.
void kv_received_forget_app(struct tug_node *n, struct tug_app *a)
{
    for (uint32_t i = 0; i < n->cap_received; i++) {
        struct received *q = n->received[i];
        if (q != NULL && q->app == a)
            q->app = NULL;
    }
}

void kv_received_free(struct tug_node *n)
{
    for (uint32_t i = 0; i < n->cap_received; i++) {
        struct received *q = n->received[i];
        if (q == NULL)
            continue;
        if (q->body != NULL)
            van_unkeep(n->van, q->body);
        mem_free(q);
    }
    mem_free(n->received);
    mem_free(n->free_received);
}
