// See copies.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/rows/copies.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/background.h"
#include "server/chain/chain.h"
#include "server/clocks/sync.h"
#include "server/clocks/sync_backup.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// Checks that rows of table `from` can be copied into table `to`; the names and modes of
// the tables, and their numbers of replicas, may differ.
static int check_copy(const struct table_spec *from, const struct table_spec *to,
                      struct err *e)
{
    struct table_spec same = *to;
    memcpy(same.config.name, from->config.name, sizeof(same.config.name));
    same.config.mode = from->config.mode;
    same.config.staleness = from->config.staleness;
    same.config.mean = from->config.mean;
    same.config.replicas = from->config.replicas;
    const char *difference = spec_difference(from, &same);
    if (difference == NULL)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "table '%s' cannot become a copy of '%s': it differs in its %s",
                   to->config.name, from->config.name, difference);
}

int copies_spec(const struct table_spec *from, uint32_t other, struct table_spec *ret,
                struct err *e)
{
    struct table_config config = from->config;
    if (other == from->id)
        return err_set(e, TUG_EUSAGE, "table '%s' cannot be copied onto itself",
                       config.name);
    snprintf(config.name, sizeof(config.name), "%.58s-copy", from->config.name);
    config.mode = CONFIG_ASYNC;
    config.staleness = 0;
    config.mean = false;
    return spec_make(ret, other, &config, e);
}

// Backups do not have the rows of an unbacked table, so they cannot copy them.
static int check_backups(const struct shard_table *t, const struct shard_table *to,
                         struct err *e)
{
    if (!t->unbacked || to->unbacked)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "table '%s', which has one replica, cannot be copied into table '%s', "
                   "which has more; give both replicas = 1",
                   t->spec.config.name, to->spec.config.name);
}

// Gets the table into which table t is copied, and makes it if it is missing.
static int copy_into(struct shard *s, const struct shard_table *t, uint32_t other,
                     struct shard_table **ret, struct err *e)
{
    struct table_spec spec;
    TRY(copies_spec(&t->spec, other, &spec, e));
    *ret = s->tables[other];
    if (*ret != NULL) {
        TRY(check_copy(&t->spec, &(*ret)->spec, e));
        return check_backups(t, *ret, e);
    }
    return tables_make_new(s, &spec, ret, e);
}

static struct shard_table *find(const struct shard *s, uint32_t table)
{
    return table < SPEC_MAX_TABLES ? s->tables[table] : NULL;
}

// Checks that table t can be copied, and that a copy has room when the memory of `former` is
// free.
static int check_room(const struct shard *s, const struct shard_table *t,
                      const struct shard_table *former, struct err *e)
{
    uint64_t others = s->bytes - (former != NULL ? former->bytes : 0);
    if (s->o.max_bytes != 0 && others + t->bytes > s->o.max_bytes)
        return err_set(e, TUG_ENOMEM,
                       "no room for a copy of table '%s', which takes %llu bytes: rows "
                       "take %llu of %llu bytes; give the server more with --memory",
                       t->spec.config.name, (unsigned long long)t->bytes,
                       (unsigned long long)others, (unsigned long long)s->o.max_bytes);
    if (t->spec.config.cold[0] != '\0')
        return err_set(e, TUG_EUSAGE, "table '%s' has rows on disk and cannot be copied",
                       t->spec.config.name);
    return 0;
}

static int copy(struct shard *s, struct shard_table *t, uint32_t other, struct err *e)
{
    struct shard_table *to;
    struct store *rows;
    TRY(check_room(s, t, NULL, e));
    TRY(copy_into(s, t, other, &to, e));
    assert(background_free(to)); // table_do_serve has waited for that
    TRY(tables_open_store(s, to, &rows, e));
    int rc = store_copy(rows, t->store, e);
    if (rc != 0) {
        store_close(rows);
        return rc;
    }
    assert(to != t);
    sync_restart(s, to);
    store_close(to->store);
    to->store = rows;
    tables_touch_all(s, to);
    tables_measure(s, to);
    return 0;
}

static int check_share(const struct shard_table *t, const struct msg_table_do *m,
                       struct err *e)
{
    if (m->what == WIRE_COPY || (m->threshold >= 0 && m->threshold <= 1))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "the mean of table '%s': its share must be between 0 and 1",
                   t->spec.config.name);
}

