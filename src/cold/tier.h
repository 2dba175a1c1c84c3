// The cold tier: rows of a table on disk, in RocksDB, for tables larger than memory.
//
// A tier is a map from (partition, key) to the bytes of a row, which is read and written
// in batches. A partition is a number of 24 bits.
//
// RocksDB is loaded when the first tier is opened; if it is missing, opening returns
// TUG_EUSAGE, and the sentence names the package to install.
//
// A scratch tier is empty when it is opened, and is removed when it is closed. A durable
// tier can be opened again, also after a crash, and then has all rows of the last
// successful tier_flush. The text `about` of a tier names the table and the server whose
// rows the tier holds. It must be the same when the tier is opened again.
//
// A directory is locked while its tier is open. A directory with files that are not a
// tier's is refused and left unchanged; a damaged database is refused, and the error
// names it.
//
// Threads: only one thread at a time may use a tier.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COLD_TIER_H
#define TUG_COLD_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tier_options {
    const char *dir; // the tier's directory; made if missing
    bool durable;
    const char *about;    // for a durable tier: one line of text
    uint64_t cache_bytes; // RocksDB's cache, at least 1 MiB; 0: 64 MiB. See
                          // tier_memory
    uint32_t row_bytes;   // the largest size of a row
};

struct tier;
int tier_open(struct tier **ret, const struct tier_options *o, struct err *e);
void tier_close(struct tier *t); // NULL is fine

// Gets the rows of n keys of one or more partitions. If key i has a row, found[i] is 1
// and rows[i] points at its sizes[i] bytes, which are valid until the next tier_get; else
// found[i] is 0. Changes that tier_write has not written yet are ignored.
int tier_get(struct tier *t, const uint32_t *partitions, const uint64_t *keys, size_t n,
             uint8_t *found, const void **rows, uint32_t *sizes, struct err *e);

// Record changes of rows. tier_write then writes all recorded changes or none.
int tier_put(struct tier *t, uint32_t partition, uint64_t key, const void *row,
             uint32_t size, struct err *e);
int tier_delete(struct tier *t, uint32_t partition, uint64_t key, struct err *e);
int tier_write(struct tier *t, struct err *e);
void tier_drop(struct tier *t); // forgets the changes that were not written

// Calls `row` for all rows of a partition in ascending order of keys; changes that were
// not written yet are ignored. The walk ends when `row` returns a value other than 0.
// `row` may record changes (tier_put, tier_delete).
typedef int (*tier_row_fn)(void *ctx, uint64_t key, const void *row, uint32_t size,
                           struct err *e);
int tier_each(struct tier *t, uint32_t partition, uint64_t from, tier_row_fn row,
              void *ctx, struct err *e);
// Writes the recorded changes and removes all rows of a partition, both or neither.
int tier_clear(struct tier *t, uint32_t partition, struct err *e);
// Returns when all written rows are on disk.
int tier_flush(struct tier *t, struct err *e);

// Returns the most memory in bytes that RocksDB takes for this many rows: its cache,
// write buffers that together have the size of the cache, and filters and indexes of 1.5
// bytes for each row.
uint64_t tier_memory(const struct tier *t, uint64_t rows);

#endif
