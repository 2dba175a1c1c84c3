// Records the parts of batches that have arrived in a partition of a sync table.
//
// Each partition has its own record of the parts that have arrived: a batch is applied in
// a partition when all its micro-batches have arrived there. The record moves with the
// partition. Partitions of a loop that have received the same parts are one group with
// one clock, so a push marks all of them at once, also those without its keys. A
// partition that has moved here has a group of its own until it has received the same
// parts as the common group. It has done so when the batches that were open at its
// arrival are complete.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CLOCKS_SYNC_GROUP_H
#define TUG_SERVER_CLOCKS_SYNC_GROUP_H

#include "server/clocks/sync_clock.h"
#include "server/rows/previous.h"

struct buf;
struct keys;
struct shard;
struct shard_table;
struct stream;

struct sync_group {
    struct sync_clock clock;
    struct previous before; // copies of rows as they were before a batch
    uint32_t partition;     // the partition, if the group has only one
    // Whether the next batch was tried. If so, `before` has the rows as they were before
    // that batch; if not, as they were before the last applied batch.
    bool begun;
    // Whether a part of a batch has arrived. For a table with fixed_keys: whether its
    // partitions have some of the keys that all pushes have.
    bool told;
    // The rows of the partition are here, but by this shard's roster the partition
    // belongs to another shard, because it has just arrived or is about to leave.
    // Pushes with the epoch of this roster have no part for the partition. In the
    // opposite case (the partition belongs to this shard, but its rows are not here)
    // pushes wait (moves/roles.h).
    bool away;
    // The group is away, and partitions have replicas: the owner's records say what
    // happens to its batches (sync_backup.h).
    bool backup;
    bool takes; // scratch: the group takes the part that has arrived
    struct sync_group *next;
};

// Returns whether pushes of a table with fixed_keys have keys of this partition.
bool sync_has_keys(const struct shard_table *t, uint32_t partition);
// Returns whether no batch needs the group now: it is away, or all pushes of
// the table have the same keys (WIRE_KEYS_ONLY) and none of these keys is in
// the group's partitions.
bool sync_is_idle(const struct shard_table *t, const struct sync_group *g);
// Returns whether the keys k of a push or a pull include keys of the group.
bool sync_has_runs(const struct shard_table *t, const struct sync_group *g,
                   const struct keys *k);
// These functions return the number of the next batch in the partition that is furthest
// behind, or furthest ahead. For a shard without partitions, for which no batch waits,
// sync_least returns UINT64_MAX.
uint64_t sync_least(const struct shard_table *t);
uint64_t sync_most(const struct shard_table *t);
bool sync_is_ahead(const struct shard_table *t, uint64_t clock);

// sync_group_get appends the open batches of a partition, with all their parts, to *to.
// sync_group_put makes a group from these bytes for the table of another shard.
// sync_group_put returns 0, TUG_EDATA, TUG_ENOMEM or TUG_EIO (no room), and reserves
// memory to add up the batches (sync_group_move.c).
int sync_group_get(const struct shard_table *t, uint32_t partition, struct buf *to);
int sync_group_put(struct shard *s, struct shard_table *t, uint32_t partition,
                   struct stream *x, struct sync_group **ret, struct err *e);
// Checks a part of a batch that another shard has sent, as a push with this part would be
// checked: n keys of the partition, and their values.
int sync_group_check_part(struct shard *s, const struct shard_table *t,
                          uint32_t partition, float rate, float pass,
                          const uint64_t *keys, const float *values, uint32_t n,
                          struct err *e);
void sync_group_free(struct shard *s, struct sync_group *g); // NULL is fine
// Reserves the memory that the table needs for the group of a partition that arrives.
int sync_group_reserve(struct shard *s, struct shard_table *t, struct err *e);
// Called when the rows of a partition have arrived, but not its parts of batches. Makes
// an empty group, which is `away` until the roster names this shard as the owner.
int sync_group_await(struct shard *s, struct shard_table *t, uint32_t partition,
                     struct err *e);
// sync_leave is called when a partition has left the table; sync_arrive is called when a
// partition has arrived with group g, which the table then owns. Before both calls, the
// store must have given up or received the rows of the partition.
void sync_leave(struct shard *s, struct shard_table *t, uint32_t partition);
void sync_arrive(struct shard *s, struct shard_table *t, struct sync_group *g);
// Called when the roster has changed. Partitions that have arrived may now belong to this
// shard; partitions that no longer belong to it get groups of their own. On TUG_ENOMEM
// t->sync_split stays set, and no part of a batch may be taken before the next call has
// succeeded.
int sync_own(struct shard *s, struct shard_table *t);
// Joins groups of single partitions that have the same parts as the common
// group to the common group.
void sync_join(struct shard *s, struct shard_table *t);

#endif