// Returns whether the operation copies rows. The first mean does, too.
static bool is_copy(const struct shard *s, const struct msg_table_do *m)
{
    return m->what == WIRE_COPY || find(s, m->other) == NULL ||
           m->threshold == 1; // NOLINT: exact
}

// ---------------------------------------------------------------- with replicas

int copies_check(const struct shard *s, const struct shard_table *t,
                 const struct msg_table_do *m, struct table_spec *ret, struct err *e)
{
    TRY(check_share(t, m, e));
    TRY(check_room(s, t, NULL, e));
    return copies_spec(&t->spec, m->other, ret, e);
}

static const char refill[128] = "memory was out at its primary in a copy of a table";

// Returns 0; TUG_EUSAGE if the rows have no mean, after which nothing has changed; or
// another error.
static int do_in(struct shard_table *t, struct shard_table *to,
                 const struct msg_table_do *m, uint32_t p, uint64_t step, struct err *e)
{
    int rc = m->what == WIRE_COPY
                 ? store_copy_partition(to->store, t->store, p, step, e)
                 : store_mean_partition(to->store, t->store, p, m->threshold, e);
    to->changed_at[p] = ++to->version;
    return rc;
}

static int lead(struct shard *s, struct shard_table *t, const struct msg_table_do *m,
                struct err *e)
{
    const uint32_t *left = s->chain->left, n = s->chain->n_left;
    uint32_t done = 0;
    struct msg_table_do as = *m;
    struct shard_table *to;
    as.what = is_copy(s, m) ? WIRE_COPY : WIRE_MEAN;
    if (as.what == WIRE_COPY)
        TRY(check_room(s, t, find(s, m->other), e));
    TRY(copy_into(s, t, m->other, &to, e));
    assert(background_free(to));
    // A partition is in the record of the operation or in that of the failure.
    TRY(chain_reserve_places(s, t->spec.space, left, n, sizeof(refill), e));
    tables_limit(s, to);
    tables_restart(s, to, NULL);
    int rc = 0;
    while (done < n && rc == 0) {
        rc = do_in(t, to, &as, left[done], store_step_of(t->store), e);
        done += rc == 0;
    }
    if (done > 0)
        chain_note_operation(s, t, &as, left, done);
    if (rc != 0 && rc != TUG_EUSAGE)
        chain_note_places(s, RECORD_REFILL, t->spec.space, &left[done], 1, refill,
                          sizeof(refill));
    tables_measure(s, to);
    return rc;
}

int copies_do(struct shard *s, struct shard_table *t, const struct msg_table_do *m,
              struct err *e)
{
    struct shard_table *to;
    TRY(check_share(t, m, e));
    if (s->chain != NULL)
        return lead(s, t, m, e);
    if (is_copy(s, m))
        return copy(s, t, m->other, e);
    TRY(copy_into(s, t, m->other, &to, e));
    assert(background_free(to));
    sync_restart(s, to);
    int rc = store_mean(to->store, t->store, m->threshold, e);
    tables_touch_all(s, to);
    tables_measure(s, to);
    return rc;
}

// A mean that was done in part must not be done again.
int copies_back_up(struct shard *s, struct shard_table *t, const struct msg_table_do *m,
                   uint32_t partition, uint64_t step, struct err *e)
{
    struct shard_table *to = find(s, m->other);
    // A client or another member has told this shard that the copy was dropped, and the
    // sender does not know it yet.
    if (to == NULL && m->other < SPEC_MAX_TABLES && s->chain->drops[m->other] > 0)
        return 0;
    if (to == NULL || to == t || check_copy(&t->spec, &to->spec, NULL) != 0 ||
        check_backups(t, to, NULL) != 0 || check_share(t, m, NULL) != 0)
        return stream_damaged(e);
    if (to->spec.mode == WIRE_SYNC)
        TRY(sync_backup_restart(s, to, partition, NULL, e));
    if (to->unbacked)
        return 0;
    tables_limit(s, to);
    int rc = do_in(t, to, m, partition, step, e);
    if (rc == 0 || m->what != WIRE_MEAN)
        return rc;
    if (e != NULL) {
        e->code = TUG_EINTERRUPTED;
        e->reason = REASON_NO_ROOM;
    }
    return TUG_EINTERRUPTED;
}
