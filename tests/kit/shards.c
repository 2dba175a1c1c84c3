// See shards.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/shards.h"

#include "base/buf.h"
#include "server/moves/partition.h"
#include "server/moves/partition_copy.h"
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

// Appends all records of a partition, as its owner sends them.
static int copy(struct shard *from, uint32_t partition, struct buf *to, struct err *e)
{
    struct partition_copy *c;
    int rc = partition_copy_open(&c, from, WIRE_SPACE_SPARSE, partition, to, e);
    while (rc == 0 && !partition_copy_done(c))
        rc = partition_copy_next(c, to, e);
    partition_copy_close(c);
    return rc != 0 ? rc : partition_get_facts(from, WIRE_SPACE_SPARSE, partition, to, e);
}

int shards_move(struct shard *from, struct shard *to, uint32_t partition, struct err *e)
{
    struct buf bytes = BUF_INIT(SIZE_MAX / 2);
    size_t used = 0;
    bool settled = false;
    int rc = copy(from, partition, &bytes, e);
    if (rc == 0)
        rc = partition_put(to, WIRE_SPACE_SPARSE, partition, bytes.data, bytes.len, &used,
                           &settled, e);
    if (rc == 0 && (!settled || used != bytes.len))
        rc = err_set(e, TUG_EDATA,
                     "the records of partition %u end too early or too late", partition);
    buf_free(&bytes);
    return rc != 0 ? rc : partition_drop(from, WIRE_SPACE_SPARSE, partition, e);
}
