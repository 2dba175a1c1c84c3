// See partition.h. Each record is a head with a hash of its payload. A record is applied as
// a whole or not at all: the steps that may fail come first and are undone after a
// failure; the later steps cannot fail.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/partition.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "server/background.h"
#include "server/clocks/pending.h"
#include "server/clocks/sync_group.h"
#include "server/moves/record.h"
#include "server/moves/stream.h"
#include "server/rows/push.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "store/parcel.h"

enum { PARCEL_FORMAT = 3 };

struct record_head {
    uint64_t format, kind, space, partition, bits, n, hash; // n: bytes of the payload
};

struct rows_head {
    uint32_t table, drops; // the table's number, and how often it was dropped before
    uint64_t config, rows; // numbers of bytes
    // The number of rows in this record and in the slices of the table that follow it.
    uint64_t expected;
};

struct facts_head {
    uint64_t table, fixed_keys;
};

static bool is_of(const struct shard_table *t, enum wire_space space)
{
    return t != NULL && t->spec.space == space;
}

bool partition_is_free(const struct shard *s, enum wire_space space)
{
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (is_of(s->tables[i], space) && !background_free(s->tables[i]))
            return false;
    return true;
}

bool partition_is_apart(const struct shard *s, enum wire_space space, uint32_t partition)
{
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (is_of(s->tables[i], space) && !background_free(s->tables[i]) &&
            !store_is_apart(s->tables[i]->store, partition))
            return false;
    return true;
}

// ---------------------------------------------------------------- writing

int record_no_room(const struct buf *to, struct err *e)
{
    return buf_error(to, "the bytes of a partition", e);
}

int record_begin(const struct shard *s, enum record_kind kind, enum wire_space space,
                 uint32_t partition, struct buf *to, struct err *e)
{
    struct record_head h = {.format = PARCEL_FORMAT,
                            .kind = kind,
                            .space = space,
                            .partition = partition,
                            .bits = s->bits};
    return stream_add(to, &h, sizeof(h)) == 0 ? 0 : record_no_room(to, e);
}

int record_end(struct buf *to, size_t begin, int rc)
{
    struct record_head h;
    if (rc != 0) {
        to->len = begin;
        return rc;
    }
    memcpy(&h, to->data + begin, sizeof(h));
    h.n = to->len - begin - sizeof(h);
    h.hash = hash_bytes(to->data + begin + sizeof(h), h.n, 0);
    memcpy(to->data + begin, &h, sizeof(h));
    return 0;
}

int record_add_table(struct shard_table *t, uint32_t partition, bool rows, struct buf *to,
                     struct err *e)
{
    struct rows_head head = {
        .table = t->spec.id,
        .drops = (uint32_t)t->drops,
        .expected = t->unbacked ? 0 : store_rows_of(t->store, partition)};
    size_t at = to->len;
    head.config = t->config.len;
    if (stream_add(to, &head, sizeof(head)) != 0 ||
        stream_add(to, t->config.data, t->config.len) != 0)
        return record_no_room(to, e);
    size_t begin = to->len;
    TRY((rows ? parcel_get : parcel_get_empty)(t->store, partition, to, e));
    head.rows = to->len - begin;
    memcpy(to->data + at, &head, sizeof(head));
    return 0;
}

int partition_get_rows(struct shard *s, enum wire_space space, uint32_t partition,
                       struct buf *to, struct err *e)
{
    size_t begin = to->len;
    assert(partition_is_free(s, space));
    int rc = record_begin(s, RECORD_ROWS, space, partition, to, e);
    for (uint32_t i = 0; i < s->n_tables && rc == 0; i++)
        if (is_of(s->tables[i], space))
            rc = record_add_table(s->tables[i], partition, !s->tables[i]->unbacked, to,
                                  e);
    return record_end(to, begin, rc);
}

