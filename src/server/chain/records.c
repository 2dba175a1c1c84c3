// See records.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/records.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "cluster/roster.h"
#include "protocol/keys.h"
#include "protocol/limits.h"
#include "server/chain/chain.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

struct record_notes records_notes(const struct shard_table *t, const struct msg_push *m)
{
    return (struct record_notes){.session = m->session,
                                 .number = m->number,
                                 .pass = m->id_pass,
                                 .piece = m->id_piece,
                                 .table = t->spec.id,
                                 .group = m->id_group,
                                 .low = m->id_low};
}

void records_write_push(const struct shard_table *t, const struct msg_push *m,
                        const struct store_push *p, char *to)
{
    const struct record_notes x = records_notes(t, m);
    memcpy(to, &x, sizeof(x));
    partition_write_head(t, p, 0, to + sizeof(x));
}

int records_add_table(const struct shard_table *t, struct buf *to)
{
    uint64_t head[] = {t->spec.id, t->config.len, t->drops};
    TRY(stream_add_u64s(to, head, 3));
    return stream_add(to, t->config.data, t->config.len);
}

// All numbers that are too far below this one are acknowledged, because the primary has
// accepted the push: so the session's mark can be raised, and the number is never beyond
// the window.
int records_begin_note(struct shard *s, struct retries *r, enum wire_space space,
                       const struct record_notes *x, struct retries_push *ret,
                       struct err *e)
{
    const struct retries_id id = {.pass = x->pass,
                                  .piece = x->piece,
                                  .table = (uint32_t)x->table,
                                  .group = (uint32_t)x->group,
                                  .low = (uint32_t)x->low};
    uint64_t low = x->number >= SHARD_WINDOW ? x->number + 1 - SHARD_WINDOW : 0;
    *ret = (struct retries_push){0};
    if (x->session == 0 || x->number == UINT64_MAX)
        return stream_damaged(e);
    if (bug_in(s->o.member.bugs, WITHOUT_RECORD_REPEATS))
        return 0;
    // A shard that has forgotten a session must not remember it again. But another worker may
    // repeat the pushes of a dead one.
    if (roster_session_over(member_roster(s->member), x->session))
        return retries_begin_identity(r, space, &id, ret, e);
    return retries_begin(r, x->session, x->number, low, space, &id, ret, e);
}

bool records_applies(const struct shard *s, const struct channel_record *r, uint32_t i)
{
    return s->chain->of[r->space][r->places[i].partition].applies;
}

bool records_pause(const struct shard *s, const struct shard_table *t, uint64_t begun)
{
    return t->spec.config.cold[0] != '\0' && moves_slice_over(s, begun);
}

// Makes the runs of the places that are applied. Returns whether these are all places.
static bool make_runs(struct shard *s, const struct channel_record *r, struct keys *ret)
{
    struct key_run *runs = s->chain->runs;
    struct keys k = {.key = (const void *)r->items[0], .runs = runs};
    for (uint32_t i = 0; i < r->n_places; i++) {
        if (!records_applies(s, r, i))
            continue;
        runs[k.n_runs++] = (struct key_run){r->places[i].partition, k.n};
        k.n += r->places[i].n;
        k.longest = r->places[i].n > k.longest ? r->places[i].n : k.longest;
    }
    runs[k.n_runs] = (struct key_run){UINT32_MAX, k.n};
    *ret = k;
    return k.n_runs == r->n_places;
}

// Copies the items of the places that are applied, if these are not all places.
static int gather(struct shard *s, const struct channel_record *r, struct keys *k,
                  const float **values, struct store_push *p, struct err *e)
{
    struct buf *keys = &s->chain->pushed, *rows = &s->chain->has_row;
    size_t width = r->each[1] / sizeof(float), at = 0;
    buf_clear(keys);
    buf_clear(rows);
    float *to = shard_floats(s, k->n * width);
    if (to == NULL || buf_reserve(keys, k->n * sizeof(*k->key)) != 0 ||
        buf_reserve(rows, k->n) != 0)
        return err_nomem(e, "the keys and values of a replica");
    for (uint32_t i = 0; i < r->n_places; at += r->places[i++].n) {
        uint32_t n = r->places[i].n;
        if (!records_applies(s, r, i))
            continue;
        (void)buf_add(keys, k->key + at, n * sizeof(*k->key));
        (void)buf_add(rows, r->items[2] + at * r->each[2], n * r->each[2]);
        memcpy(to, *values + at * width, n * width * sizeof(*to));
        to += n * width;
    }
    k->key = (const void *)keys->data;
    *values = s->floats;
    if (p->follows)
        p->has_row = (uint8_t *)rows->data;
    return 0;
}

