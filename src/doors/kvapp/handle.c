// Calls the handlers of customers as work of the pump, and therefore without the van. Requests are
// handled by priority, responses in the order of arrival.
//
// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "doors/kvapp/node.h"

// 1/8 of the budget for queued messages is reserved for small answers.
enum { SMALL_SHARE = 8 };

#define LOOK_NS (SECOND_NS / 1000)
// If recent handlers took longer than this, another thread polls the van
// while a handler runs.
#define LONG_NS (SECOND_NS / 10000)

// The request whose handler this thread runs.
static _Thread_local struct received *handled;

struct received *kv_handled(void)
{
    return handled;
}

static void handle_requests(struct pump_work *w);

uint64_t kv_answer_most(const struct tug_node *n)
{
    uint64_t most = budget_most(&n->process.budget, BUDGET_QUEUED);
    most -= most / SMALL_SHARE;
    return most < WIRE_SPAN_MAX ? most : WIRE_SPAN_MAX;
}

// Returns whether handlers of pulls may run. Answers that other nodes have not read yet
// take memory. While they take most of the limit, no handler runs that makes an answer
// with values.
static bool answers_have_room(const struct tug_node *n)
{
    const struct budget *b = &n->process.budget;
    return budget_fits(b, BUDGET_QUEUED, budget_most(b, BUDGET_QUEUED) / SMALL_SHARE);
}

// Queues handle_requests as work of the pump. The caller has the van.
static void queue_handling(struct tug_node *n)
{
    if (n->handling_queued)
        return;
    n->handling_queued = true;
    n->handling.run = handle_requests;
    pump_queue(n->pump, &n->handling);
}

static void handle_simple(struct received *q, struct tug_app *a)
{
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

static void handle_kv(struct received *q, struct tug_app *a)
{
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
    struct tug_kv_data d = kv_data_of(m);
    if (a->h.kv != NULL)
        a->h.kv(a->h.ctx, a, &meta, &d);
    else
        (void)tug_app_refuse(a, q->ticket, TUG_EUSAGE,
                             "this customer does not handle pushes and pulls");
}

static void handle_message(struct received *q, struct tug_app *a)
{
    const struct msg_app *m = &q->m;
    bool simple = m->flags & WIRE_APP_SIMPLE;
    struct tug_message out = {
        .head = m->head,
        .priority = m->priority,
        .request = !q->is_response,
        .simple = simple,
        .push = m->flags & WIRE_APP_PUSH,
        .pull = m->flags & WIRE_APP_PULL,
        .app = m->app,
        .customer = m->customer,
        .timestamp = m->timestamp,
        .sender = m->sender,
        .receiver = member_id(a->node->member),
        .body = m->body.data,
        .body_bytes = m->body.n,
        .data = {m->keys.data, m->values.data, m->lengths.data},
        .data_bytes = {m->keys.n, m->values.n, m->lengths.n},
        .value_bytes = m->value_bytes,
        .ticket = q->is_response ? 0 : q->ticket,
    };
    a->h.message(a->h.ctx, a, &out);
}

static void call_handler(struct received *q, struct tug_app *a)
{
    if (a->h.message != NULL)
        handle_message(q, a);
    else if (q->m.flags & WIRE_APP_SIMPLE)
        handle_simple(q, a);
    else
        handle_kv(q, a);
}

// Calls the handler for a request. The caller has entered the pump; this function leaves
// the pump while the handler runs, and then enters it again.
static void handle(struct received *q)
{
    struct tug_node *n = q->node;
    struct tug_app *a = q->app;
    if (a != NULL && !a->closing) {
        a->n_handling++;
        bool at_length = n->handler_ns > LONG_NS;
        uint64_t begin = van_now(n->van);
        at_length ? pump_leave_long(n->pump) : pump_leave(n->pump);
        handled = q;
        call_handler(q, a);
        handled = NULL;
        at_length ? pump_enter_again(n->pump) : pump_enter(n->pump);
        n->handler_ns = (3 * n->handler_ns + van_now(n->van) - begin) / 4;
        a->n_handling--;
    }
    kv_kept_drain(n); // frees memory that the handler has kept and released
    kv_received_let_go(q);
}

static void handle_response(struct pump_work *w)
{
    struct received *q = (struct received *)((char *)w - offsetof(struct received, work));
    struct pump *p = q->node->pump;
    pump_enter(p);
    handle(q);
    pump_leave(p);
}

void kv_handle_response(struct received *q)
{
    q->work.run = handle_response;
    pump_queue(q->node->pump, &q->work);
}

// Handles the requests that wait when this function begins, by priority. Requests that
// arrive while it runs are handled after the other queued work of the pump.
static void handle_requests(struct pump_work *w)
{
    struct tug_node *n = (struct tug_node *)((char *)w -
                                             offsetof(struct tug_node, handling));
    struct received *q;
    pump_enter(n->pump);
    n->handling_queued = false;
    uint32_t count = n->waiting.n;
    for (; count > 0 && answers_have_room(n) &&
           (q = (struct received *)kv_line_take(&n->waiting)) != NULL;
         count--)
        handle(q);
    (void)kv_handle_look(n, van_now(n->van));
    pump_leave(n->pump);
}

uint64_t kv_handle_look(struct tug_node *n, uint64_t now)
{
    if (n->waiting.n == 0 || n->handling_queued)
        return VAN_NEVER;
    if (!answers_have_room(n)) {
        // Breaks links to nodes that do not read their answers.
        budget_pressed(&n->process.budget);
        return now + LOOK_NS;
    }
    queue_handling(n);
    return VAN_NEVER;
}

void kv_handle_request(struct received *q, struct tug_app *a)
{
    q->app = a;
    kv_line_put(&q->node->waiting, &q->in_line, q->m.priority);
    queue_handling(q->node);
}