static int get_facts(const struct shard_table *t, uint32_t partition, struct buf *to)
{
    struct facts_head h = {t->spec.id, t->fixed_keys};
    TRY(stream_add(to, &h, sizeof(h)));
    if (t->spec.mode == WIRE_SSP)
        return ssp_clock_get(&t->ssp, to);
    if (t->spec.mode != WIRE_SYNC)
        return 0;
    TRY(retries_get(t->applied, partition, t->spec.space, to));
    return sync_group_get(t, partition, to);
}

int partition_get_facts(struct shard *s, enum wire_space space, uint32_t partition,
                        struct buf *to, struct err *e)
{
    size_t begin = to->len;
    TRY(record_begin(s, RECORD_FACTS, space, partition, to, e));
    int rc = chain_get_facts(s, space, partition, to);
    if (rc == 0)
        rc = retries_get(s->applied, partition, space, to);
    if (rc == 0)
        rc = step_clock_get(&s->steps, to);
    if (rc == 0)
        rc = saves_get_ended(&s->saves, to);
    for (uint32_t i = 0; i < s->n_tables && rc == 0; i++)
        if (is_of(s->tables[i], space))
            rc = get_facts(s->tables[i], partition, to);
    return record_end(to, begin, rc != 0 ? record_no_room(to, e) : 0);
}

int partition_get_push(const struct shard *s, const struct shard_table *t,
                       uint32_t partition, const struct store_push *p, size_t first,
                       size_t n, struct buf *to, struct err *e)
{
    size_t begin = to->len;
    TRY(record_begin(s, RECORD_PUSH, t->spec.space, partition, to, e));
    int rc = partition_add_push(t, p, first, n, to);
    return record_end(to, begin, rc != 0 ? record_no_room(to, e) : 0);
}

// ---------------------------------------------------------------- reading

// A table for which a record has rows or facts.
struct arriving {
    struct shard_table *t;
    struct sync_group *g;
    // `made`: the table was made; `put`: its rows are in its store.
    bool made, put, fixed_keys;
};

// A record that is being applied.
struct arrival {
    struct shard *s;
    enum wire_space space;
    uint32_t partition;
    struct stream x; // the payload
    struct arriving *tables;
    uint32_t n;
};

// Adds a table to those of the record, which has each table once. Returns NULL, with an
// error, if it cannot.
static struct arriving *more(struct arrival *a, uint64_t table, struct err *e)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->tables[i].t->spec.id == table)
            table = SPEC_MAX_TABLES;
    if (table >= SPEC_MAX_TABLES) {
        (void)stream_damaged(e);
        return NULL;
    }
    struct arriving *all = mem_realloc_array(a->tables, a->n + 1, sizeof(*all));
    if (all == NULL) {
        (void)err_nomem(e, "a partition");
        return NULL;
    }
    a->tables = all;
    all[a->n] = (struct arriving){0};
    return &all[a->n];
}

// Takes the n bytes of a head from the record.
static int take_head(struct arrival *a, void *ret, size_t n, struct err *e)
{
    const void *from = stream_take(&a->x, 1, n);
    if (from == NULL)
        return stream_damaged(e);
    memcpy(ret, from, n);
    return 0;
}

static int find_or_make(struct arrival *a, const struct rows_head *h,
                        struct arriving *into, struct err *e)
{
    const char *config = stream_take(&a->x, h->config, 1);
    struct table_spec spec;
    if (config == NULL || h->config > WIRE_TEXT_MAX)
        return stream_damaged(e);
    TRY(chain_learn_drops(a->s, h->table, h->drops, e));
    // more() has checked the table's number.
    struct shard_table *t = a->s->tables[h->table];
    if (is_of(t, a->space) && tables_has_config(t, config, h->config)) {
        into->t = t;
        a->n++;
        return 0;
    }
    struct msg_table m = {.table = (uint32_t)h->table,
                          .config = {config, (uint32_t)h->config}};
    TRY(spec_decode(&spec, &m, e));
    into->t = a->s->tables[spec.id];
    if (spec.space != a->space)
        return stream_damaged(e);
    if (into->t == NULL) {
        TRY(tables_add(a->s, &spec, &into->t, e));
        into->made = true;
        // If this fails, undo() removes the table.
        if (chain_note_table(a->s, into->t) != 0) {
            a->n++;
            return err_nomem(e, "the record of a table for replicas");
        }
    }
    a->n++; // from here on undo() removes the table after a failure
    if (!spec_same(&spec, &into->t->spec))
        return err_set(e, TUG_EUSAGE, "table %u differs between two servers in its %s",
                       spec.id, spec_difference(&spec, &into->t->spec));
    return 0;
}

