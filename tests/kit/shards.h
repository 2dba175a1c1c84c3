// The contents of a shard, for comparison.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SHARDS_H
#define TUG_KIT_SHARDS_H

#include "server/shard.h"

// These functions return a table, and the row of a key in a table; NULL if the table or
// the row does not exist.
struct store *shards_store(const struct shard *s, uint32_t table);
const float *shards_row(const struct shard *s, uint32_t table, uint64_t key);

// Moves a partition of tables by hash to another shard of the same process. Uses the
// records that servers send when they move a partition. Returns the status of the first
// step that fails.
int shards_move(struct shard *from, struct shard *to, uint32_t partition, struct err *e);

#endif
