// Adds up the contributions to a batch and pushes the sums to a store.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SYNC_SUM_H
#define TUG_SERVER_SYNC_SUM_H

#include "protocol/keys.h"

struct shard;
struct shard_table;
struct sync_batch;
struct sync_scratch;

// Applies the next batch, which is complete, to the store. On failure t->stuck says why,
// and calling again goes on.
int sync_apply_batch(struct shard *s, struct shard_table *t);
// Memory to add up the batch of that clock when keys k are in, too.
int sync_reserve(struct shard *s, const struct shard_table *t, uint64_t clock,
                 const struct keys *k);
uint64_t sync_examples(const struct sync_batch *b);
void sync_scratch_free(struct sync_scratch *x); // NULL is fine

#endif
