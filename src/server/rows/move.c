// Moves a partition between two shards of one process: for tests and the simulator.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/partition.h"
#include "server/shard_internal.h"

static int move(struct shard *from, struct shard *to, uint32_t partition,
                enum wire_space space, struct buf *bytes, struct err *e)
{
    size_t used;
    bool settled;
    TRY(partition_get_rows(from, space, partition, bytes, e));
    TRY(partition_get_facts(from, space, partition, bytes, e));
    TRY(partition_put(to, space, partition, bytes->data, bytes->len, &used, &settled, e));
    assert(settled && used == bytes->len);
    return partition_drop(from, space, partition, e);
}

int shard_move(struct shard *from, struct shard *to, uint32_t partition,
               enum wire_space space, struct err *e)
{
    struct buf bytes = BUF_INIT(SIZE_MAX / 2);
    if (!from->ready || !to->ready || from->bits != to->bits ||
        (partition >> from->bits) != 0 || !partition_is_free(from, space) ||
        !partition_is_free(to, space))
        return err_set(e, TUG_EUSAGE, "partition %u cannot be moved between these nodes",
                       partition);
    int rc = move(from, to, partition, space, &bytes, e);
    buf_free(&bytes);
    return rc;
}
