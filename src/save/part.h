// Part files: the rows of a range of partitions, sorted by partition and key, with a
// header and checksums. The same rows give the same bytes, wherever and by however many
// threads they were trained.
//
// Layout, little-endian: header (magic "TUGPART\1", version, width, partition_bits, first
// partition, number of partitions, number of rows, XXH3 of the header), then blocks of
// rows (key, floats), each block with its own XXH3, so that a damaged file is found
// before it is believed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SAVE_PART_H
#define TUG_SAVE_PART_H

#include "base/err.h"
#include "table/table.h"

enum { PART_VERSION = 1 };

struct part_info {
    uint64_t rows;
    uint64_t bytes;    // of the file
    uint64_t checksum; // XXH3-64 of the whole file
};

// Writes partitions [first, first + n) to `path` (written beside, synced, renamed).
// Rows whose float in column `counted` is 0 are left out: they are what they began with.
// PART_ALL: every row is written.
#define PART_ALL UINT32_MAX
int part_save(const struct table *t, uint32_t first, uint32_t n, uint32_t counted,
              const char *path, struct part_info *ret_info, struct err *e);

// Adds the rows of `path` to `t`. Width and partition_bits must agree with the table's.
// With `expect`, size, rows and checksum must agree too. Any damage is TUG_EDATA naming
// the file; the table may then hold some of the rows.
int part_load(struct table *t, const char *path, const struct part_info *expect,
              struct err *e);

// Reads a part row by row without a table: `row` gets each key and its floats; non-zero
// stops.
typedef int (*part_row_fn)(void *ctx, uint64_t key, const float *values, uint32_t width,
                           struct err *e);
int part_each(const char *path, const struct part_info *expect, part_row_fn row,
              void *ctx, struct err *e);

#endif
