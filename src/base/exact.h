// Exact sums of doubles: a sum has the same bits for any order of its terms, and however
// they are divided into partial sums.
//
// A double is an integer of 53 bits times a power of two, so any sum of doubles is an
// integer number of units of 2^-1074. The sum is kept in limbs of 32 bits, each in a
// 64-bit integer, so that carries can be postponed (Kulisch's accumulator; Neal, Fast
// exact summation using small and large superaccumulators, 2015, section 2). A sum takes
// 550 bytes, and an addition some nanoseconds.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_EXACT_H
#define TUG_BASE_EXACT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    EXACT_LIMBS = 68,     // 2,098 bits for the largest double, and more bits for carries
    EXACT_ADDS = 1 << 30, // additions of 32 bits until a limb may overflow
    EXACT_TOP = 1 << 20,  // a bound on the last limb, far beyond any real sum
};

// A sum. A zeroed struct is the sum 0.
struct exact {
    int64_t limb[EXACT_LIMBS]; // the lowest limb first
    double special;            // sum of the terms that are infinite or NaN
    uint64_t adds;             // additions since the last exact_carry
};

// Propagates the carries, so that every limb except the last is from 0 to 2^32 - 1.
static inline void exact_carry(struct exact *s)
{
    int64_t carry = 0;
    for (int i = 0; i + 1 < EXACT_LIMBS; i++) {
        int64_t x = s->limb[i] + carry;
        s->limb[i] = (int64_t)(uint32_t)x;
        carry = x >> 32; // rounds downwards for negative x, as gcc and clang shift
    }
    s->limb[EXACT_LIMBS - 1] += carry;
    s->adds = 0;
}

// Returns whether a sum received as bytes has its carries propagated, so that it can be
// merged. The limbs of other sums could overflow.
static inline bool exact_is_carried(const struct exact *s)
{
    int64_t top = s->limb[EXACT_LIMBS - 1];
    bool ok = s->adds == 0 && top >= -EXACT_TOP && top <= EXACT_TOP;
    for (int i = 0; i + 1 < EXACT_LIMBS; i++)
        ok &= s->limb[i] >= 0 && s->limb[i] <= UINT32_MAX;
    return ok;
}

static inline void exact_add(struct exact *s, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    uint32_t exponent = (uint32_t)(bits >> 52) & 0x7ff;
    if (exponent == 0x7ff) {
        s->special += x;
        return;
    }
    if (exponent > 0)
        fraction |= UINT64_C(1) << 52;
    uint32_t at = exponent > 0 ? exponent - 1 : 0;
    unsigned __int128 wide = (unsigned __int128)fraction << (at % 32);
    int64_t sign = bits >> 63 != 0 ? -1 : 1, *limb = s->limb + at / 32;
    limb[0] += sign * (int64_t)(uint32_t)wide;
    limb[1] += sign * (int64_t)(uint32_t)(wide >> 32);
    limb[2] += sign * (int64_t)(uint32_t)(wide >> 64);
    if (++s->adds == EXACT_ADDS)
        exact_carry(s);
}

static inline void exact_merge(struct exact *into, const struct exact *from)
{
    struct exact other = *from;
    exact_carry(&other);
    exact_carry(into);
    for (int i = 0; i < EXACT_LIMBS; i++)
        into->limb[i] += other.limb[i];
    into->special += other.special;
    exact_carry(into);
}

// Returns the sum with an error of a rounding or two.
double exact_value(const struct exact *s);

#endif
