// Removes partitions from a shard: those that have moved to another shard, and those
// whose move to this shard was given up.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/pending.h"
#include "server/clocks/sync_group.h"
#include "server/moves/partition.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "store/parcel.h"

// If rows cannot be removed because a save reads them or memory is out, the shard tries
// again after this pause.
#define RETRY_NS (SECOND_NS / 100)

// Removes the open batches and other state that a table still has for a partition
// whose rows were removed.
static void forget_table(struct shard *s, struct shard_table *t, uint32_t partition)
{
    if (t->spec.mode == WIRE_SYNC)
        sync_leave(s, t, partition);
    t->changed_at[partition] = ++t->version;
    tables_measure(s, t);
}

// Pushes and operations that only this shard had are lost, and will be repeated.
static void forget_requests(struct shard *s, enum wire_space space, uint32_t partition)
{
    admin_drop(&s->admin, space, partition);
    retries_drop(s->applied, partition, space);
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (s->tables[i] != NULL && s->tables[i]->applied != NULL)
            retries_drop(s->tables[i]->applied, partition, space);
}

// Removes about `rows` rows of a partition. Sets *ret_left to whether rows are left; if
// not, all other state of the partition was removed as well.
static int drop_some(struct shard *s, enum wire_space space, uint32_t partition,
                     uint32_t rows, bool *ret_left, struct err *e)
{
    *ret_left = true;
    for (uint32_t i = 0; i < s->n_tables; i++) {
        struct shard_table *t = s->tables[i];
        bool left;
        if (t == NULL || t->spec.space != space)
            continue;
        if (!store_owns(t->store, partition)) {
            // If an operation has replaced the rows of an incomplete partition,
            // its group is still here.
            if (t->groups != NULL && t->groups[partition] != NULL)
                sync_leave(s, t, partition);
            continue;
        }
        TRY(store_drop_some(t->store, partition, rows, &left, e));
        if (left)
            return 0;
        forget_table(s, t, partition);
    }
    *ret_left = false;
    if (s->chain != NULL)
        forget_requests(s, space, partition);
    roles_set(&s->roles, space, partition, ROLE_AWAY);
    roles_count(&s->roles, member_roster(s->member), member_id(s->member));
    pending_wake(s, WANTS_MOVE);
    pending_wake(s, WANTS_BATCH);
    return 0;
}

uint64_t partition_drop_slice(struct shard *s, enum wire_space space, uint32_t partition)
{
    uint64_t begun = moves_slice_begin(s), later = s->now + RETRY_NS;
    struct err e;
    bool left = true;
    if (!partition_is_apart(s, space, partition))
        return later;
    while (left) {
        if (drop_some(s, space, partition, MOVES_DROP_ROWS, &left, &e) != 0)
            return later;
        if (left && moves_slice_over(s, begun))
            return moves_slice_end(s, begun, MOVES_REST);
    }
    return VAN_NEVER;
}

int partition_drop(struct shard *s, enum wire_space space, uint32_t partition,
                   struct err *e)
{
    enum { MANY = 1 << 20 };
    bool left = true;
    while (left)
        TRY(drop_some(s, space, partition, MANY, &left, e));
    return 0;
}
