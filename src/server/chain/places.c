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
        o->records = o->places = o->bytes = 0;
}

// The content of a record that goes to a place alone is counted for each place, which
// reserves more than is needed, but never too little.
void places_count(struct shard *s, const struct channel_record *r, places_route to,
                  const void *ctx)
{
    for (uint32_t i = 0; i < r->n_places; i++) {
        struct chain_outlet *o = to(s, r, i, ctx);
        if (o == NULL)
            continue;
        o->records++;
        o->places++;
        o->bytes += r->n_common + r->places[i].bytes;
    }
}

int places_reserve(struct shard *s)
{
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        if (outlet_reserve(&o->o, o->records, o->places, o->bytes) != 0)
            return TUG_ENOMEM;
    return 0;
}

void places_begin(struct shard *s, const struct channel_record *r, places_route to,
                  const void *ctx)
{
    places_clear(s);
    places_count(s, r, to, ctx);
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next) {
        struct channel_record part = *r;
        if (o->places == 0)
            continue;
        part.epoch = member_roster(s->member)->epoch;
        part.n_places = (uint32_t)o->places;
        part.n = o->bytes - o->places * r->n_common;
        int rc = outlet_begin(&o->o, &part, &o->draft);
        assert(rc == 0); // places_reserve has made room
        (void)rc;
    }
}

char *places_add(struct chain_outlet *o, const struct channel_place *place)
{
    return outlet_place(&o->o, &o->draft, place);
}

void places_end(struct shard *s)
{
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        if (o->places > 0)
            outlet_finish(&o->o, &o->draft);
}

void places_append(struct shard *s, const struct channel_record *r, places_route to,
                   const void *ctx)
{
    const char *content = r->bytes;
    places_begin(s, r, to, ctx);
    for (uint32_t i = 0; i < r->n_places; i++) {
        struct chain_outlet *o = to(s, r, i, ctx);
        if (o != NULL)
            memcpy(places_add(o, &r->places[i]), content, r->places[i].bytes);
        content += r->places[i].bytes;
    }
    places_end(s);
}
