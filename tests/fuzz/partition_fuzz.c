// Any bytes as a partition that arrives at a shard are refused, with no table and no row
// left, or are installed; then the partition moves on to another shard with the same bytes
// twice. The hash of each input is corrected first, as a forger would do it.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "kit/lone_shard.h"
#include "server/moves/parcel.h"

enum { BITS = 3, PARTITION = 2, HEAD = 6 * sizeof(uint64_t) };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static struct lone *open_empty(void)
{
    static const struct shard_options plain;
    struct lone *w = lone_open_shard(BITS, &plain);
    memset(w->mine, 0, sizeof(w->mine));
    w->epoch = 1;
    lone_send_roster(w);
    return w;
}

static int put(struct lone *w, const void *bytes, size_t n, struct err *e)
{
    return partition_put(w->shard, WIRE_SPACE_SPARSE, PARTITION, bytes, n, e);
}

static void check_moves_on(struct lone *a)
{
    struct lone *b = open_empty();
    struct buf x = BUF_INIT(1 << 26), y = BUF_INIT(1 << 26);
    struct err e;
    require(partition_get(a->shard, WIRE_SPACE_SPARSE, PARTITION, &x, &e) == 0);
    require(put(b, x.data, x.len, &e) == 0);
    require(partition_get(b->shard, WIRE_SPACE_SPARSE, PARTITION, &y, &e) == 0);
    require(x.len == y.len); // the order of pushes of pieces may differ
    require(partition_drop(b->shard, WIRE_SPACE_SPARSE, PARTITION, &e) == 0);
    buf_free(&x);
    buf_free(&y);
    b->live = SIZE_MAX;
    lone_close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lone *w = open_empty();
    struct err e = {0};
    char *bytes = mem_alloc(size + 1);
    require(bytes != NULL);
    memcpy(bytes, data, size);
    if (size > HEAD) {
        uint64_t hash = hash_bytes(bytes + HEAD, size - HEAD, 0);
        memcpy(bytes + HEAD - sizeof(hash), &hash, sizeof(hash));
    }
    int rc = put(w, bytes, size, &e);
    require(rc == 0 || e.text[0] != '\0');
    if (rc == 0)
        check_moves_on(w);
    for (uint32_t i = 0; i < w->shard->n_tables && rc != 0; i++)
        require(w->shard->tables[i] == NULL);
    mem_free(bytes);
    lone_close(w);
    return 0;
}
