// The parts of a record: its places are split among the channels to their next members.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "server/chain/chain.h"
#include "server/shard_internal.h"

struct chain_outlet *places_next(struct shard *s, const struct channel_record *r,
                                 uint32_t i, const void *ctx)
{
    (void)ctx;
    return s->chain->of[r->space][r->places[i].partition].next;
}

void places_clear(struct shard *s)
{
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        o->more = 0;
}

// Finds the routes of the places, and counts what goes to each outlet.
static void count(struct shard *s, const struct channel_record *r, places_route to,
                  const void *ctx)
{
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        o->items = o->places = 0;
    for (uint32_t i = 0; i < r->n_places; i++) {
        struct chain_outlet *o = s->chain->routes[i] = to(s, r, i, ctx);
        if (o == NULL)
            continue;
        o->places++;
        o->items += r->places[i].n;
    }
}

// Returns the head of the part of a record that goes to an outlet.
static struct channel_record part_of(const struct channel_record *r,
                                     const struct chain_outlet *o)
{
    struct channel_record part = *r;
    part.n_places = o->places;
    part.n_items = o->items;
    return part;
}

// Counts a record of one place, which may go with other places.
void places_want(struct shard *s, enum wire_space space, uint32_t partition,
                 const struct channel_record *one)
{
    struct chain_outlet *o = s->chain->of[space][partition].next;
    if (o != NULL)
        o->more += channel_bytes(one);
}

void places_count(struct shard *s, const struct channel_record *r, places_route to,
                  const void *ctx)
{
    count(s, r, to, ctx);
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next) {
        struct channel_record part = part_of(r, o);
        if (o->places > 0)
            o->more += channel_bytes(&part);
    }
}

int places_reserve(struct shard *s)
{
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        if (outlet_reserve(&o->o, o->more) != 0)
            return TUG_ENOMEM;
    return 0;
}

static void begin(struct shard *s, const struct channel_record *r)
{
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next) {
        struct channel_record part = part_of(r, o);
        if (o->places == 0)
            continue;
        part.epoch = member_roster(s->member)->epoch;
        int rc = outlet_begin(&o->o, &part, &o->draft);
        assert(rc == 0); // places_reserve has made room
        (void)rc;
    }
}

void places_append(struct shard *s, const struct channel_record *r, places_route to,
                   const void *ctx)
{
    // Items [first, at) are those of places that follow each other and go to `last`.
    size_t first = 0, at = 0;
    struct chain_outlet *last = NULL;
    count(s, r, to, ctx);
    begin(s, r);
    for (uint32_t i = 0; i < r->n_places; i++) {
        struct chain_outlet *o = s->chain->routes[i];
        if (o != last && last != NULL)
            outlet_items(&last->o, &last->draft, r, first, at - first);
        first = o != last ? at : first;
        last = o;
        at += r->places[i].n;
        if (o != NULL)
            outlet_place(&o->o, &o->draft, &r->places[i]);
    }
    if (last != NULL)
        outlet_items(&last->o, &last->draft, r, first, at - first);
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        if (o->places > 0)
            outlet_finish(&o->o, &o->draft);
}
