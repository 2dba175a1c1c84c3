// Stores any bytes as finite floats, because values of rows must be finite. A float is not
// finite if all 8 bits of its exponent are set. So bit 30, the highest of them, is taken
// out of 31 words and kept in a 32nd one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_DEAL_WORDS_H
#define TUG_TRAIN_CLUSTER_DEAL_WORDS_H

#include <stdint.h>
#include <string.h>

enum {
    DEAL_GROUP = 31,
    DEAL_GROUPS = 4,                       // groups in a row
    DEAL_WORDS = DEAL_GROUP * DEAL_GROUPS, // 32-bit words of text in a row
    DEAL_WIDTH = DEAL_WORDS + DEAL_GROUPS, // floats in a row
    DEAL_ROW_BYTES = DEAL_WORDS * 4,
};

#define DEAL_BIT 30

// Returns the position at which the 32nd word of a group keeps the bit of word i: any
// position but bit 30.
static inline uint32_t deal_bit_at(uint32_t i)
{
    return i < DEAL_BIT ? i : i + 1;
}

static inline void deal_pack(const void *bytes, float *ret)
{
    uint32_t words[DEAL_WIDTH];
    memcpy(words, bytes, DEAL_ROW_BYTES);
    for (uint32_t g = 0; g < DEAL_GROUPS; g++) {
        uint32_t *w = words + g * DEAL_GROUP, kept = 0;
        for (uint32_t i = 0; i < DEAL_GROUP; i++) {
            kept |= (w[i] >> DEAL_BIT & 1) << deal_bit_at(i);
            w[i] &= ~(UINT32_C(1) << DEAL_BIT);
        }
        words[DEAL_WORDS + g] = kept;
    }
    memcpy(ret, words, sizeof(words));
}

static inline void deal_unpack(const float *row, void *ret_bytes)
{
    uint32_t words[DEAL_WIDTH];
    memcpy(words, row, sizeof(words));
    for (uint32_t g = 0; g < DEAL_GROUPS; g++) {
        uint32_t *w = words + g * DEAL_GROUP, kept = words[DEAL_WORDS + g];
        for (uint32_t i = 0; i < DEAL_GROUP; i++)
            w[i] |= (kept >> deal_bit_at(i) & 1) << DEAL_BIT;
    }
    memcpy(ret_bytes, words, DEAL_ROW_BYTES);
}

#endif
