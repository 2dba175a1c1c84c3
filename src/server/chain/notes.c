// The primary's side of records: it appends each applied change to the channels of the
// partitions' next members. It reserves the room before it applies the change.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "protocol/keys.h"
#include "server/chain/chain.h"
#include "server/chain/records.h"
#include "server/rows/push.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

struct channel_record notes_begin(const struct shard *s, enum record_kind kind,
                                  enum wire_space space)
{
    return (struct channel_record){
        .kind = kind, .space = space, .bits = s->bits, .places = s->chain->notes};
}

void notes_place(struct shard *s, struct channel_record *r, uint32_t partition,
                 uint32_t n)
{
    struct chain_place *p = &s->chain->of[r->space][partition];
    assert(r->n_places >> s->bits == 0);
    s->chain->notes[r->n_places++] = (struct channel_place){
        .partition = partition, .n = n, .position = p->applied++};
    r->n_items += n;
    if (p->next == NULL)
        p->committed = p->applied;
}

int notes_check(const struct channel_record *r, struct err *e)
{
    if (channel_fits(r))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "%zu keys with %u bytes of values each are too many at once for a "
                   "table with replicas; at most %llu bytes go to a replica",
                   r->n_items, r->each[1], (unsigned long long)WIRE_SPAN_MAX);
}

// The push may be applied in parts, each of which makes a record for each outlet. A part has
// a place or more.
int chain_reserve(struct shard *s, const struct shard_table *t, const struct keys *k,
                  const struct push_values *v, struct err *e)
{
    struct channel_record one = {.n_places = 1,
                                 .n_common = RECORDS_PUSH_COMMON,
                                 .each = {sizeof(uint64_t), v->width * sizeof(float)}};
    one.n_items = t->unbacked ? 0 : k->n;
    TRY(notes_check(&one, e));
    if (store_admits(t->store, STORE_GRADIENT)) {
        one.each[2] = 1;
        if (buf_reserve(&s->chain->has_row, k->n) != 0)
            return err_nomem(e, "the records of a push for replicas");
    }
    places_clear(s);
    for (uint32_t i = 0; i < k->n_runs; i++) {
        one.n_items = t->unbacked ? 0 : k->runs[i + 1].begin - k->runs[i].begin;
        places_want(s, t->spec.space, k->runs[i].partition, &one);
    }
    return places_reserve(s) == 0 ? 0
                                  : err_nomem(e, "the records of a push for replicas");
}

uint8_t *chain_has_row(struct shard *s, const struct shard_table *t, enum store_op op)
{
    return store_admits(t->store, op) && !t->unbacked ? (uint8_t *)s->chain->has_row.data
                                                      : NULL;
}

void chain_note(struct shard *s, const struct shard_table *t, const struct keys *k,
                uint32_t first, const struct msg_push *m, const struct store_push *p,
                size_t n)
{
    char common[RECORDS_PUSH_COMMON];
    struct channel_record r = notes_begin(s, RECORD_PUSH, t->spec.space);
    uint32_t begin = k->runs[first].begin;
    for (uint32_t i = first; i < k->n_runs && k->runs[i].begin - begin < n; i++)
        notes_place(s, &r, k->runs[i].partition,
                    t->unbacked ? 0 : k->runs[i + 1].begin - k->runs[i].begin);
    records_write_push(t, m, p, common);
    r.common = common;
    r.n_common = sizeof(common);
    r.each[0] = sizeof(*p->keys);
    r.each[1] = (uint32_t)(partition_push_width(t, p) * sizeof(*p->values));
    r.items[0] = (const void *)p->keys;
    r.items[1] = (const void *)p->values;
    r.each[2] = p->has_row != NULL;
    r.items[2] = (const void *)p->has_row;
    places_append(s, &r, places_next, NULL);
}

// Makes a list of the partitions of chain_reserve_places, or of all that this shard leads.
// Calls `each` for each of them.
static void each_place(struct shard *s, struct channel_record *r,
                       const uint32_t *partitions, uint32_t n,
                       void (*each)(struct shard *s, struct channel_record *r,
                                    uint32_t partition))
{
    for (uint32_t i = 0; i < n && partitions != NULL; i++)
        each(s, r, partitions[i]);
    for (uint32_t i = 0; i >> s->bits == 0 && partitions == NULL; i++)
        if (chain_leads(s, r->space, i))
            each(s, r, i);
}

static void count_place(struct shard *s, struct channel_record *r, uint32_t partition)
{
    places_want(s, r->space, partition, r);
}

static void note_place(struct shard *s, struct channel_record *r, uint32_t partition)
{
    notes_place(s, r, partition, 0);
}

int chain_reserve_places(struct shard *s, enum wire_space space,
                         const uint32_t *partitions, uint32_t n, size_t n_common,
                         struct err *e)
{
    if (s->chain == NULL)
        return 0;
    struct channel_record r = {.space = space, .n_places = 1, .n_common = n_common};
    places_clear(s);
    each_place(s, &r, partitions, n, count_place);
    return places_reserve(s) == 0 ? 0 : err_nomem(e, "a record for replicas");
}

void chain_note_places(struct shard *s, enum record_kind kind, enum wire_space space,
                       const uint32_t *partitions, uint32_t n, const void *common,
                       size_t n_common)
{
    if (s->chain == NULL)
        return;
    struct channel_record r = notes_begin(s, kind, space);
    r.common = common;
    r.n_common = n_common;
    each_place(s, &r, partitions, n, note_place);
    places_append(s, &r, places_next, NULL);
}

int chain_note_table(struct shard *s, const struct shard_table *t)
{
    if (s->chain == NULL)
        return 0;
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        TRY(outlets_add_table(s, o, t));
    return 0;
}