static int put_table(struct arrival *a, struct err *e)
{
    struct rows_head h;
    TRY(take_head(a, &h, sizeof(h), e));
    struct arriving *into = more(a, h.table, e);
    if (into == NULL)
        return e->code;
    TRY(find_or_make(a, &h, into, e));
    struct shard_table *t = into->t;
    const void *rows = stream_take(&a->x, h.rows, 1);
    if (rows == NULL)
        return stream_damaged(e);
    if (store_owns(t->store, a->partition) ||
        (!background_free(t) && !store_is_apart(t->store, a->partition)))
        return err_set(e, TUG_EIO, "table '%s' is being saved or cleared",
                       t->spec.config.name);
    // A table takes memory even without rows, so a new one is measured before its rows are put.
    if (into->made) {
        tables_measure(a->s, t);
        TRY(partition_fits(a->s, h.rows, e));
    }
    tables_limit(a->s, t);
    partition_reserve(a->s, t, a->partition, h.expected);
    TRY(parcel_put(t->store, a->partition, rows, h.rows, e));
    into->put = true;
    tables_measure(a->s, t);
    return t->spec.mode != WIRE_SYNC ? 0 : sync_group_await(a->s, t, a->partition, e);
}

int partition_fits(const struct shard *s, uint64_t n, struct err *e)
{
    uint64_t most = s->o.max_bytes;
    if (most == 0 || (s->bytes <= most && n <= most - s->bytes))
        return 0;
    return err_set(
        e, TUG_ENOMEM,
        "no room for a partition of %llu bytes: rows take %llu of the %llu bytes "
        "allowed (--memory)",
        (unsigned long long)n, (unsigned long long)s->bytes, (unsigned long long)most);
}

static void undo_table(struct arrival *a, struct arriving *x)
{
    if (x->made) {
        tables_remove(a->s, x->t);
    } else if (x->put) {
        (void)store_drop(x->t->store, a->partition, NULL);
        if (x->t->spec.mode == WIRE_SYNC)
            sync_leave(a->s, x->t, a->partition);
        tables_measure(a->s, x->t);
    }
}

static int put_rows(struct arrival *a, struct err *e)
{
    int rc = partition_fits(a->s, a->x.n, e);
    while (a->x.at < a->x.n && rc == 0)
        rc = put_table(a, e);
    for (uint32_t i = a->n; rc != 0 && i-- > 0;)
        undo_table(a, &a->tables[i]);
    return rc;
}

static int put_push(struct arrival *a, struct err *e)
{
    TRY(partition_put_push(a->s, a->space, a->partition, a->x.bytes, a->x.n, e));
    a->x.at = a->x.n;
    return 0;
}

// Takes the next number of the record. Returns the table with this number, or NULL if the
// partition's space has no such table.
static struct shard_table *take_table(struct arrival *a)
{
    uint64_t id;
    if (!stream_u64s(&a->x, &id, 1) || id >= SPEC_MAX_TABLES ||
        !is_of(a->s->tables[id], a->space) ||
        !store_owns(a->s->tables[id]->store, a->partition))
        return NULL;
    return a->s->tables[id];
}

