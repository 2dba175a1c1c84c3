// Requests of other nodes. A request stays in memory until its handler has run and its
// answer was sent. A request to a customer that is not open yet, or from a node that the
// roster does not have yet, is held for a while, because processes do not start at the same
// moment.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "doors/kvapp/node.h"

enum { SLOT_BITS = 24, SLOTS_MAX = 1 << SLOT_BITS, FIRST_SLOTS = 64 };
#define HOLD_NS (10 * SECOND_NS)

// Doubles the table of requests. A ticket is count << SLOT_BITS | slot in this table.
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

struct received *kv_received_by_ticket(struct tug_node *n, uint64_t ticket)
{
    uint64_t slot = ticket & (SLOTS_MAX - 1);
    struct received *q = slot < n->cap_received ? n->received[slot] : NULL;
    return q != NULL && q->ticket == ticket ? q : NULL;
}

// Reduces the bytes that the request takes from the budget to `left`.
static void uncount_to(struct received *q, uint64_t left)
{
    if (q->counted <= left)
        return;
    budget_give(&q->node->process.budget, BUDGET_PENDING, q->counted - left);
    q->counted = left;
}

static void uncount(struct received *q)
{
    uncount_to(q, 0);
}

static bool is_answered_by(const struct received *q, const struct tug_message *m)
{
    return q != NULL && !q->answered && !q->is_response && q->m.sender == m->receiver &&
           q->m.app == m->app && q->m.customer == m->customer &&
           q->m.timestamp == m->timestamp;
}

