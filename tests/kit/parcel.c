// Messages in one block of memory each.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/parcel.h"

#include <string.h>

#include "base/alloc.h"

struct parcel {
    // Used by one thread only: the sender does not touch the parcel after sending it.
    uint32_t refs;
    uint32_t head_bytes;
    uint64_t body_bytes;
    // The frame's header; the head, padding, and the body follow.
    unsigned char header[WIRE_FRAME_BYTES];
};

_Static_assert(sizeof(struct parcel) % 8 == 0, "bodies are 8-byte aligned");

// A message that a handler gets, and the parcel that contains it.
struct delivery {
    struct van_message m; // must be first: handlers return a pointer to it
    struct parcel *parcel;
};

static unsigned char *head_of(const struct parcel *p)
{
    return (unsigned char *)(uintptr_t)(p + 1);
}

static unsigned char *body_of(const struct parcel *p)
{
    return head_of(p) + p->head_bytes + wire_padding(p->head_bytes);
}

static size_t bytes_of(const struct parcel *p)
{
    return sizeof(*p) + p->head_bytes + wire_padding(p->head_bytes) + p->body_bytes;
}

int parcel_pack(struct parcel **ret, struct wire_out *o, uint16_t type, uint64_t request,
                const void *msg)
{
    TRY(wire_encode(o, type, request, msg, false));
    struct parcel size = {.head_bytes = (uint32_t)(o->head.len - WIRE_FRAME_BYTES),
                          .body_bytes = o->body_bytes};
    struct parcel *p = mem_alloc(bytes_of(&size));
    if (p == NULL)
        return TUG_ENOMEM;
    *p = size;
    p->refs = 1;
    memcpy(p->header, o->head.data, WIRE_FRAME_BYTES);
    memcpy(head_of(p), o->head.data + WIRE_FRAME_BYTES, p->head_bytes);
    wire_copy_body(o, body_of(p));
    *ret = p;
    return 0;
}

struct parcel *parcel_copy(const struct parcel *p)
{
    struct parcel *copy = mem_alloc(bytes_of(p));
    if (copy == NULL)
        return NULL;
    memcpy(copy, p, bytes_of(p));
    copy->refs = 1;
    return copy;
}

void parcel_free(struct parcel *p)
{
    if (p != NULL && --p->refs == 0)
        mem_free(p);
}

uint64_t parcel_bytes(const struct parcel *p)
{
    return WIRE_FRAME_BYTES + p->head_bytes + p->body_bytes;
}

const char *parcel_name(const struct parcel *p)
{
    struct wire_frame f;
    return wire_frame_read(p->header, &f, NULL) == 0 ? wire_name(f.type) : "?";
}

// Sets the memory for the body: the place that the handler gives, otherwise the parcel
// itself.
static void place_body(struct delivery *d, const struct van_handler *h, van_link link)
{
    struct parcel *p = d->parcel;
    struct van_message *m = &d->m;
    if (p->body_bytes == 0)
        return;
    void *place = NULL;
    if (h->place != NULL)
        place = h->place(h->ctx, link, m->type, m->request, m->m, p->body_bytes);
    m->body_bytes = p->body_bytes;
    m->placed = place != NULL;
    m->body = m->placed ? place : body_of(p);
    if (m->placed)
        memcpy(place, body_of(p), p->body_bytes);
}

int parcel_deliver(struct parcel *p, const struct van_handler *h, van_link link,
                   uint64_t now, struct err *e)
{
    struct wire_frame f;
    union wire_any any;
    TRY(wire_frame_read(p->header, &f, e));
    TRY(wire_decode(p->header, &f, head_of(p), &any, e));
    struct delivery d = {.m = {.type = f.type, .request = f.request, .m = &any},
                         .parcel = p};
    place_body(&d, h, link);
    TRY(wire_body(&f, d.m.body, &any, e));
    h->message(h->ctx, link, &d.m, now);
    return 0;
}

void *parcel_keep(struct van *v, struct van_message *m)
{
    (void)v;
    if (m->body == NULL || m->placed)
        return NULL;
    struct parcel *p = ((struct delivery *)m)->parcel;
    p->refs++;
    return p;
}

void parcel_unkeep(struct van *v, void *kept)
{
    (void)v;
    parcel_free(kept);
}
