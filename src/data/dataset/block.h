// Blocks: the packed examples of one chunk. Only the data set includes this header.
//
// An example is one record, so that reading a random one costs one or two cache misses:
//   [mask][ids][slots][values]
// - An id takes 1 to 4 bytes, as the largest id of the block needs.
// - Slots are left out if all are 0. If no example has a slot twice, and slots ascend and
//   are below 64, they are a bit mask before the ids (left out if all examples have the
//   same mask). Else they are bytes or 16-bit numbers behind the ids.
// - Values are floats, left out if all are 1. If there are few different values, each
//   value is a byte: its number among these values.
// If all records have the same length, record i begins at i * record_bytes. Else two
// arrays say where records begin: a 32-bit base for every 16 examples and a 16-bit
// offset for each example (or a 32-bit begin for each example, if an offset does not
// fit). Labels are bits if all are 0 or 1: a plane of bits for each label of an
// example and, if some labels are missing (NaN), another plane for each label that
// marks the missing ones.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_BLOCK_H
#define TUG_DATA_DATASET_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "data/format/reader.h"

enum { BLOCK_GROUP_BITS = 4, BLOCK_PADDING = 8 };

enum block_slots { BLOCK_SLOTS_ZERO, BLOCK_SLOTS_MASK, BLOCK_SLOTS_8, BLOCK_SLOTS_16 };

struct block {
    const unsigned char *records;
    const uint32_t *base;   // NULL: all records have record_bytes bytes
    const uint16_t *offset; // NULL: `base` has an entry for each example
    uint32_t record_bytes;
    uint8_t id_bytes;
    uint8_t feature_bytes; // bytes of id, slot and value together
    // Bytes of the mask; 0 with BLOCK_SLOTS_MASK: all examples have the slots in `mask`.
    uint8_t mask_bytes;
    uint8_t slots; // enum block_slots
    bool has_values;
    uint16_t n_codes;
    const float *codes; // the different values; NULL: records hold floats
    uint64_t mask;
    uint64_t first;            // index in the data set of the block's first example
    uint8_t labels;            // number of labels of an example
    bool label_gaps;           // some labels are missing
    const uint8_t *label_bits; // NULL: label_values has the labels
    // All labels of example 0, then all labels of example 1, ...
    const float *label_values;
    const float *weights; // NULL: all are 1

    uint32_t n, nnz, positives, max_slot, min_slot;
    uint32_t file;
    uint64_t line;
    // The indices of examples that follow a line without an example, ascending.
    const uint32_t *gaps;
    uint32_t n_gaps;
    // The texts of the kept columns; those of example i begin at
    // kept_at[i]. NULL: none are kept.
    const char *kept;
    const uint32_t *kept_at;
};

// The distinct values of a block and their numbers, used if there are at most BLOCK_CODES
// values.
enum { BLOCK_CODES = 256 };
struct block_codes {
    uint32_t n;
    float value[BLOCK_CODES];
    // A hash table of values: each place has the number of a value + 1, or 0 if the place
    // is free.
    uint16_t place[4 * BLOCK_CODES];
};

// The layout for block_pack, computed from the examples and their ids.
struct block_plan {
    struct block block;
    uint32_t record_total;
    bool label_bits, weights;
    struct block_codes codes;
    size_t bytes; // bytes of memory, 8-byte aligned, that block_pack needs
};

// Returns TUG_EDATA if the examples do not fit in one block.
int block_plan(struct block_plan *ret, const struct examples *x, const uint32_t *ids,
               struct err *e);
void block_pack(struct block *ret, struct block_plan *plan, const struct examples *x,
                const uint32_t *ids, void *memory);

static inline uint32_t block_record(const struct block *b, uint32_t i)
{
    if (b->base == NULL)
        return i * b->record_bytes;
    return b->offset == NULL ? b->base[i] : b->base[i >> BLOCK_GROUP_BITS] + b->offset[i];
}

// Returns the number of bytes in a plane, which has one bit per example.
static inline size_t block_plane(const struct block *b)
{
    return b->n / 8 + 1;
}

// Returns label number t of example i; NaN if it is missing.
static inline float block_label(const struct block *b, uint32_t i, uint32_t t)
{
    if (b->label_bits == NULL)
        return b->label_values[(size_t)i * b->labels + t];
    const uint8_t *bits = b->label_bits + t * block_plane(b) + (i >> 3);
    if (b->label_gaps && bits[b->labels * block_plane(b)] >> (i & 7) & 1)
        return __builtin_nanf("");
    return (float)(*bits >> (i & 7) & 1);
}

// Returns the number of features of an example whose record has `bytes` bytes.
static inline uint32_t block_features(const struct block *b, uint32_t bytes)
{
    return (bytes - b->mask_bytes) / b->feature_bytes;
}

// Unpacks the `k` features of the record at byte `at`; ret_value may be NULL if the block
// has no values.
void block_unpack(const struct block *b, uint32_t at, uint32_t k, uint32_t *ret_id,
                  uint16_t *ret_slot, float *ret_value);

// Returns an example's line in its file.
uint64_t block_line(const struct block *b, uint32_t i);

#endif
