// Adds up the contributions to a batch and pushes the sums to a store.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CLOCKS_SYNC_SUM_H
#define TUG_SERVER_CLOCKS_SYNC_SUM_H

#include "protocol/keys.h"

struct shard;
struct shard_table;
struct msg_push;
struct sync_batch;
struct sync_group;
struct sync_scratch;

// The owner's decisions about a batch at a backup: for each of the partition's n keys, in
// ascending order, whether it has a row (store_push.has_row). A NULL pointer means that
// there are no decisions.
struct sync_decided {
    const uint8_t *has_row;
    size_t n;
};

// Applies the group's next batch, which must be complete, to the store, and appends records
// for backups. On failure t->stuck has the reason, and the next call continues with the
// partitions that have not applied the batch. `decided` is NULL for a group that is not a
// backup.
int sync_apply_batch(struct shard *s, struct shard_table *t, struct sync_group *g,
                     const struct sync_decided *decided);
// Reserves the memory to add up the batch of the push m; k are the keys of the push.
int sync_reserve(struct shard *s, const struct shard_table *t, const struct sync_group *g,
                 const struct msg_push *m, const struct keys *k);
// Reserves memory to add up the open batches of a group that arrives with a partition.
int sync_reserve_group(struct shard *s, const struct shard_table *t,
                       const struct sync_group *g);
uint64_t sync_examples(const struct sync_batch *b);
void sync_scratch_free(struct sync_scratch *x); // NULL is fine

#endif
