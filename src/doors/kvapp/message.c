// Requests and answers by hand: tug_app_new_request and tug_message_send, with messages
// that the program fills in itself.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "doors/kvapp/node.h"

static int new_request(struct tug_app *a, uint32_t to, uint32_t *ret_timestamp,
                       struct err *e)
{
    struct kv_request *r;
    TRY(kv_request_new_to(&r, a, to, KV_BY_HAND, e));
    // `open` begins as one more than the number of parts. kv_request_start, which is not
    // called here, would subtract this one.
    r->open--;
    *ret_timestamp = r->timestamp;
    return 0;
}

int tug_app_new_request(struct tug_app *a, uint32_t group_or_id, uint32_t *ret_timestamp)
{
    pump_enter(a->node->pump);
    int rc = new_request(a, group_or_id, ret_timestamp, last_error());
    pump_leave(a->node->pump);
    return rc;
}

static int add_responses(struct kv_request *r, uint32_t n, struct err *e)
{
    uint32_t unsent = 0;
    for (uint32_t i = 0; i < r->n_parts; i++)
        unsent += !r->parts[i].sent && !r->parts[i].answered;
    if (n > unsent)
        return err_set(e, TUG_EUSAGE,
                       "cannot count %u more answers: request %u has only %u nodes to "
                       "which it sent nothing",
                       n, r->timestamp, unsent);
    for (uint32_t i = 0; n > 0; i++)
        if (!r->parts[i].sent && !r->parts[i].answered) {
            n--;
            kv_part_answered(&r->parts[i],
                             NULL); // ends the request if this is the last part
        }
    return 0;
}

static struct kv_request *open_request(struct tug_app *a, uint32_t timestamp,
                                       struct err *e)
{
    struct kv_request *r = kv_request_find(a, timestamp);
    if (r != NULL && r->state == KV_OPEN)
        return r;
    err_set(e, TUG_EUSAGE, "customer %u of app %u has no open request %u", a->customer,
            a->app, timestamp);
    return NULL;
}

int tug_app_add_responses(struct tug_app *a, uint32_t timestamp, uint32_t n)
{
    struct tug_node *node = a->node;
    int rc = TUG_EUSAGE;
    pump_enter(node->pump);
    struct kv_request *r = open_request(a, timestamp, last_error());
    if (r != NULL)
        rc = add_responses(r, n, last_error());
    pump_leave(node->pump);
    return rc;
}

int tug_app_responses(struct tug_app *a, uint32_t timestamp, uint32_t *ret_n)
{
    struct tug_node *n = a->node;
    int rc = 0;
    pump_enter(n->pump);
    const struct kv_request *r = kv_request_find(a, timestamp);
    const struct kv_responses *done = &a->done[timestamp & (KV_DONE - 1)];
    if (r != NULL) {
        // A push or pull has no part for servers without keys; they count as if they had
        // answered.
        *ret_n = r->kind == KV_DATA && n->n_servers > r->n_parts
                     ? n->n_servers - r->n_parts
                     : 0;
        for (uint32_t i = 0; i < r->n_parts; i++)
            *ret_n += r->parts[i].answered;
    } else if (done->used && done->timestamp == timestamp) {
        *ret_n = done->n;
    } else {
        rc = err_set(
            last_error(), TUG_EUSAGE,
            "customer %u of app %u has made no request %u, or the request ended long ago",
            a->customer, a->app, timestamp);
    }
    pump_leave(n->pump);
    return rc;
}

// ---------------------------------------------------------------- messages

static struct msg_app message_of(const struct tug_message *m)
{
    return (struct msg_app){
        .app = m->app,
        .customer = m->customer,
        .timestamp = m->timestamp,
        .head = m->head,
        .priority = m->priority,
        .flags = (uint8_t)((m->request ? WIRE_APP_REQUEST : 0) |
                           (m->simple ? WIRE_APP_SIMPLE : 0) |
                           (m->push ? WIRE_APP_PUSH : 0) | (m->pull ? WIRE_APP_PULL : 0)),
        .value_bytes = (uint8_t)m->value_bytes,
        .body = {m->body, m->body_bytes},
        .keys = {m->data[0], m->data_bytes[0]},
        .values = {m->data[1], m->data_bytes[1]},
        .lengths = {m->data[2], m->data_bytes[2]},
    };
}

static void copy_span(struct wire_span *s, char **to)
{
    if (s->n > 0)
        memcpy(*to, s->data, s->n);
    s->data = *to;
    *to += (s->n + 7) / 8 * 8;
}

// Copies a message, and the memory to which it points, into one block.
static struct msg_app *copy_of(const struct msg_app *m)
{
    size_t bytes = m->body.n + m->keys.n + m->values.n + m->lengths.n + 32;
    struct msg_app *copy = mem_alloc(sizeof(*copy) + bytes);
    if (copy == NULL)
        return NULL;
    char *to = (char *)(copy + 1);
    *copy = *m;
    copy_span(&copy->body, &to);
    copy_span(&copy->keys, &to);
    copy_span(&copy->values, &to);
    copy_span(&copy->lengths, &to);
    return copy;
}

static struct kv_part *unsent_part(struct kv_request *r, uint32_t node)
{
    for (uint32_t i = 0; i < r->n_parts; i++)
        if (r->parts[i].node == node && !r->parts[i].sent && !r->parts[i].answered)
            return &r->parts[i];
    return NULL;
}

static int send_request(struct tug_node *n, const struct tug_message *m, struct err *e)
{
    struct tug_app *a = kv_app_find(n, m->app, m->customer);
    if (a == NULL)
        return err_set(e, TUG_EUSAGE, "this process has no customer %u of app %u",
                       m->customer, m->app);
    struct kv_request *r = open_request(a, m->timestamp, e);
    if (r == NULL)
        return e->code;
    struct kv_part *p = r->kind == KV_BY_HAND ? unsent_part(r, m->receiver) : NULL;
    if (p == NULL)
        return err_set(e, TUG_EUSAGE,
                       "request %u has nothing to send to node %u: it has sent the "
                       "message already, or the node is not in its group",
                       m->timestamp, m->receiver);
    struct msg_app all = message_of(m);
    p->copy = copy_of(&all);
    if (p->copy == NULL)
        return err_nomem(e, "a message");
    kv_peer_send(n, p);
    return 0;
}

static int send_answer(struct tug_node *n, const struct tug_message *m, struct err *e)
{
    struct received *q = kv_received_open(n, m);
    struct msg_app all = message_of(m);
    if (q == NULL)
        return err_set(
            e, TUG_EUSAGE,
            "node %u has no request %u of app %u (customer %u) that waits for an "
            "answer",
            m->receiver, m->timestamp, m->app, m->customer);
    return kv_received_answer(n, q, &all, NULL, e);
}

int tug_message_send(struct tug_node *n, const struct tug_message *m)
{
    struct err *e = last_error();
    struct msg_app all = message_of(m);
    if (m->value_bytes > 8)
        return err_set(e, TUG_EUSAGE, "values have 1, 2, 4 or 8 bytes, not %u",
                       m->value_bytes);
    if (kv_check_message(&all, all.keys.n / sizeof(uint64_t), e) != 0)
        return err_wrap(e, "the data of the message");
    pump_enter(n->pump);
    int rc = m->request ? send_request(n, m, e) : send_answer(n, m, e);
    pump_leave(n->pump);
    return rc;
}
