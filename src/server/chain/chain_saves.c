// The part of chains that saves use: an answer about all partitions that this shard leads,
// and records of days that end and of saves that were committed.
//
// SPDX-License-Identifier: Apache-2.0
#include "protocol/keys.h"
#include "server/background.h"
#include "server/chain/chain.h"
#include "server/chain/records.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "store/cut.h"

// Lists the partitions of a space that this shard leads. `runs` has room for all and one
// more.
static uint32_t list_led(const struct shard *s, enum wire_space space,
                         struct key_run *runs)
{
    const uint32_t *owners = member_roster(s->member)->owners[space];
    uint32_t n = 0;
    for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++)
        if (owners[p] == member_id(s->member))
            runs[n++] = (struct key_run){p, 0};
    runs[n] = (struct key_run){UINT32_MAX, 0};
    return n;
}

void chain_find_leases(struct shard *s, uint32_t *n)
{
    struct chain *c = s->chain;
    for (int i = 0; i < WIRE_SPACES; i++) {
        enum wire_space space = (enum wire_space)i;
        struct keys k = {.runs = c->runs, .n_runs = list_led(s, space, c->runs)};
        read_leases_find(s, space, &k, c->needs, n);
    }
}

bool chain_leads(const struct shard *s, enum wire_space space, uint32_t p)
{
    return member_roster(s->member)->owners[space][p] == member_id(s->member) &&
           roles_of(&s->roles, space, p) == ROLE_HERE;
}

// A record of a save has this common content.
struct published {
    uint64_t table, checksum;
};

// Returns whether records of saves of this table name the rows that count as published.
static bool has_content(const struct shard_table *t)
{
    return t->spec.config.deltas && !t->unbacked;
}

// Returns whether a record of a save has as many keys as it can have, so that n more ones of a
// partition go into another record.
static bool is_full(const struct shard *s, const struct channel_record *r, size_t n)
{
    return r->n_places > 0 && r->n_items + n > s->chain->max_published;
}

// The content of the record of a partition of which a save has published too much for one
// record.
static const char too_much[64] = "a save has published too many rows of one partition";

// Makes room for one record of a save, and begins another one.
static void reserve_one(struct shard *s, struct channel_record *r)
{
    places_count(s, r, places_next, NULL);
    r->n_places = 0;
    r->n_items = 0;
}

int chain_reserve_published(struct shard *s, const struct shard_table *t, struct err *e)
{
    if (s->chain == NULL)
        return 0;
    struct channel_record r = notes_begin(s, RECORD_PUBLISHED, t->spec.space);
    size_t all = 0;
    r.n_common = sizeof(struct published);
    r.each[0] = sizeof(uint64_t);
    places_clear(s);
    for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++) {
        if (!chain_leads(s, t->spec.space, p))
            continue;
        size_t n = has_content(t) ? cut_published_most(t->store, p) : 0;
        n /= sizeof(uint64_t);
        if (n > s->chain->max_published)
            n += sizeof(too_much) / sizeof(uint64_t);
        if (is_full(s, &r, n))
            reserve_one(s, &r);
        s->chain->notes[r.n_places++] = (struct channel_place){.partition = p,
                                                               .n = (uint32_t)n};
        r.n_items += n;
        all += n;
    }
    reserve_one(s, &r);
    buf_clear(&s->chain->pushed);
    return places_reserve(s) == 0 &&
                   buf_reserve(&s->chain->pushed, all * sizeof(uint64_t)) == 0
               ? 0
               : err_nomem(e, "the record of a save for replicas");
}

// Appends the record, and begins another one.
static void append_one(struct shard *s, struct channel_record *r)
{
    places_append(s, r, places_next, NULL);
    r->items[0] += r->n_items * sizeof(uint64_t);
    r->n_places = 0;
    r->n_items = 0;
}

void chain_note_published(struct shard *s, const struct shard_table *t, uint64_t checksum)
{
    struct published common = {t->spec.id, checksum};
    if (s->chain == NULL)
        return;
    struct channel_record r = notes_begin(s, RECORD_PUBLISHED, t->spec.space);
    struct buf *content = &s->chain->pushed; // of all records
    r.common = (const char *)&common;
    r.n_common = sizeof(common);
    r.each[0] = sizeof(uint64_t);
    r.items[0] = content->data;
    for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++) {
        size_t begin = content->len;
        if (!chain_leads(s, t->spec.space, p))
            continue;
        if (has_content(t)) {
            int rc = cut_get_published(t->store, p, content);
            assert(rc == 0); // chain_reserve_published has made room
            (void)rc;
        }
        size_t n = (content->len - begin) / sizeof(uint64_t);
        if (is_full(s, &r, n))
            append_one(s, &r);
        if (n <= s->chain->max_published) {
            notes_place(s, &r, p, (uint32_t)n);
            continue;
        }
        append_one(s, &r);
        r.items[0] = content->data + content->len;
        chain_note_places(s, RECORD_REFILL, t->spec.space, &p, 1, too_much,
                          sizeof(too_much));
    }
    append_one(s, &r);
}

// Returns the table of a record; NULL with an error if it is not one of its space.
static struct shard_table *table_of(const struct shard *s, const struct channel_record *r,
                                    uint64_t table, struct err *e)
{
    struct shard_table *t = table < SPEC_MAX_TABLES ? s->tables[table] : NULL;
    if (t != NULL && t->spec.space == r->space)
        return t;
    stream_damaged(e);
    return NULL;
}

int records_apply_published(struct shard *s, const struct channel_record *r,
                            uint32_t *ret_n, struct err *e)
{
    struct published x;
    const uint64_t *content = (const void *)r->items[0];
    if (r->n_common != sizeof(x) || r->each[0] != sizeof(uint64_t) || r->each[1] != 0)
        return stream_damaged(e);
    memcpy(&x, r->common, sizeof(x));
    struct shard_table *t = table_of(s, r, x.table, e);
    if (t == NULL)
        return e->code;
    uint64_t begun = moves_slice_begin(s);
    for (uint32_t i = 0; i < r->n_places; i++, content += r->places[i - 1].n) {
        uint32_t p = r->places[i].partition;
        if (!records_applies(s, r, i))
            continue;
        if (*ret_n > 0 && records_pause(s, t, begun))
            return TUG_EIO;
        moves_break_copy(s, r->space, p, "a save ended");
        if (has_content(t))
            TRY(cut_put_published(t->store, p, content, r->places[i].n * sizeof(uint64_t),
                                  e));
        store_set_backup_published_by(t->store, p, x.checksum);
        t->changed_at[p] = ++t->version;
        ++*ret_n;
    }
    return 0;
}

int records_apply_day(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                      struct err *e)
{
    uint64_t table;
    if (r->n_common != sizeof(table))
        return stream_damaged(e);
    memcpy(&table, r->common, sizeof(table));
    struct shard_table *t = table_of(s, r, table, e);
    if (t == NULL)
        return e->code;
    for (uint32_t i = 0; i < r->n_places; i++) {
        if (!records_applies(s, r, i))
            continue;
        uint32_t p = r->places[i].partition;
        moves_break_copy(s, r->space, p, "a day ended");
        store_day_in(t->store, p);
        t->changed_at[p] = ++t->version;
        ++*ret_n;
    }
    background_demote(s, t);
    return 0;
}
