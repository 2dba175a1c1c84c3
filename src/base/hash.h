// Hashes: a bijective mixer for keys, and XXH3 for bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_HASH_H
#define TUG_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

// A bijection of 64-bit words in which each input bit affects each output bit (the
// finaliser of splitmix64, Steele et al. 2014, with Stafford's "variant 13" constants).
// The placement of rows depends on it, so it must never change.
static inline uint64_t mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    x ^= x >> 31;
    return x;
}

// Returns the 64-bit XXH3 of `n` bytes under `seed`; used for feature values and
// checksums.
uint64_t hash_bytes(const void *bytes, size_t n, uint64_t seed);

// Computes the hash of hash_bytes for bytes that arrive in several parts.
struct hash_stream {
    _Alignas(64) unsigned char state[576]; // the library's state
};

void hash_stream_begin(struct hash_stream *s, uint64_t seed);
void hash_stream_add(struct hash_stream *s, const void *bytes, size_t n);
// Returns the hash of the bytes that were added so far.
uint64_t hash_stream_end(const struct hash_stream *s);

#endif
