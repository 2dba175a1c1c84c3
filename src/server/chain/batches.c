// Records of synchronous batches: the parts that the owner of partitions has accepted, and
// the batches that it has applied.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "protocol/keys.h"
#include "server/chain/chain.h"
#include "server/chain/records.h"
#include "server/clocks/sync.h"
#include "server/clocks/sync_backup.h"
#include "server/clocks/sync_sum.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// This is the common content of the record of a part. A place has keys and values, or nothing.
struct part_common {
    struct record_notes notes;
    uint64_t clock, examples;
    uint32_t micro, micros, again, fixed_keys;
    float rate, pass;
};

struct batch_common {
    uint64_t table, clock, step;
};

static_assert(sizeof(struct part_common) % STREAM_ALIGN == 0 &&
                  sizeof(struct batch_common) % STREAM_ALIGN == 0,
              "contents of records are multiples of 8");

// ---------------------------------------------------------------- the owner

static bool takes(const struct shard_table *t, uint32_t partition)
{
    return sync_group_of(t, partition)->takes && store_owns(t->store, partition);
}

static uint32_t value_bytes(const struct shard_table *t)
{
    return (uint32_t)(t->spec.accessor.push_width * sizeof(float));
}

int chain_reserve_part(struct shard *s, const struct shard_table *t, const struct keys *k,
                       struct err *e)
{
    struct channel_record one = {.n_places = 1,
                                 .n_common = sizeof(struct part_common),
                                 .each = {sizeof(uint64_t), value_bytes(t)}};
    one.n_items = t->unbacked ? 0 : k->n;
    TRY(notes_check(&one, e));
    places_clear(s);
    for (uint32_t p = 0, run = 0; p >> s->bits == 0; p++) {
        bool has = run < k->n_runs && k->runs[run].partition == p;
        one.n_items = has && !t->unbacked ? k->runs[run + 1].begin - k->runs[run].begin
                                          : 0;
        run += has;
        if (takes(t, p))
            places_want(s, t->spec.space, p, &one);
    }
    return places_reserve(s) == 0 ? 0 : err_nomem(e, "the record of a part for replicas");
}

// Appends a record of a part, and begins the next one.
static void append(struct shard *s, struct channel_record *r)
{
    if (r->n_places > 0)
        places_append(s, r, places_next, NULL);
    r->n_places = 0;
    r->n_items = 0;
}

// The items of a record are neighbours in the contribution. So a partition that does not take
// its keys lies between two records.
static void append_places(struct shard *s, const struct shard_table *t,
                          const struct contribution *c, struct channel_record *r)
{
    for (uint32_t p = 0, run = 0; p >> s->bits == 0; p++) {
        bool has = run < c->n_runs && c->runs[run].partition == p;
        uint32_t begin = c->runs[run].begin, n = 0;
        if (has && !t->unbacked)
            n = c->runs[run + 1].begin - begin;
        run += has;
        if (!takes(t, p)) {
            if (has)
                append(s, r);
            continue;
        }
        if (r->n_places == 0 && c->n > 0) {
            r->items[0] = (const void *)(c->keys + begin);
            r->items[1] = (const char *)c->values + (size_t)begin * r->each[1];
        }
        notes_place(s, r, p, n);
    }
    append(s, r);
}

void chain_note_part(struct shard *s, const struct shard_table *t,
                     const struct msg_push *m, const struct contribution *c)
{
    struct part_common common = {.notes = records_notes(t, m),
                                 .clock = m->clock,
                                 .examples = m->examples,
                                 .micro = m->micro,
                                 .micros = m->micros,
                                 .again = c->again,
                                 .fixed_keys = (m->flags & WIRE_KEYS_ONLY) != 0,
                                 .rate = m->rate,
                                 .pass = m->pass};
    struct channel_record r = notes_begin(s, RECORD_PART, t->spec.space);
    r.common = (const void *)&common;
    r.n_common = sizeof(common);
    r.each[0] = sizeof(*c->keys);
    r.each[1] = value_bytes(t);
    append_places(s, t, c, &r);
}

static bool is_of(const struct shard_table *t, const struct sync_group *g, uint32_t p)
{
    return sync_group_of(t, p) == g && store_owns(t->store, p);
}

int chain_reserve_batch(struct shard *s, const struct shard_table *t,
                        const struct sync_group *g, size_t n, struct err *e)
{
    const struct channel_record one = {.n_places = 1,
                                       .n_common = sizeof(struct batch_common)};
    places_clear(s);
    for (uint32_t p = 0; p >> s->bits == 0; p++)
        if (is_of(t, g, p))
            places_want(s, t->spec.space, p, &one);
    // Each record may have all keys, with a byte for each.
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        o->more += n + STREAM_ALIGN;
    return places_reserve(s) == 0 ? 0
                                  : err_nomem(e, "the record of a batch for replicas");
}

