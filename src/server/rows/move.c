// Moves a partition to another shard, with the record of the pushes to it. So far only
// tests and the simulator move partitions, as servers cannot join or leave during a run
// yet.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/background.h"
#include "server/clocks/pending.h"
#include "server/clocks/sync_sum.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

static int check_table(const struct shard *to, const struct shard_table *t, struct err *e)
{
    struct shard_table *x = tables_find(to, t->spec.id, e);
    if (x == NULL)
        return TUG_EUSAGE;
    if (!spec_same(&x->spec, &t->spec))
        return err_set(e, TUG_EUSAGE, "table %u differs between the two servers",
                       t->spec.id);
    if (!background_free(t) || !background_free(x))
        return err_set(e, TUG_EUSAGE,
                       "table '%s' can't be moved while it is being saved or cleared",
                       t->spec.config.name);
    return 0;
}

static int move_table(struct shard *from, struct shard_table *t, struct shard *to,
                      uint32_t partition, struct err *e)
{
    struct shard_table *x = to->tables[t->spec.id];
    assert(background_free(t) &&
           background_free(x)); // check_table has checked all tables before
    struct sync_group *g = NULL;
    if (t->spec.mode == WIRE_SYNC) {
        TRY(sync_group_reserve(to, x, e));
        TRY(sync_group_copy(t, partition, to, &g, e));
    }
    int rc = g == NULL || sync_reserve_group(to, x, g) == 0 ? 0 : err_nomem(e, "a batch");
    if (rc == 0)
        rc = store_move(x->store, t->store, partition, e);
    if (rc != 0) {
        sync_group_free(to, g);
        return rc;
    }
    x->fixed_keys |= t->fixed_keys;
    if (g != NULL) {
        sync_leave(from, t, partition);
        sync_arrive(to, x, g);
        background_again(to, x->spec.id); // its batches may be complete
        pending_wake(from, WANTS_BATCH);  // requests for its batches
    }
    t->changed_at[partition] = ++t->version;
    x->changed_at[partition] = ++x->version;
    tables_measure(from, t);
    tables_measure(to, x);
    return 0;
}

static void set_role(struct shard *s, enum wire_space space, uint32_t partition,
                     enum role role)
{
    roles_set(&s->roles, space, partition, role);
    roles_count(&s->roles, member_roster(s->member), member_id(s->member));
    pending_wake(s, WANTS_MOVE);
    background_wake(s); // calls pending_settle soon
}

int shard_move(struct shard *from, struct shard *to, uint32_t partition,
               enum wire_space space, struct err *e)
{
    if (!from->ready || !to->ready || from->bits != to->bits ||
        (partition >> from->bits) != 0)
        return err_set(e, TUG_EUSAGE, "partition %u can't be moved between these nodes",
                       partition);
    for (uint32_t i = 0; i < from->n_tables; i++)
        if (from->tables[i] != NULL && from->tables[i]->spec.space == space)
            TRY(check_table(to, from->tables[i], e));
    TRY(retries_move(from->applied, to->applied, partition, space, e));
    for (uint32_t i = 0; i < from->n_tables; i++)
        if (from->tables[i] != NULL && from->tables[i]->spec.space == space &&
            from->tables[i]->applied != NULL)
            TRY(retries_move(from->tables[i]->applied, to->tables[i]->applied, partition,
                             space, e));
    for (uint32_t i = 0; i < from->n_tables; i++)
        if (from->tables[i] != NULL && from->tables[i]->spec.space == space)
            TRY(move_table(from, from->tables[i], to, partition, e));
    set_role(from, space, partition, ROLE_AWAY);
    set_role(to, space, partition, ROLE_HERE);
    return 0;
}
