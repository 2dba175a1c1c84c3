// Blocks: the examples of one chunk, packed. Only the data set includes this.
//
// An example is one record, so that a random one costs one or two cache misses:
//   [mask][ids][slots][values]
// - ids take 1..4 bytes each, by the block's largest one;
// - slots are absent when all are 0; when no example has a slot twice, slots ascend and
// are below 64,
//   they are a bit mask before the ids (left out when all examples have the same); else
//   they are bytes or 16-bit numbers behind the ids;
// - values are floats, absent when all are 1; where there are few different ones, they
//   are bytes that number them.
// Records begin at i * record_bytes when all are equally long, else where two arrays say:
// a 32-bit base for every 16 examples and a 16-bit offset for each (or a 32-bit number
// for each, when an offset does not fit). Labels are bits when all are 0 or 1: a plane of
// bits for each label of an example, and if some of several are missing (NaN) behind them
// one for each, of those that are.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_BLOCK_H
#define TUG_DATA_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "data/reader.h"

enum { BLOCK_GROUP_BITS = 4, BLOCK_PADDING = 8 };

enum block_slots { BLOCK_SLOTS_ZERO, BLOCK_SLOTS_MASK, BLOCK_SLOTS_8, BLOCK_SLOTS_16 };

struct block {
    const unsigned char *records;
    const uint32_t *base;   // NULL: all records have record_bytes
    const uint16_t *offset; // NULL: base has an entry for each example
    uint32_t record_bytes;
    uint8_t id_bytes;
    uint8_t feature_bytes; // id, slot and value together
    uint8_t mask_bytes;    // 0 with BLOCK_SLOTS_MASK: `mask` is that of all examples
    uint8_t slots;         // enum block_slots
    bool has_values;
    uint16_t n_codes;   // of `codes`
    const float *codes; // the different values; NULL: they are floats
    uint64_t mask;
    uint64_t first;            // number of its first example in the data set
    uint8_t labels;            // of an example
    bool label_gaps;           // some are missing
    const uint8_t *label_bits; // NULL: label_values
    const float *label_values; // those of an example one behind the other
    const float *weights;      // NULL: all 1

    uint32_t n, nnz, positives, max_slot;
    uint32_t file;
    uint64_t line;
    const uint32_t *gaps; // examples before which a line without one lies, ascending
    uint32_t n_gaps;
    const char
        *kept; // texts of columns that are kept, of example i at kept_at[i]; or NULL
    const uint32_t *kept_at;
};

// The different values of a block and their numbers, as long as they are few.
enum { BLOCK_CODES = 256 };
struct block_codes {
    uint32_t n;
    float value[BLOCK_CODES];
    uint16_t place[4 * BLOCK_CODES]; // by hash: 0, or a number + 1
};

// The layout that block_pack will write, decided from the examples and their ids.
struct block_plan {
    struct block block;
    uint32_t record_total;
    bool label_bits, weights;
    struct block_codes codes;
    size_t bytes; // of memory that block_pack needs, 8-byte aligned
};

// TUG_EDATA when the examples are too many for one block.
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

static inline size_t block_plane(const struct block *b) // bytes
{
    return b->n / 8 + 1;
}

// Label number t of example i.
static inline float block_label(const struct block *b, uint32_t i, uint32_t t)
{
    if (b->label_bits == NULL)
        return b->label_values[(size_t)i * b->labels + t];
    const uint8_t *bits = b->label_bits + t * block_plane(b) + (i >> 3);
    if (b->label_gaps && bits[b->labels * block_plane(b)] >> (i & 7) & 1)
        return __builtin_nanf("");
    return (float)(*bits >> (i & 7) & 1);
}

// Features of the example whose record has `bytes`.
static inline uint32_t block_features(const struct block *b, uint32_t bytes)
{
    return (bytes - b->mask_bytes) / b->feature_bytes;
}

// Unpacks the `k` features of the record at byte `at`; value may be NULL when the block
// has none.
void block_unpack(const struct block *b, uint32_t at, uint32_t k, uint32_t *ret_id,
                  uint16_t *ret_slot, float *ret_value);

// Returns an example's line in its file.
uint64_t block_line(const struct block *b, uint32_t i);

#endif