static int put_slice(struct arrival *a, struct err *e)
{
    struct shard_table *t = take_table(a);
    bool last;
    if (t == NULL)
        return stream_damaged(e);
    tables_limit(a->s, t);
    TRY(partition_fits(a->s, a->x.n, e));
    TRY(parcel_slice_put(t->store, a->partition, a->x.bytes + a->x.at, a->x.n - a->x.at,
                         &last, e));
    a->x.at = a->x.n;
    tables_measure(a->s, t);
    return 0;
}

static int put_removed(struct arrival *a, struct err *e)
{
    struct shard_table *t = take_table(a);
    uint64_t n;
    if (t == NULL || !stream_u64s(&a->x, &n, 1))
        return stream_damaged(e);
    const uint64_t *keys = stream_take(&a->x, n, sizeof(*keys));
    if (keys == NULL || n > KEYS_MAX || !store_all_in(t->store, a->partition, keys, n))
        return stream_damaged(e);
    for (uint64_t i = 0; i < n; i++) // one key at a time, because a key may occur twice
        TRY(store_remove(t->store, keys + i, 1, e));
    return 0;
}

static int put_table_facts(struct arrival *a, struct err *e)
{
    struct facts_head h;
    TRY(take_head(a, &h, sizeof(h), e));
    struct arriving *into = more(a, h.table, e);
    if (into == NULL)
        return e->code;
    struct shard_table *t = into->t = a->s->tables[h.table];
    if (!is_of(t, a->space) || !store_owns(t->store, a->partition))
        return stream_damaged(e);
    a->n++;
    into->fixed_keys = h.fixed_keys != 0;
    if (t->spec.mode == WIRE_SSP)
        return ssp_clock_put(&t->ssp, &a->x, e);
    if (t->spec.mode != WIRE_SYNC)
        return 0;
    TRY(retries_put(t->applied, a->partition, a->space, &a->x, e));
    return sync_group_put(a->s, t, a->partition, &a->x, &into->g, e);
}

static bool has_arrived(const struct arrival *a, const struct shard_table *t)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->tables[i].t == t)
            return true;
    return false;
}

// Returns whether this shard owns a partition of the space, or has rows of an
// arriving partition other than `arrives`. If so, the shard may need tables
// that this record lacks.
static bool has_some(const struct shard *s, enum wire_space space, uint32_t arrives)
{
    for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++)
        if (roles_of(&s->roles, space, p) != ROLE_AWAY)
            return true;
    for (const struct incoming *m = s->moves.in; m != NULL; m = m->next)
        if (m->n > 0 && m->move.space == space && m->move.partition != arrives)
            return true;
    return false;
}

// Called for a table that the record lacks. Either the table was dropped at the
// other shard, or it was made at this shard and not yet at the other, which
// then has no rows of it.
static void settle_other(struct arrival *a, struct shard_table *t, bool alone)
{
    if (alone && background_free(t)) {
        tables_remove(a->s, t);
        return;
    }
    store_set_owned(t->store, a->partition, true);
    (void)sync_own(a->s, t); // an error is ignored, because sync_push tries again
    t->changed_at[a->partition] = ++t->version;
}

static void settle(struct arrival *a)
{
    struct shard *s = a->s;
    bool alone = !has_some(s, a->space, a->partition);
    roles_set(&s->roles, a->space, a->partition,
              s->chain != NULL ? ROLE_BACKUP : ROLE_HERE);
    roles_count(&s->roles, member_roster(s->member), member_id(s->member));
    for (uint32_t i = 0; i < a->n; i++) {
        struct shard_table *t = a->tables[i].t;
        t->fixed_keys |= a->tables[i].fixed_keys;
        if (a->tables[i].g != NULL) {
            sync_leave(s, t, a->partition);
            sync_arrive(s, t, a->tables[i].g);
            // The table's open batches may be complete now that the partition
            // has a group of its own.
            background_again(s, t->spec.id);
        }
        t->changed_at[a->partition] = ++t->version;
        tables_measure(s, t);
    }
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (is_of(s->tables[i], a->space) && !has_arrived(a, s->tables[i]))
            settle_other(a, s->tables[i], alone);
    tables_set_step(s);
    pending_wake(s, WANTS_MOVE);
    pending_wake(s, WANTS_TICK);
}

