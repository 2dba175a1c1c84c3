// The bytes of a file of rows, which rows_file.c writes and rows_read.c reads.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SAVE_ROWS_FORMAT_H
#define TUG_SAVE_ROWS_FORMAT_H

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "save/rows_file.h"
#include "table/table.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "files are written as memory is");

// Every part of the file begins at a multiple of this number, so that it can be used in
// the read buffer without a copy.
enum { ROWS_ALIGN = 8 };

// The largest length of a partition's state in bytes. A file with a larger length is
// damaged.
enum { ROWS_STATE_MAX = 1 << 30 };

static const char rows_begin[8] = {'T', 'U', 'G', 'R', 'O', 'W', 'S', 1};
static const char rows_end[8] = {'T', 'U', 'G', 'R', 'O', 'W', 'S', 2};

struct rows_header {
    char magic[8];
    uint32_t version, width, extra_width, partition_bits;
    uint32_t by_range, mode, level, day;
    uint64_t checksum; // checksum of the fields before it
};

struct rows_block_header {
    uint32_t kind, partition, n, width;
    // Bytes before compression, and as stored; equal if the block is not compressed.
    uint64_t bytes, stored;
    uint64_t checksum;
};

struct rows_entry {
    uint32_t partition, blocks;
    uint64_t at; // position of the partition's first block
    uint64_t rows, extras, gone;
    uint64_t checksum;
};

struct rows_trailer {
    uint64_t at, bytes; // position and length of the directory
    uint64_t rows;
    uint64_t checksum;
    char magic[8];
};

static_assert(sizeof(struct rows_header) == 48 &&
                  sizeof(struct rows_block_header) == 40 &&
                  sizeof(struct rows_entry) == 48 && sizeof(struct rows_trailer) == 40,
              "there is no padding");

static inline uint64_t rows_header_checksum(const struct rows_header *h)
{
    return hash_bytes(h, offsetof(struct rows_header, checksum), 0);
}

static inline uint64_t rows_block_checksum(const struct rows_block_header *h,
                                           const void *stored)
{
    uint64_t seed = hash_bytes(h, offsetof(struct rows_block_header, checksum), 0);
    return hash_bytes(stored, h->stored, seed);
}

// Adds the checksum `block` of a partition's next block to the partition's checksum
// `sum`. A partition's checksum covers the checksums of its blocks in their order.
static inline uint64_t rows_add_checksum(uint64_t sum, uint64_t block)
{
    return hash_bytes(&block, sizeof(block), sum);
}

static inline uint64_t rows_file_checksum(const struct rows_header *h,
                                          const struct rows_entry *directory,
                                          const struct rows_trailer *t)
{
    uint64_t seed = hash_bytes(t, offsetof(struct rows_trailer, checksum), h->checksum);
    return hash_bytes(directory, t->bytes, seed);
}

static inline uint64_t rows_padded(uint64_t bytes)
{
    return (bytes + ROWS_ALIGN - 1) & ~(uint64_t)(ROWS_ALIGN - 1);
}

static inline uint64_t rows_row_bytes(uint32_t width)
{
    return sizeof(uint64_t) + (uint64_t)width * sizeof(float);
}

// Returns how many rows of this width fit into the largest block.
static inline uint32_t rows_block_rows(uint32_t width)
{
    uint64_t n = ROWS_BLOCK_MAX / rows_row_bytes(width);
    return n > 0 ? (uint32_t)n : 1;
}

static inline uint32_t rows_partition(const struct rows_shape *s, uint64_t key)
{
    uint64_t bits = s->by_range ? key : mix64(key);
    return s->partition_bits == 0 ? 0 : (uint32_t)(bits >> (64 - s->partition_bits));
}

// The kind and the last key of a partition's last block. The order of the next block is
// checked against them.
struct rows_order {
    uint32_t kind;
    uint64_t key; // key of the block's last row
};

// Returns the error in the block's kind or width, or in its order after `o`, as text;
// NULL if it has no error.
const char *rows_check_block(const struct rows_shape *s, const struct rows_order *o,
                             const struct rows_block *b);
// Returns whether all keys of the block belong to its partition, ascend, and follow the
// last key before the block. If so, updates *o. Otherwise *ret_key is the first wrong
// key.
bool rows_check_keys(const struct rows_shape *s, struct rows_order *o,
                     const struct rows_block *b, uint64_t *ret_key);

#endif