static int apply_push(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                      struct err *e)
{
    struct retries_push known;
    struct partition_push push;
    struct record_notes notes;
    struct keys k;
    const float *values = (const void *)r->items[1];
    size_t done = 0;
    if (r->n_common != RECORDS_PUSH_COMMON)
        return stream_damaged(e);
    memcpy(&notes, r->common, sizeof(notes));
    TRY(partition_read_head(s, r->space, r->common + sizeof(notes), &push, e));
    if (r->n_items > KEYS_MAX || r->each[0] != sizeof(*k.key) ||
        r->each[1] != push.width * sizeof(*values) ||
        r->each[2] != (store_admits(push.t->store, push.p.op) && !push.t->unbacked) ||
        (push.t->unbacked && r->n_items != 0))
        return stream_damaged(e);
    push.p.follows = r->each[2] != 0;
    if (push.p.follows)
        push.p.has_row = (uint8_t *)r->items[2]; // is only read
    if (!make_runs(s, r, &k) && !push.t->unbacked)
        TRY(gather(s, r, &k, &values, &push.p, e));
    TRY(records_begin_note(s, s->applied, r->space, &notes, &known, e));
    // The record of an unbacked table has no keys; all its runs are empty.
    int rc = push.t->unbacked ? 0 : partition_put_keys(s, &push, &k, values, &done, e);
    uint32_t n = 0;
    for (; n < k.n_runs && k.runs[n + 1].begin <= done; n++)
        retries_note(&known, k.runs[n].partition);
    *ret_n = n;
    return rc;
}

static int apply_table(struct shard *s, const struct channel_record *r, struct err *e)
{
    struct stream x = {r->common, r->n_common, 0};
    uint64_t head[3];
    if (!stream_u64s(&x, head, 3) || head[0] >= SPEC_MAX_TABLES ||
        head[1] > WIRE_TEXT_MAX)
        return stream_damaged(e);
    const char *config = stream_take(&x, head[1], 1);
    if (config == NULL)
        return stream_damaged(e);
    struct msg_table m = {.table = (uint32_t)head[0],
                          .config = {config, (uint32_t)head[1]}};
    if (head[2] < s->chain->drops[m.table])
        return 0; // this table was dropped here after the sender had made it
    if (head[2] > s->chain->drops[m.table])
        TRY(records_drop(s, m.table, head[2], e));
    // The table here is older than a drop, of which this shard got no message. So this shard
    // leaves the sender's chains, is filled again there, and keeps the rows of other senders.
    if (head[2] > s->chain->drops[m.table] && s->tables[m.table] != NULL)
        return err_set(e, TUG_EINTERRUPTED, "table %u was dropped and made again",
                       m.table);
    s->chain->drops[m.table] = head[2];
    return tables_make(s, &m, e);
}

// Returns the number of the table that a record of some places is about; SPEC_MAX_TABLES if
// it is about none.
static uint64_t table_of(const struct channel_record *r)
{
    uint64_t table = SPEC_MAX_TABLES;
    bool notes = r->kind == RECORD_PUSH || r->kind == RECORD_PART;
    size_t at = notes ? offsetof(struct record_notes, table) : 0;
    if (r->kind != RECORD_STEP && r->kind != RECORD_REFILL &&
        r->n_common >= at + sizeof(table))
        memcpy(&table, r->common + at, sizeof(table));
    return table;
}

// Returns whether the record's table was dropped here, by a client or by the record of
// another member, before the sender has dropped it. Such a record only counts.
static bool is_of_dropped(const struct shard *s, const struct channel_record *r)
{
    uint64_t table = r->n_places > 0 && !records_is_drop(r) ? table_of(r)
                                                            : SPEC_MAX_TABLES;
    return table < SPEC_MAX_TABLES && s->tables[table] == NULL &&
           s->chain->drops[table] > 0;
}

static int refuse_refill(const struct channel_record *r, struct err *e)
{
    return err_set(e, TUG_EINTERRUPTED, "%.*s", (int)strnlen(r->common, r->n_common),
                   r->common);
}

int records_apply(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                  struct err *e)
{
    *ret_n = 0;
    if (is_of_dropped(s, r)) {
        for (uint32_t i = 0; i < r->n_places; i++)
            *ret_n += records_applies(s, r, i);
        return 0;
    }
    switch (r->kind) {
    case RECORD_PUSH:
        return apply_push(s, r, ret_n, e);
    case RECORD_TABLE:
        return apply_table(s, r, e);
    case RECORD_TICK:
    case RECORD_STEP:
        return records_apply_clock(s, r, ret_n, e);
    case RECORD_PART:
        return records_apply_part(s, r, ret_n, e);
    case RECORD_BATCH:
        return records_apply_batch(s, r, ret_n, e);
    case RECORD_OPERATION:
        return records_apply_operation(s, r, ret_n, e);
    case RECORD_LOAD:
        return records_apply_load(s, r, ret_n, e);
    case RECORD_PUBLISHED:
        return records_apply_published(s, r, ret_n, e);
    case RECORD_DAY:
        return records_apply_day(s, r, ret_n, e);
    case RECORD_REFILL:
        return refuse_refill(r, e);
    default:
        return stream_damaged(e);
    }
}
