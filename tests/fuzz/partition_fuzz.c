// Any bytes as a partition that arrives at a shard are refused, with no row left, or are
// installed; then the partition moves on to another shard with the same bytes
// twice. The hashes of each input are corrected first, as a forger would do it.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "kit/lone_shard.h"
#include "server/moves/partition.h"

enum { BITS = 3, PARTITION = 2, HEAD = 7, N = 5 };

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
    size_t used;
    bool settled;
    int rc = partition_put(w->shard, WIRE_SPACE_SPARSE, PARTITION, bytes, n, &used,
                           &settled, e);
    require(used <= n && (!settled || rc == 0));
    if (rc == 0 && settled)
        return 0;
    require(partition_drop(w->shard, WIRE_SPACE_SPARSE, PARTITION, NULL) == 0);
    return rc == 0 ? err_set(e, TUG_EDATA, "too short") : rc;
}

static void get(struct lone *w, struct buf *to)
{
    struct err e;
    require(partition_get_rows(w->shard, WIRE_SPACE_SPARSE, PARTITION, to, &e) == 0);
    require(partition_get_facts(w->shard, WIRE_SPACE_SPARSE, PARTITION, to, &e) == 0);
}

static void check_moves_on(struct lone *a)
{
    struct lone *b = open_empty();
    struct buf x = BUF_INIT(1 << 26), y = BUF_INIT(1 << 26);
    struct err e;
    get(a, &x);
    require(put(b, x.data, x.len, &e) == 0);
    get(b, &y);
    // Compares only lengths, because the order of the pushes in the lists may differ.
    require(x.len == y.len);
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
    uint64_t h[HEAD];
    for (size_t at = 0; size - at >= sizeof(h); at += sizeof(h) + h[N]) {
        memcpy(h, bytes + at, sizeof(h));
        if (h[N] > size - at - sizeof(h))
            break;
        h[N + 1] = hash_bytes(bytes + at + sizeof(h), h[N], 0);
        memcpy(bytes + at, h, sizeof(h));
    }
    int rc = put(w, bytes, size, &e);
    require(rc == 0 || e.text[0] != '\0');
    if (rc == 0)
        check_moves_on(w);
    for (uint32_t i = 0; i < w->shard->n_tables && rc != 0; i++)
        require(w->shard->tables[i] == NULL ||
                store_stats(w->shard->tables[i]->store).rows == 0);
    mem_free(bytes);
    lone_close(w);
    return 0;
}
