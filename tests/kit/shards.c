// See shards.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/shards.h"

#include "server/rows/tables.h"

struct store *shards_store(const struct shard *s, uint32_t table)
{
    struct shard_table *t = tables_find(s, table, NULL);
    return t != NULL ? t->store : NULL;
}

const float *shards_row(const struct shard *s, uint32_t table, uint64_t key)
{
    struct store *of = shards_store(s, table);
    return of != NULL ? store_row(of, key, NULL) : NULL;
}
