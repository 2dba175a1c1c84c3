// The contents of a shard, for comparison.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SHARDS_H
#define TUG_KIT_SHARDS_H

#include "server/shard.h"

// shards_store returns a table, and shards_row a key's row in it; NULL if it does not
// exist.
struct store *shards_store(const struct shard *s, uint32_t table);
const float *shards_row(const struct shard *s, uint32_t table, uint64_t key);

#endif
