// Lanes, the queues of requests: which request starts next, the numbers of pushes and the
// window that bounds them.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "base/alloc.h"
#include "base/list.h"
#include "client/private.h"

struct lane *lane_of(struct client *c, const struct table_spec *spec, uint8_t op)
{
    if (spec->mode != WIRE_SYNC || op != WIRE_GRADIENT)
        return &c->main;
    for (struct lane *l = c->main.next; l != NULL; l = l->next)
        if (l->table == spec->id)
            return l;
    struct lane *l = mem_zalloc(sizeof(*l));
    if (l == NULL)
        return NULL;
    *l = (struct lane){
        .next = c->main.next, .table = spec->id, .pushes = NUMBERS_OF_PUSHES};
    c->main.next = l;
    return l;
}

void lanes_free(struct client *c)
{
    for (struct lane *l; (l = c->main.next) != NULL; mem_free(l))
        c->main.next = l->next;
}

void lane_put(struct lane *l, struct request *r)
{
    r->lane = l;
    list_append(l->first, l->last, r, lane_before, lane_behind);
}

void lane_take(struct request *r)
{
    struct lane *l = r->lane;
    list_remove(l->first, l->last, r, lane_before, lane_behind);
}

void numbers_close(struct numbers *x, uint64_t number)
{
    assert(number >= x->low && number < x->next);
    x->done |= (uint64_t)1 << (number - x->low);
    while (x->done & 1) {
        x->done >>= 1;
        x->low++;
    }
}

struct numbers *request_numbers(const struct request *r)
{
    switch (r->kind->numbers) {
    case NUMBERS_PUSHES:
        return &r->lane->pushes;
    case NUMBERS_ADMINS:
        return &r->client->admins;
    default:
        return NULL;
    }
}

static int request_start_first(struct request *r)
{
    TRY(r->kind->begin(r));
    if (request_numbers(r) != NULL)
        r->number = request_numbers(r)->next++;
    lane_take(r);
    r->state = REQUEST_OPEN;
    return 0;
}

// Returns whether all pushes that were called before a mark are acknowledged.
static bool pushes_are_over(const struct client *c, const struct request *mark)
{
    for (const struct lane *l = &c->main; l != NULL; l = l->next)
        if (l->pushes.next != l->pushes.low ||
            (l != mark->lane && l->first != NULL && l->first->ts < mark->ts))
            return false;
    return true;
}

// Returns whether a mark that was called before the request has not ended.
static bool waits_for_mark(const struct client *c, const struct request *r)
{
    if (c->marking != NULL)
        return true;
    const struct request *first = c->n_marks > 0 ? c->main.first : NULL;
    while (first != NULL && !first->kind->stands_alone)
        first = first->lane_behind;
    return first != NULL && first->ts < r->ts;
}

// Returns whether the first request of a lane may start. A mark starts when all earlier
// pushes are acknowledged, and later pushes start after it, so late or lost messages
// cannot change their order.
static bool has_room(const struct client *c, const struct request *r)
{
    const struct numbers *x = request_numbers(r);
    if (r->kind->stands_alone)
        return pushes_are_over(c, r);
    if (r->kind->numbers == NUMBERS_PUSHES && waits_for_mark(c, r))
        return false;
    if (r->kind->holds && !hold_is_on(c))
        return false;
    return x == NULL || x->next - x->low < x->window;
}

static void lane_advance(struct lane *l, struct client *c, uint64_t now)
{
    while (l->first != NULL && has_room(c, l->first)) {
        struct request *r = l->first;
        int rc = request_start_first(r);
        if (rc != 0) {
            struct err e;
            err_nomem(&e, "a request's slices");
            request_end(r, rc, &e);
            continue;
        }
        if (r->slices == NULL)
            request_end(r, 0, NULL);
        request_send_slices(r, now);
    }
}

void request_advance(struct client *c, uint64_t now)
{
    for (struct lane *l = &c->main; l != NULL; l = l->next)
        lane_advance(l, c, now);
}
