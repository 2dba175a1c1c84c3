// The cold tier: rows of a table on disk, in RocksDB, for tables larger than memory.
//
// A map from (partition, key) to bytes, read and written in batches. A partition is a
// number of 24 bits.
//
// The library is loaded when the first tier is opened (it brings the C++ runtime with
// it); without it TUG_EUSAGE says which package to install.
//
// A scratch tier is empty when it is opened and is removed when it is closed. A durable
// one can be opened again, also after a crash, with all rows of the last successful
// tier_flush. Its text `about` says whose rows it holds, and must be the same when it is
// opened again.
//
// A directory is locked while it is open. A directory with other files than a tier's is
// refused and left alone; a damaged database is refused by name.
//
// Threads: one at a time.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COLD_TIER_H
#define TUG_COLD_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tier_options {
    const char *dir; // made if missing
    bool durable;
    const char *about;    // durable: one line
    uint64_t cache_bytes; // RocksDB's cache, at least 1 MiB; 0: 64 MiB. See
                          // tier_memory
    uint32_t row_bytes;   // the most that a row takes
};

struct tier;
int tier_open(struct tier **ret, const struct tier_options *o, struct err *e);
void tier_close(struct tier *t); // NULL is fine

// Gets the rows of n keys of one or more partitions: found[i] is 1 and rows[i] points at
// sizes[i] bytes until the next get, or found[i] is 0. Changes that were not written yet
// are ignored.
int tier_get(struct tier *t, const uint32_t *partitions, const uint64_t *keys, size_t n,
             uint8_t *found, const void **rows, uint32_t *sizes, struct err *e);

// Changes, which tier_write makes together: all or none.
int tier_put(struct tier *t, uint32_t partition, uint64_t key, const void *row,
             uint32_t size, struct err *e);
int tier_delete(struct tier *t, uint32_t partition, uint64_t key, struct err *e);
int tier_write(struct tier *t, struct err *e);
void tier_drop(struct tier *t); // changes that were not written

// Calls `row` for all rows of a partition by ascending key, without unwritten changes;
// non-zero stops. `row` may put and delete.
typedef int (*tier_row_fn)(void *ctx, uint64_t key, const void *row, uint32_t size,
                           struct err *e);
int tier_each(struct tier *t, uint32_t partition, uint64_t from, tier_row_fn row,
              void *ctx, struct err *e);
// Writes the changes and the removal of all rows of a partition, together.
int tier_clear(struct tier *t, uint32_t partition, struct err *e);
int tier_flush(struct tier *t, struct err *e); // to disk

// Returns how much memory RocksDB may take with so many rows: its cache, write buffers of
// the same size together, and filters and indexes of 1.5 bytes a row.
uint64_t tier_memory(const struct tier *t, uint64_t rows);

#endif
