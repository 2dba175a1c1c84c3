// Hashes: a bijective mixer for keys, and XXH3 for bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_HASH_H
#define TUG_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

// A bijection of 64-bit words in which every input bit moves every output bit (the
// finaliser of splitmix64, Steele et al. 2014, with Stafford's "variant 13" constants).
// Placement depends on it: it never changes.
static inline uint64_t mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    x ^= x >> 31;
    return x;
}

// 64-bit XXH3 of `n` bytes under `seed`: feature values, file checksums.
uint64_t hash_bytes(const void *bytes, size_t n, uint64_t seed);

#endif