// Returns the open request that message `m` answers. A message copied from the request
// has its ticket; otherwise the request is found by sender, app, customer and timestamp.
struct received *kv_received_open(struct tug_node *n, const struct tug_message *m)
{
    struct received *q = kv_received_by_ticket(n, m->ticket);
    if (is_answered_by(q, m))
        return q;
    for (uint32_t i = 0; i < n->cap_received; i++)
        if (is_answered_by(n->received[i], m))
            return n->received[i];
    return NULL;
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
    atomic_init(&q->refs, 1); // a reference for the thread that runs the handler
    atomic_init(&q->keeps, 1);
    q->home = n->home;
    // Answers to this node's own requests (link 0) are taken even if the budget is full.
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

// Drops one reference to the request. After the last one, frees the message's memory, and
// also the request if it was answered.
void kv_received_let_go(struct received *q)
{
    struct tug_node *n = q->node;
    uint32_t looked_at = atomic_fetch_sub(&q->refs, 1);
    assert(looked_at > 0);
    if (looked_at > 1)
        return;
    if (q->body != NULL)
        van_unkeep(n->van, q->body);
    q->body = NULL;
    uncount_to(q, sizeof(*q)); // the struct's bytes count until the request is answered
    if (q->answered || q->is_response) {
        uncount(q);
        uint32_t slot = (uint32_t)(q->ticket & (SLOTS_MAX - 1));
        assert(n->received[slot] == q && q->counted == 0);
        n->received[slot] = NULL;
        n->free_received[n->n_free_received++] = slot;
        mem_free(q);
    }
}

// These functions send answers. The thread that has the van calls the static ones.

static void send_error(struct tug_node *n, van_link link, uint64_t request, int code,
                       const char *why)
{
    struct msg_error m = {.code = code, .what = wire_text(why)};
    // An error of van_send is ignored: the other node has left or its link has broken.
    (void)van_send(n->van, link, MSG_ERROR, request, &m, NULL);
}

// Marks a request as answered. Frees it now, or later, when its handler and the program do
// not use it any more.
static void close_request(struct received *q)
{
    q->answered = true;
    atomic_fetch_add(&q->refs, 1);
    kv_received_let_go(q);
}

void kv_received_refuse(struct tug_node *n, struct received *q, int code, const char *why)
{
    n->counts.refused++;
    kv_numbers_answered(q, code < 0 ? code : TUG_EUSAGE, why, strlen(why), false);
    send_error(n, q->link, q->request, code < 0 ? code : TUG_EUSAGE, why);
    close_request(q);
}

// Frees a request that needs no answer and for which no handler was called.
static void close_unseen(struct received *q)
{
    q->answered = true;
    kv_received_let_go(q);
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
    if (d->value_bytes != q->m.value_bytes)
        return err_set(e, TUG_EUSAGE,
                       "the answer to a pull of values of %zu bytes has values of %zu",
                       kv_value_bytes(q->m.value_bytes), kv_value_bytes(d->value_bytes));
    return kv_check_data(d, e) == 0 ? 0 : err_wrap(e, "the answer to a pull");
}

int kv_received_answer(struct tug_node *n, struct received *q, struct msg_app *m,
                       const struct van_release *release, struct err *e)
{
    char name[ROSTER_NAME_MAX];
    m->app = q->m.app;
    m->customer = q->m.customer;
    m->timestamp = q->m.timestamp;
    m->sender = member_id(n->member);
    m->flags = q->m.flags & ~WIRE_APP_REQUEST;
    m->value_bytes = q->m.value_bytes;
    m->priority = q->m.priority;
    uint64_t request = q->request;
    uint32_t asker = q->m.sender;
    van_link link = q->link;
    // If the link has broken, the other node repeats a numbered request.
    bool numbered = q->asker != NULL;
    kv_numbers_answered(q, 0, m->body.data, m->body.n, m->values.n > 0);
    close_request(q);
    int rc = van_send(n->van, link, MSG_APP, request, m, release);
    if (rc == 0 || (rc == TUG_EIO && numbered))
        return 0;
    err_set(e, rc, "the answer to %s cannot be sent: %s", kv_node_name(n, asker, name),
            kv_unsent(rc));
    if (rc != TUG_EIO) // the link is open, and the other node waits for an answer
        send_error(n, link, request, rc, e->text);
    return rc;
}

int tug_kv_answer(struct tug_app *a, uint64_t ticket, const struct tug_kv_data *d,
                  void (*release)(void *ctx), void *ctx)
{
    struct tug_node *n = a->node;
    struct err *e = last_error();
    struct van_release let = {.release = release, .ctx = ctx};
    struct msg_app m = {0};
    pump_enter(n->pump);
    struct received *q = kv_received_by_ticket(n, ticket);
    int rc = check_ticket(q, e);
    if (rc == 0)
        rc = check_data(q, d, e);
    m.head = rc == 0 ? q->m.head : 0;
    if (rc == 0 && (q->m.flags & WIRE_APP_PULL)) {
        m.values = (struct wire_span){d->values,
                                      d->n_values * kv_value_bytes(d->value_bytes)};
        if (d->lengths != NULL)
            m.lengths = (struct wire_span){d->lengths, d->n_keys * sizeof(*d->lengths)};
    }
    // Only the values stay valid until `release` is called, so an answer with lengths is
    // copied.
    bool shared = release != NULL && m.lengths.n == 0;
    if (rc == 0)
        rc = kv_received_answer(n, q, &m, shared ? &let : NULL, e);
    else
        shared = false;
    pump_leave(n->pump);
    if (!shared && release != NULL)
        release(ctx);
    return rc;
}

int tug_app_refuse(struct tug_app *a, uint64_t ticket, int code, const char *why)
{
    struct tug_node *n = a->node;
    pump_enter(n->pump);
    struct received *q = kv_received_by_ticket(n, ticket);
    int rc = check_ticket(q, last_error());
    if (rc == 0)
        kv_received_refuse(n, q, code, why);
    pump_leave(n->pump);
    return rc;
}

int tug_app_answer(struct tug_app *a, uint64_t ticket, const void *body,
                   size_t body_bytes)
{
    struct tug_node *n = a->node;
    struct msg_app m = {.body = {body, body_bytes}};
    pump_enter(n->pump);
    struct received *q = kv_received_by_ticket(n, ticket);
    int rc = check_ticket(q, last_error());
    m.head = rc == 0 ? q->m.head : 0;
    if (rc == 0)
        rc = kv_received_answer(n, q, &m, NULL, last_error());
    pump_leave(n->pump);
    return rc;
}

// These functions deliver messages to customers. The thread that has the van calls them.

static struct tug_app *customer_of(struct tug_node *n, const struct msg_app *m)
{
    uint32_t customer = n->role == WIRE_SERVER ? m->app : m->customer;
    return kv_app_for(n, m->app, customer);
}

static void hold(struct tug_node *n, struct received *q)
{
    q->give_up = van_now(n->van) + HOLD_NS;
    list_append(n->held, n->last_held, q, before, behind);
}

static void unhold(struct tug_node *n, struct received *q)
{
    list_remove(n->held, n->last_held, q, before, behind);
    q->before = q->behind = NULL;
}

// Returns whether the roster has the sender. A message may arrive before the roster with
// its sender.
static bool knows_sender(const struct tug_node *n, const struct received *q)
{
    return roster_find(member_roster(n->member), q->m.sender) != NULL;
}

static bool can_deliver(struct tug_node *n, const struct received *q)
{
    return knows_sender(n, q) &&
           (q->m.app == KV_BARRIERS || customer_of(n, &q->m) != NULL);
}

static void deliver(struct tug_node *n, struct received *q)
{
    if (q->m.app == KV_BARRIERS)
        kv_barrier_reached(n, q);
    else
        kv_handle_request(q, customer_of(n, &q->m));
}

static void received_take(struct tug_node *n, struct received *q)
{
    if (member_roster(n->member)->version != n->version)
        // The held requests come first, because they arrived earlier.
        kv_received_deliver_held(n);
    if (can_deliver(n, q))
        deliver(n, q);
    else
        hold(n, q);
}

static int check_request(const union wire_any *m, struct err *e)
{
    TRY(wire_check_flags(MSG_APP, m, e));
    if (!(m->app.flags & WIRE_APP_REQUEST))
        return err_set(e, TUG_EDATA, "this is not a request");
    return kv_check_message(&m->app, m->app.keys.n / sizeof(uint64_t), e);
}

void kv_received_app(struct tug_node *n, van_link link, uint32_t from,
                     struct van_message *m)
{
    struct err e;
    bool pull_only = false;
    if (check_request(m->m, &e) != 0) {
        send_error(n, link, m->request, TUG_EDATA, e.text);
        return;
    }
    if (from == 0) { // the link did not greet as a node, so its sender is not known
        send_error(n, link, m->request, TUG_EUSAGE,
                   "only nodes that have joined the cluster may send requests");
        return;
    }
    enum kv_seen seen = kv_numbers_look(n, link, from, m, &pull_only, &e);
    if (seen == KV_WRONG)
        send_error(n, link, m->request, e.code, e.text);
    if (seen != KV_NEW)
        return;
    struct received *q = received_new(n, link, m);
    if (q == NULL || kv_numbers_take(n, from, q) != 0) {
        n->counts.refused++;
        send_error(n, link, m->request, TUG_ENOMEM,
                   "the receiver already holds as many requests as it has room for");
        if (q != NULL)
            close_unseen(q);
        return;
    }
    // Overwrite the sender that the message states with the node that greeted on the link.
    q->m.sender = from;
    if (pull_only) // the push was handled when the request arrived first
        q->m.flags &= (uint8_t)~WIRE_APP_PUSH;
    kv_facts_count(n, &q->m);
    received_take(n, q);
}

void kv_received_response(struct tug_app *a, uint32_t from, struct van_message *m)
{
    struct received *q = received_new(a->node, 0, m);
    if (q == NULL)
        return; // memory is short: no handler is called, but the request counts as answered
    q->is_response = true;
    q->m.sender = from;
    q->app = a;
    kv_handle_response(q);
}

void kv_received_deliver_held(struct tug_node *n)
{
    n->held_version = member_roster(n->member)->version;
    for (struct received *q = n->held, *behind; q != NULL; q = behind) {
        behind = q->behind;
        if (!can_deliver(n, q))
            continue;
        unhold(n, q);
        deliver(n, q);
    }
}

uint64_t kv_received_expire(struct tug_node *n, uint64_t now)
{
    while (n->held != NULL && n->held->give_up <= now) {
        struct received *q = n->held;
        struct err why;
        unhold(n, q);
        if (knows_sender(n, q))
            err_set(&why, TUG_EUSAGE,
                    "this process has no customer of app %u (customer %u)", q->m.app,
                    q->m.customer);
        else
            err_set(&why, TUG_EIO,
                    "this process does not know node %u yet: the scheduler has not "
                    "announced it",
                    q->m.sender);
        kv_received_refuse(n, q, why.code, why.text);
        kv_received_let_go(q);
    }
    return n->held != NULL ? n->held->give_up : VAN_NEVER;
}

// Called when a customer is closed: its queued handlers are not called, and requests to it
// without an answer are refused.
void kv_received_forget_app(struct tug_node *n, struct tug_app *a)
{
    bool interrupted = n->over && n->why.code == TUG_EINTERRUPTED;
    const char *why = interrupted ? n->why.text
                                  : "the customer that it was for was closed";
    for (uint32_t i = 0; i < n->cap_received; i++) {
        struct received *q = n->received[i];
        if (q == NULL || q->app != a)
            continue;
        q->app = NULL;
        if (!q->answered && !q->is_response)
            kv_received_refuse(n, q, interrupted ? TUG_EINTERRUPTED : TUG_EUSAGE, why);
    }
}

void kv_received_free(struct tug_node *n)
{
    kv_kept_close(n);
    for (uint32_t i = 0; i < n->cap_received; i++) {
        struct received *q = n->received[i];
        if (q == NULL)
            continue;
        uncount(q);
        if (atomic_fetch_sub(&q->keeps, 1) > 1)
            continue; // the program keeps the request; its release will free the memory
        if (q->body != NULL)
            van_unkeep(n->van, q->body);
        mem_free(q);
    }
    mem_free(n->received);
    mem_free(n->free_received);
}
