// See parcel.h. The bytes are a head with a hash of all that follows, then the pushes and
// steps of the shard, then table by table. A partition is installed in two steps: each
// table's rows are put into its store while the other facts are prepared, all of which may
// fail and is undone; the rest cannot fail.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/parcel.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "server/background.h"
#include "server/clocks/pending.h"
#include "server/clocks/sync_group.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "store/parcel.h"

enum { PARCEL_FORMAT = 1 };

struct parcel_head {
    uint64_t format, space, partition, bits, tables, hash;
};

struct table_head {
    uint64_t table, fixed_keys, config, rows; // `config`, `rows`: their bytes
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

// ---------------------------------------------------------------- writing

static int add_clocks(const struct shard_table *t, uint32_t partition, struct buf *to)
{
    if (t->spec.mode == WIRE_SSP)
        return ssp_clock_get(&t->ssp, to);
    if (t->spec.mode != WIRE_SYNC)
        return 0;
    TRY(retries_get(t->applied, partition, t->spec.space, to));
    return sync_group_get(t, partition, to);
}

static int get_table(struct shard_table *t, uint32_t partition, struct buf *to,
                     struct err *e)
{
    struct table_head head = {.table = t->spec.id, .fixed_keys = t->fixed_keys};
    struct buf config = BUF_INIT(WIRE_TEXT_MAX);
    size_t at = to->len;
    int rc = stream_add(to, &head, sizeof(head));
    if (rc == 0)
        rc = table_config_print(&t->spec.config, &config);
    if (rc == 0)
        rc = stream_add(to, config.data, config.len);
    head.config = config.len;
    buf_free(&config);
    if (rc != 0)
        return buf_error(to, "the bytes of a partition", e);
    size_t rows = to->len;
    TRY(parcel_get(t->store, partition, to, e));
    head.rows = to->len - rows;
    memcpy(to->data + at, &head, sizeof(head));
    if (add_clocks(t, partition, to) != 0)
        return buf_error(to, "the bytes of a partition", e);
    return 0;
}

static int get_all(struct shard *s, struct parcel_head *head, struct buf *to,
                   struct err *e)
{
    enum wire_space space = (enum wire_space)head->space;
    uint32_t partition = (uint32_t)head->partition;
    if (stream_add(to, head, sizeof(*head)) != 0 ||
        retries_get(s->applied, partition, space, to) != 0 ||
        step_clock_get(&s->steps, to) != 0)
        return buf_error(to, "the bytes of a partition", e);
    for (uint32_t i = 0; i < s->n_tables; i++) {
        if (!is_of(s->tables[i], space))
            continue;
        TRY(get_table(s->tables[i], partition, to, e));
        head->tables++;
    }
    return 0;
}

int partition_get(struct shard *s, enum wire_space space, uint32_t partition,
                  struct buf *to, struct err *e)
{
    struct parcel_head head = {
        .format = PARCEL_FORMAT, .space = space, .partition = partition, .bits = s->bits};
    size_t begin = to->len;
    assert(partition_is_free(s, space));
    int rc = get_all(s, &head, to, e);
    if (rc != 0) {
        to->len = begin;
        return rc;
    }
    size_t after = begin + sizeof(head);
    head.hash = hash_bytes(to->data + after, to->len - after, 0);
    memcpy(to->data + begin, &head, sizeof(head));
    return 0;
}

// ---------------------------------------------------------------- reading

// A table into which a partition is put.
struct arriving {
    struct shard_table *t;
    struct sync_group *g;
    bool made, put, fixed_keys; // the table was made; its rows are in its store
};

struct arrival {
    struct shard *s;
    enum wire_space space;
    uint32_t partition;
    struct stream x;
    struct arriving *tables;
    uint32_t n;
};

static int find_or_make(struct arrival *a, const struct table_head *h,
                        struct arriving *into, struct err *e)
{
    const char *config = stream_take(&a->x, h->config, 1);
    struct table_spec spec;
    if (config == NULL || h->config > WIRE_TEXT_MAX || h->table >= SPEC_MAX_TABLES)
        return stream_damaged(e);
    struct msg_table m = {.table = (uint32_t)h->table,
                          .config = {config, (uint32_t)h->config}};
    TRY(spec_decode(&spec, &m, e));
    into->t = a->s->tables[spec.id];
    if (spec.space != a->space)
        return stream_damaged(e);
    if (into->t == NULL) {
        TRY(tables_add(a->s, &spec, &into->t, e));
        into->made = true;
    }
    if (!spec_same(&spec, &into->t->spec))
        return err_set(e, TUG_EUSAGE, "table %u differs between two servers in its %s",
                       spec.id, spec_difference(&spec, &into->t->spec));
    if (!background_free(into->t))
        return err_set(e, TUG_EIO, "table '%s' is being saved or cleared",
                       spec.config.name);
    return 0;
}

static int put_clocks(struct arrival *a, struct arriving *into, struct err *e)
{
    struct shard_table *t = into->t;
    if (t->spec.mode == WIRE_SSP)
        return ssp_clock_put(&t->ssp, &a->x, e);
    if (t->spec.mode != WIRE_SYNC)
        return 0;
    TRY(retries_put(t->applied, a->partition, a->space, &a->x, e));
    return sync_group_put(a->s, t, a->partition, &a->x, &into->g, e);
}

static int put_table(struct arrival *a, struct arriving *into, struct err *e)
{
    struct table_head h;
    const void *from = stream_take(&a->x, 1, sizeof(h));
    if (from == NULL)
        return stream_damaged(e);
    memcpy(&h, from, sizeof(h));
    TRY(find_or_make(a, &h, into, e));
    into->fixed_keys = h.fixed_keys != 0;
    for (struct arriving *before = a->tables; before < into; before++)
        if (before->t == into->t)
            return stream_damaged(e); // a table comes once
    const void *rows = stream_take(&a->x, h.rows, 1);
    if (rows == NULL)
        return stream_damaged(e);
    tables_limit(a->s, into->t);
    TRY(parcel_put(into->t->store, a->partition, rows, h.rows, e));
    into->put = true;
    TRY(put_clocks(a, into, e));
    tables_measure(a->s, into->t);
    return 0;
}

static int read_head(struct arrival *a, struct parcel_head *head, struct err *e)
{
    const void *from = stream_take(&a->x, 1, sizeof(*head));
    if (from == NULL)
        return stream_damaged(e);
    memcpy(head, from, sizeof(*head));
    if (head->format != PARCEL_FORMAT || head->space != a->space ||
        head->partition != a->partition || head->bits != a->s->bits ||
        head->tables > SPEC_MAX_TABLES ||
        head->hash != hash_bytes(a->x.bytes + a->x.at, a->x.n - a->x.at, 0))
        return stream_damaged(e);
    return 0;
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

static int put_all(struct arrival *a, struct err *e)
{
    struct parcel_head head;
    struct shard *s = a->s;
    TRY(partition_fits(s, a->x.n, e));
    TRY(read_head(a, &head, e));
    TRY(retries_put(s->applied, a->partition, a->space, &a->x, e));
    TRY(step_clock_put(&s->steps, member_roster(s->member), &a->x, e));
    a->tables = mem_zalloc((head.tables + 1) * sizeof(*a->tables));
    if (a->tables == NULL)
        return err_nomem(e, "a partition");
    while (a->n < head.tables) {
        a->n++;
        TRY(put_table(a, &a->tables[a->n - 1], e));
    }
    return a->x.at == a->x.n ? 0 : stream_damaged(e);
}

static void undo(struct arrival *a)
{
    for (uint32_t i = a->n; i-- > 0;) {
        struct arriving *x = &a->tables[i];
        sync_group_free(a->s, x->g);
        if (x->made)
            tables_remove(a->s, x->t);
        else if (x->put) // reading cold rows' places cannot fail: they were just written
            (void)store_drop(x->t->store, a->partition, NULL);
        if (!x->made && x->put)
            tables_measure(a->s, x->t);
    }
}

static bool has_arrived(const struct arrival *a, const struct shard_table *t)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->tables[i].t == t)
            return true;
    return false;
}

