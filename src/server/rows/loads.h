// Loads of a table's rows from a save. Each loop reads the rows of its partitions; with
// replicas a backup does so when the record of the load arrives.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROWS_LOADS_H
#define TUG_SERVER_ROWS_LOADS_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct shard;
struct shard_table;

// The save, below one of the shard's roots, and the table's name in it.
struct loads_from {
    const char *path, *name;
    uint64_t checksum; // of its manifest
};

// Replaces the rows of these partitions, which other loops may lead, by those of a save. If
// it fails, *ret_changed says whether rows have changed; then the partitions are empty if
// memory was enough for that.
int loads_some(struct shard *s, struct shard_table *t, const struct loads_from *from,
               const uint32_t *partitions, uint32_t n, bool *ret_changed, struct err *e);

#endif
