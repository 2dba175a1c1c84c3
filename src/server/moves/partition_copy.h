// A partition that is copied in slices while it is served: the records of its tables,
// and records of the pushes that are served meanwhile. These records have only the rows
// that were copied already.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_MOVES_PARTITION_COPY_H
#define TUG_SERVER_MOVES_PARTITION_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/wire.h"

struct buf;
struct partition_copy;
struct shard;
struct shard_table;
struct store_push;

// partition_copy_open begins a copy and appends its first record to *to.
// partition_copy_next appends a slice of the rows. Both need a free partition
// (partition_is_free), and return 0, or an error after which the copy must be closed.
int partition_copy_open(struct partition_copy **ret, struct shard *s,
                        enum wire_space space, uint32_t partition, struct buf *to,
                        struct err *e);
int partition_copy_next(struct partition_copy *c, struct buf *to, struct err *e);
// Returns whether all tables were copied.
bool partition_copy_done(const struct partition_copy *c);
// Returns about how many bytes are still to be copied; 0 if c is NULL.
uint64_t partition_copy_left(const struct partition_copy *c);
void partition_copy_close(struct partition_copy *c); // NULL is fine
// Called when keys [first, first + n) of a push, all of this partition, were applied:
// appends records of the effects on rows that were copied. n may be 0.
int partition_copy_push(struct partition_copy *c, const struct shard_table *t,
                        const struct store_push *p, size_t first, size_t n,
                        struct buf *to, struct err *e);

#endif
