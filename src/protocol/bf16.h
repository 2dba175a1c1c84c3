// bf16: the upper half of a float, an encoding of values in messages.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_PROTOCOL_BF16_H
#define TUG_PROTOCOL_BF16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Rounds to the nearest bf16, ties to even. Infinities stay infinities, and NaNs stay
// NaNs: they are made quiet, because the upper half of a NaN could be an infinity.
static inline uint16_t bf16_from(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline float bf16_to(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static inline void bf16_from_n(uint16_t *ret, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = bf16_from(x[i]);
}

static inline void bf16_to_n(float *ret, const uint16_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = bf16_to(x[i]);
}

#endif
