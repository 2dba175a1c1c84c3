// Random numbers without state. A number is a function of (seed, stream, counter), so it
// does not depend on an order, a thread or a server: it has the same bits everywhere
// (docs/architecture.md).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_RANDOM_H
#define TUG_BASE_RANDOM_H

#include <stdint.h>

#include "base/hash.h"

static inline uint64_t random_u64(uint64_t seed, uint64_t stream, uint64_t counter)
{
    uint64_t a = mix64(seed + 0x9e3779b97f4a7c15ull);
    uint64_t b = mix64(a ^ (stream + 0xd1b54a32d192ed03ull));
    return mix64(b + counter * 0x9e3779b97f4a7c15ull);
}

// Returns a number that is uniform in [0, 1), with 24 bits, which a float holds exactly.
static inline float random_f32(uint64_t seed, uint64_t stream, uint64_t counter)
{
    return (float)(random_u64(seed, stream, counter) >> 40) * 0x1p-24f;
}

// Returns a number that is uniform in [0, 1), with 53 bits.
static inline double random_f64(uint64_t seed, uint64_t stream, uint64_t counter)
{
    return (double)(random_u64(seed, stream, counter) >> 11) * 0x1p-53;
}

// Returns an integer that is uniform in [0, n) for n > 0, without a division (Lemire
// 2019, without its rejection step: the bias is below n / 2^64).
static inline uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t counter,
                                    uint64_t n)
{
    return (uint64_t)(((unsigned __int128)random_u64(seed, stream, counter) * n) >> 64);
}

#endif