static bool has_some(const struct shard *s, enum wire_space space)
{
    for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++)
        if (roles_of(&s->roles, space, p) != ROLE_AWAY)
            return true;
    return false;
}

// A table that did not come is either dropped, or made here and not at the other shard yet,
// and then has no rows there.
static void settle_other(struct arrival *a, struct shard_table *t, bool alone)
{
    if (alone && background_free(t)) {
        tables_remove(a->s, t);
        return;
    }
    store_set_owned(t->store, a->partition, true);
    (void)sync_own(a->s, t); // sync_push tries again
    t->changed_at[a->partition] = ++t->version;
}

static void settle(struct arrival *a)
{
    struct shard *s = a->s;
    bool alone = !has_some(s, a->space);
    roles_set(&s->roles, a->space, a->partition, ROLE_HERE);
    roles_count(&s->roles, member_roster(s->member), member_id(s->member));
    for (uint32_t i = 0; i < a->n; i++) {
        struct shard_table *t = a->tables[i].t;
        t->fixed_keys |= a->tables[i].fixed_keys;
        if (a->tables[i].g != NULL) {
            sync_arrive(s, t, a->tables[i].g);
            background_again(s, t->spec.id); // its batches may be complete
        }
        t->changed_at[a->partition] = ++t->version;
    }
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (is_of(s->tables[i], a->space) && !has_arrived(a, s->tables[i]))
            settle_other(a, s->tables[i], alone);
    tables_set_step(s);
    pending_wake(s, WANTS_MOVE);
    pending_wake(s, WANTS_TICK);
}

int partition_put(struct shard *s, enum wire_space space, uint32_t partition,
                  const void *bytes, size_t n, struct err *e)
{
    struct arrival a = {
        .s = s, .space = space, .partition = partition, .x = {bytes, n, 0}};
    assert((uintptr_t)bytes % STREAM_ALIGN == 0);
    assert(roles_of(&s->roles, space, partition) == ROLE_AWAY);
    int rc = put_all(&a, e);
    if (rc == 0)
        settle(&a);
    else
        undo(&a);
    mem_free(a.tables);
    return rc;
}

// ---------------------------------------------------------------- dropping

int partition_drop(struct shard *s, enum wire_space space, uint32_t partition,
                   struct err *e)
{
    for (uint32_t i = 0; i < s->n_tables; i++) {
        struct shard_table *t = s->tables[i];
        if (!is_of(t, space) || !store_owns(t->store, partition))
            continue;
        TRY(store_drop(t->store, partition, e));
        if (t->spec.mode == WIRE_SYNC)
            sync_leave(s, t, partition);
        t->changed_at[partition] = ++t->version;
        tables_measure(s, t);
    }
    roles_set(&s->roles, space, partition, ROLE_AWAY);
    roles_count(&s->roles, member_roster(s->member), member_id(s->member));
    pending_wake(s, WANTS_MOVE);
    pending_wake(s, WANTS_BATCH);
    return 0;
}
