// Pools of requests, slices and staging memory. Used memory is kept for the next request:
// a client in steady state allocates nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "client/private.h"

// Returns a new id for the request in this slot; the id contains the slot's number.
static uint64_t new_id(struct client *c, size_t slot)
{
    return ++c->count << SLOT_BITS | slot;
}

struct request *request_take(struct client *c)
{
    struct request *r = c->free_requests;
    if (r != NULL) {
        c->free_requests = r->behind;
    } else {
        if (c->n_requests == SLOT_MAX ||
            mem_room(&c->requests, &c->max_requests, c->n_requests + 1) != 0)
            return NULL;
        r = mem_zalloc(sizeof(*r));
        if (r == NULL)
            return NULL;
        r->ts = c->n_requests;
        c->requests[c->n_requests++] = r;
    }
    size_t slot = r->ts & (SLOT_MAX - 1);
    // `why` is not cleared: it is large, and only read if rc is not 0.
    memset(r, 0, offsetof(struct request, why));
    r->ts = new_id(c, slot);
    r->client = c;
    return r;
}

void staging_give_all(struct request *r)
{
    struct client *c = r->client;
    assert(r->pins == 0);
    while (r->stagings != NULL) {
        struct staging *s = r->stagings;
        r->stagings = s->next;
        s->next = c->free_stagings;
        c->free_stagings = s;
    }
}

void request_give(struct request *r)
{
    struct client *c = r->client;
    assert(r->state != REQUEST_FREE);
    staging_give_all(r);
    if (r->kind->free != NULL)
        r->kind->free(r->own);
    r->state = REQUEST_FREE;
    r->behind = c->free_requests;
    c->free_requests = r;
}

struct request *request_find(struct client *c, client_ts ts)
{
    size_t slot = ts & (SLOT_MAX - 1);
    if (slot >= c->n_requests)
        return NULL;
    struct request *r = c->requests[slot];
    return r->ts == ts && r->state != REQUEST_FREE ? r : NULL;
}

struct slice *slice_take(struct client *c)
{
    struct slice *s = c->free_slices;
    if (s != NULL) {
        c->free_slices = s->next;
    } else {
        if (c->n_slices == SLOT_MAX ||
            mem_room(&c->slices, &c->max_slices, c->n_slices + 1) != 0)
            return NULL;
        s = mem_alloc(sizeof(*s));
        if (s == NULL)
            return NULL;
        s->slot = (uint32_t)c->n_slices;
        c->slices[c->n_slices++] = s;
    }
    *s = (struct slice){.slot = s->slot, .id = new_id(c, s->slot)};
    return s;
}

void slice_give(struct slice *s)
{
    struct client *c = s->peer->client;
    assert(s->id != 0); // the slice is in use
    s->id = 0;
    s->next = c->free_slices;
    c->free_slices = s;
}

struct slice *slice_find(struct client *c, uint64_t id)
{
    size_t slot = id & (SLOT_MAX - 1);
    if (id == 0 || slot >= c->n_slices)
        return NULL;
    struct slice *s = c->slices[slot];
    return s->id == id ? s : NULL;
}

struct sending *sending_take(struct client *c)
{
    struct sending *s = c->free_sendings;
    if (s != NULL)
        c->free_sendings = s->behind;
    else if ((s = mem_alloc(sizeof(*s))) == NULL)
        return NULL;
    s->before = NULL;
    s->behind = c->sendings;
    if (c->sendings != NULL)
        c->sendings->before = s;
    c->sendings = s;
    return s;
}

void sending_give(struct client *c, struct sending *s)
{
    if (s->before != NULL)
        s->before->behind = s->behind;
    else
        c->sendings = s->behind;
    if (s->behind != NULL)
        s->behind->before = s->before;
    s->behind = c->free_sendings;
    c->free_sendings = s;
}

// Takes the first block that is large enough but not far too large. If there is none,
// frees an unused one, so that there are never more blocks than were in use at a time.
void *staging_take(struct request *r, size_t bytes)
{
    struct client *c = r->client;
    struct staging **at = &c->free_stagings, *s;
    while ((s = *at) != NULL && (s->bytes < bytes || s->bytes / 4 > bytes + 4096))
        at = &s->next;
    if (s != NULL) {
        *at = s->next;
    } else {
        if (c->free_stagings != NULL) {
            struct staging *useless = c->free_stagings;
            c->free_stagings = useless->next;
            mem_free(useless);
        }
        size_t room = bytes + bytes / 8 + 64;
        s = mem_aligned(64, sizeof(*s) + (room + 63) / 64 * 64);
        if (s == NULL)
            return NULL;
        s->bytes = room;
    }
    s->next = r->stagings;
    r->stagings = s;
    return s->data;
}

void memory_free(struct client *c)
{
    for (size_t i = 0; i < c->n_requests; i++) {
        if (c->requests[i]->state != REQUEST_FREE)
            request_give(c->requests[i]);
        mem_free(c->requests[i]);
    }
    mem_free(c->requests);
    for (size_t i = 0; i < c->n_slices; i++)
        mem_free(c->slices[i]);
    mem_free(c->slices);
    while (c->sendings != NULL)
        sending_give(c, c->sendings);
    while (c->free_sendings != NULL) {
        struct sending *s = c->free_sendings;
        c->free_sendings = s->behind;
        mem_free(s);
    }
    while (c->free_stagings != NULL) {
        struct staging *s = c->free_stagings;
        c->free_stagings = s->next;
        mem_free(s);
    }
}