static int put_facts(struct arrival *a, struct err *e)
{
    struct shard *s = a->s;
    struct chain_facts facts = {0};
    struct saves_ended ended = {0};
    int rc = chain_take_facts(s, a->space, a->partition, &a->x, &facts, e);
    if (rc == 0)
        rc = retries_put(s->applied, a->partition, a->space, &a->x, e);
    if (rc == 0)
        rc = step_clock_put(&s->steps, member_roster(s->member), &a->x, e);
    if (rc == 0)
        rc = saves_take_ended(&ended, &a->x, e);
    while (a->x.at < a->x.n && rc == 0)
        rc = put_table_facts(a, e);
    if (rc == 0) {
        settle(a);
        saves_learn_ended(s, &ended);
        chain_begin_at(s, a->space, a->partition, &facts);
    }
    for (uint32_t i = 0; rc != 0 && i < a->n; i++)
        sync_group_free(s, a->tables[i].g);
    return rc;
}

static int put_record(struct arrival *a, uint64_t kind, struct err *e)
{
    int rc = kind == RECORD_ROWS      ? put_rows(a, e)
             : kind == RECORD_PUSH    ? put_push(a, e)
             : kind == RECORD_FACTS   ? put_facts(a, e)
             : kind == RECORD_SLICE   ? put_slice(a, e)
             : kind == RECORD_REMOVED ? put_removed(a, e)
                                      : stream_damaged(e);
    mem_free(a->tables);
    if (rc == 0 && kind != RECORD_FACTS && a->x.at != a->x.n)
        rc = stream_damaged(e);
    return rc;
}

// Returns the size of the first record in bytes; 0 if the record is not complete.
static size_t first_record(const char *bytes, size_t n)
{
    struct record_head h;
    if (n < sizeof(h))
        return 0;
    memcpy(&h, bytes, sizeof(h));
    return h.n <= n - sizeof(h) ? sizeof(h) + h.n : 0;
}

bool partition_has_record(const void *bytes, size_t n)
{
    return first_record(bytes, n) > 0;
}

int partition_put_one(struct shard *s, enum wire_space space, uint32_t partition,
                      const void *bytes, size_t n, size_t *ret_used, bool *ret_settled,
                      struct err *e)
{
    struct record_head h;
    assert((uintptr_t)bytes % STREAM_ALIGN == 0);
    assert(roles_of(&s->roles, space, partition) == ROLE_AWAY);
    *ret_used = 0;
    *ret_settled = false;
    if (n < sizeof(h))
        return 0;
    memcpy(&h, bytes, sizeof(h));
    if (h.format != PARCEL_FORMAT || h.space != space || h.partition != partition ||
        h.bits != s->bits || h.n % STREAM_ALIGN != 0)
        return stream_damaged(e);
    if (first_record(bytes, n) == 0) // the rest of the record has not arrived
        return 0;
    const char *payload = (const char *)bytes + sizeof(h);
    struct arrival a = {
        .s = s, .space = space, .partition = partition, .x = {payload, h.n, 0}};
    if (h.hash != hash_bytes(payload, h.n, 0))
        return stream_damaged(e);
    TRY(put_record(&a, h.kind, e));
    *ret_used = sizeof(h) + h.n;
    *ret_settled = h.kind == RECORD_FACTS;
    return 0;
}

int partition_put(struct shard *s, enum wire_space space, uint32_t partition,
                  const void *bytes, size_t n, size_t *ret_used, bool *ret_settled,
                  struct err *e)
{
    size_t used = 1;
    *ret_used = 0;
    *ret_settled = false;
    while (!*ret_settled && used > 0) {
        TRY(partition_put_one(s, space, partition, (const char *)bytes + *ret_used,
                              n - *ret_used, &used, ret_settled, e));
        *ret_used += used;
    }
    return 0;
}