void chain_note_batch(struct shard *s, const struct shard_table *t,
                      const struct sync_group *g, uint32_t from, uint32_t to,
                      const struct store_push *p, size_t n)
{
    const struct batch_common x = {t->spec.id, g->clock.next, store_step_of(t->store)};
    struct channel_record r = notes_begin(s, RECORD_BATCH, t->spec.space);
    size_t at = 0;
    r.common = (const void *)&x;
    r.n_common = sizeof(x);
    r.each[2] = p->has_row != NULL;
    r.items[2] = (const void *)p->has_row;
    for (uint32_t i = from; i < to; i++) {
        size_t begin = at;
        if (!is_of(t, g, i))
            continue;
        while (p->has_row != NULL && at < n &&
               store_partition(t->store, p->keys[at]) == i)
            at++;
        notes_place(s, &r, i, (uint32_t)(at - begin));
    }
    if (r.n_places > 0)
        places_append(s, &r, places_next, NULL);
}

// ---------------------------------------------------------------- the other members

static struct shard_table *find_table(const struct shard *s, uint64_t table,
                                      enum wire_space space)
{
    struct shard_table *t = table < SPEC_MAX_TABLES ? s->tables[table] : NULL;
    bool fits = t != NULL && t->spec.mode == WIRE_SYNC && t->spec.space == space;
    return fits ? t : NULL;
}

static int apply_places(struct shard *s, struct shard_table *t,
                        const struct channel_record *r, struct sync_backup_part *part,
                        const struct retries_push *known, uint32_t *ret_n, struct err *e)
{
    size_t at = 0;
    for (uint32_t i = 0; i < r->n_places; at += r->places[i++].n) {
        uint32_t partition = r->places[i].partition;
        if (!records_applies(s, r, i))
            continue;
        part->n = r->places[i].n;
        part->keys = part->n > 0 ? (const uint64_t *)(const void *)r->items[0] + at
                                 : NULL;
        part->values = part->n > 0 ? (const void *)(r->items[1] + at * r->each[1]) : NULL;
        TRY(sync_backup_keep(s, t, partition, part, e));
        if (part->n > 0)
            retries_note(known, partition);
        *ret_n += 1;
    }
    return 0;
}

int records_apply_part(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                       struct err *e)
{
    struct part_common x;
    struct retries_push known;
    struct sync_backup_part part;
    if (r->n_common != sizeof(x))
        return stream_damaged(e);
    memcpy(&x, r->common, sizeof(x));
    struct shard_table *t = find_table(s, x.notes.table, r->space);
    if (t == NULL || x.micro > SHARD_MICROS || x.micros > SHARD_MICROS ||
        r->n_items > (t->unbacked ? 0 : KEYS_MAX) || r->each[0] != sizeof(*part.keys) ||
        r->each[1] != value_bytes(t))
        return stream_damaged(e);
    part = (struct sync_backup_part){.clock = x.clock,
                                     .examples = x.examples,
                                     .micro = (uint8_t)x.micro,
                                     .micros = (uint8_t)x.micros,
                                     .again = x.again != 0,
                                     .fixed_keys = x.fixed_keys != 0,
                                     .rate = x.rate,
                                     .pass = x.pass};
    TRY(records_begin_note(s, t->applied, r->space, &x.notes, &known, e));
    return apply_places(s, t, r, &part, &known, ret_n, e);
}

int records_apply_batch(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                        struct err *e)
{
    struct batch_common x;
    size_t at = 0;
    if (r->n_common != sizeof(x) || r->each[0] != 0 || r->each[1] != 0 ||
        r->each[2] > 1 || r->n_items > KEYS_MAX)
        return stream_damaged(e);
    memcpy(&x, r->common, sizeof(x));
    struct shard_table *t = find_table(s, x.table, r->space);
    if (t == NULL || (r->each[2] == 0 && r->n_items != 0))
        return stream_damaged(e);
    for (uint32_t i = 0; i < r->n_places; at += r->places[i++].n) {
        struct sync_decided decided = {.n = r->places[i].n};
        if (!records_applies(s, r, i))
            continue;
        if (r->each[2] != 0)
            decided.has_row = (const uint8_t *)r->items[2] + at;
        TRY(sync_backup_apply(s, t, r->places[i].partition, x.clock, x.step, &decided,
                              e));
        *ret_n += 1;
    }
    return 0;
}
