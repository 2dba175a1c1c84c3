// All that a shard has of one partition of a space, as bytes: the settings of the space's
// tables, and of each table its rows (store/parcel.h), ticks, and parts of batches; the
// pushes that were applied in the partition, and the steps of sessions. With these bytes
// another shard serves the partition as this one did.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_MOVES_PARCEL_H
#define TUG_SERVER_MOVES_PARCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/wire.h"

struct buf;
struct shard;

// Returns whether no admin operation and no save is under way in a table of this space,
// as the following functions need.
bool partition_is_free(const struct shard *s, enum wire_space space);

// Appends the bytes of a partition whose rows are here. The length of *to must be a
// multiple of 8, as it is afterwards. Returns 0, TUG_ENOMEM, TUG_EIO (cold rows) or
// TUG_EDATA (*to would exceed its maximum).
int partition_get(struct shard *s, enum wire_space space, uint32_t partition,
                  struct buf *to, struct err *e);

// Checks that rows of n more bytes are within the limit of the shard (--memory). Returns 0
// or TUG_ENOMEM.
int partition_fits(const struct shard *s, uint64_t n, struct err *e);

// Installs a partition whose rows are not here, from n bytes that start at a multiple of
// 8. Nothing in them is believed. Tables that are missing are made; if no partition of the
// space was here, tables that the other shard does not have are removed. On failure nothing
// has changed but facts that are true anyway: marks of sessions, ticks, steps.
int partition_put(struct shard *s, enum wire_space space, uint32_t partition,
                  const void *bytes, size_t n, struct err *e);

// Removes all that is here of a partition.
int partition_drop(struct shard *s, enum wire_space space, uint32_t partition,
                   struct err *e);

#endif
