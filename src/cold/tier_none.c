// Replaces tier.c if RocksDB's header was missing when tug was built: opening a tier
// returns an error that says so.
//
// SPDX-License-Identifier: Apache-2.0
#include "cold/tier.h"

static int none(struct err *e)
{
    return err_set(e, TUG_EUSAGE,
                   "rows on disk need RocksDB, without which tug was built: install "
                   "librocksdb-dev and build again");
}

int tier_open(struct tier **ret, const struct tier_options *o, struct err *e)
{
    (void)o;
    *ret = NULL;
    return none(e);
}

void tier_close(struct tier *t)
{
    (void)t;
}

int tier_get(struct tier *t, const uint32_t *partitions, const uint64_t *keys, size_t n,
             uint8_t *found, const void **rows, uint32_t *sizes, struct err *e)
{
    (void)t, (void)partitions, (void)keys, (void)n, (void)found, (void)rows, (void)sizes;
    return none(e);
}

int tier_put(struct tier *t, uint32_t partition, uint64_t key, const void *row,
             uint32_t size, struct err *e)
{
    (void)t, (void)partition, (void)key, (void)row, (void)size;
    return none(e);
}

int tier_delete(struct tier *t, uint32_t partition, uint64_t key, struct err *e)
{
    (void)t, (void)partition, (void)key;
    return none(e);
}

int tier_write(struct tier *t, struct err *e)
{
    (void)t;
    return none(e);
}

void tier_drop(struct tier *t)
{
    (void)t;
}

int tier_each(struct tier *t, uint32_t partition, uint64_t from, tier_row_fn row,
              void *ctx, struct err *e)
{
    (void)t, (void)partition, (void)from, (void)row, (void)ctx;
    return none(e);
}

int tier_clear(struct tier *t, uint32_t partition, struct err *e)
{
    (void)t, (void)partition;
    return none(e);
}

int tier_flush(struct tier *t, struct err *e)
{
    (void)t;
    return none(e);
}

uint64_t tier_memory(const struct tier *t, uint64_t rows)
{
    (void)t, (void)rows;
    return 0;
}
