// See outbox.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/scheduler/outbox.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "wire/wire.h"

// The most messages that may wait, and the most bytes of these messages. Further messages
// are lost, as on the network.
enum { OUT_MAX = 1 << 16, OUT_BYTES_MAX = 64 << 20 };

// A message, an encoded roster, or the closing of the link.
struct outgoing {
    van_link link;
    bool closes;
    uint16_t type;
    uint64_t request;
    struct wire_out frame;
    void *body; // the body of the message, or NULL
    struct encoded_roster *roster;
};

static size_t outgoing_bytes(const struct outgoing *o)
{
    return o->frame.head.len + o->frame.body_bytes;
}

static void outgoing_free(struct outgoing *o)
{
    buf_free(&o->frame.head);
    mem_free(o->body);
    scheduler_drop_roster(o->roster);
}

static struct outgoing *outgoing_add(struct outbox *b, van_link link)
{
    struct outgoing *o = scheduler_grow(&b->list, &b->n, &b->cap, sizeof(*o));
    if (o != NULL)
        *o = (struct outgoing){.link = link};
    return o;
}

// A message for which memory is short is lost, as on the network. The peer asks for it
// again.
void outbox_send(struct outbox *b, van_link link, uint16_t type, uint64_t request,
                 const void *msg)
{
    struct outgoing *o = b->n < OUT_MAX ? outgoing_add(b, link) : NULL;
    if (o == NULL)
        return;
    o->type = type;
    o->request = request;
    o->frame = WIRE_OUT_INIT;
    bool ok = wire_encode(&o->frame, type, request, msg, false) == 0 &&
              b->bytes + outgoing_bytes(o) <= OUT_BYTES_MAX;
    if (ok && o->frame.body_bytes > 0) {
        o->body = mem_alloc(o->frame.body_bytes);
        ok = o->body != NULL;
        if (ok)
            wire_copy_body(&o->frame, o->body);
    }
    if (!ok) {
        outgoing_free(o);
        b->n--;
        return;
    }
    b->bytes += outgoing_bytes(o);
}

void outbox_send_roster(struct outbox *b, van_link link, uint64_t request,
                        struct encoded_roster *x)
{
    struct outgoing *o = b->n < OUT_MAX ? outgoing_add(b, link) : NULL;
    if (o == NULL) {
        scheduler_drop_roster(x);
        return;
    }
    o->type = MSG_ROSTER;
    o->request = request;
    o->roster = x;
}

bool outbox_close_link(struct outbox *b, van_link link)
{
    struct outgoing *o = outgoing_add(b, link);
    if (o != NULL)
        o->closes = true;
    return o != NULL;
}

static void send_frame(struct van *v, const struct outgoing *o)
{
    struct wire_frame f;
    union wire_any any;
    const char *bytes = o->frame.head.data;
    const unsigned char *head = (const unsigned char *)bytes;
    if (wire_frame_read(head, &f, NULL) == 0 &&
        wire_decode(head, &f, bytes + WIRE_FRAME_BYTES, &any, NULL) == 0 &&
        (o->body == NULL || wire_body(&f, o->body, &any, NULL) == 0))
        (void)van_send(v, o->link, o->type, o->request, &any, NULL);
}

static void send_one(struct van *v, struct outgoing *o)
{
    if (o->closes) {
        van_close_link(v, o->link);
    } else if (o->roster != NULL) {
        const struct van_release release = {scheduler_drop_roster, o->roster};
        (void)van_send(v, o->link, o->type, o->request, &o->roster->msg, &release);
        o->roster = NULL;
    } else {
        send_frame(v, o);
    }
}

// Removes the first n messages from the list. Sends them, or drops them if v is NULL.
static void take_out(struct outbox *b, uint32_t n, struct van *v)
{
    for (uint32_t i = 0; i < n; i++) {
        if (v != NULL)
            send_one(v, &b->list[i]);
        b->bytes -= outgoing_bytes(&b->list[i]);
        outgoing_free(&b->list[i]);
    }
    b->n -= n;
    b->sealed = 0;
    if (n > 0 && b->n > 0)
        memmove(b->list, b->list + n, b->n * sizeof(*b->list));
}

void outbox_seal(struct outbox *b)
{
    b->sealed = b->n;
}

void outbox_release_sealed(struct outbox *b, struct van *v)
{
    take_out(b, b->sealed, v);
}

void outbox_release(struct outbox *b, struct van *v)
{
    take_out(b, b->n, v);
}

void outbox_drop(struct outbox *b)
{
    take_out(b, b->n, NULL);
}

void outbox_free(struct outbox *b)
{
    outbox_drop(b);
    mem_free(b->list);
    *b = (struct outbox){0};
}
