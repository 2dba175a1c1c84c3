// A permutation without memory: an alternating Feistel network on the bits of n - 1 (the
// halves may differ by one bit), walked until it lands below n. The domain is less than
// twice n, so that the walk takes less than two steps on average.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "base/random.h"
#include "data/dataset.h"

enum { ROUNDS = 6 }; // three for each half

static uint32_t domain_bits(uint64_t n)
{
    return n <= 2 ? 1 : 64 - (uint32_t)__builtin_clzll(n - 1);
}

struct shuffle shuffle_make(uint64_t n, uint64_t seed, uint64_t pass)
{
    return (struct shuffle){
        .n = n, .seed = random_u64(seed, 0x5bf1, pass), .half_bits = domain_bits(n) / 2};
}

// Pseudo-random bits of a half under the key of its round: a multiplication whose upper
// half mixes.
static uint64_t round_bits(uint64_t half, uint64_t key)
{
    uint64_t x = (half ^ key) * 0x9e3779b97f4a7c15u;
    x ^= x >> 32;
    return (x * 0xd6e8feb86659fd93u) >> 32;
}

uint64_t shuffle_at(const struct shuffle *s, uint64_t i)
{
    assert(i < s->n);
    uint32_t low_bits = s->half_bits, high_bits = domain_bits(s->n) - low_bits;
    uint64_t low_mask = ((uint64_t)1 << low_bits) - 1,
             high_mask = ((uint64_t)1 << high_bits) - 1;
    do {
        uint64_t low = i & low_mask, high = i >> low_bits, key = s->seed;
        for (int round = 0; round < ROUNDS; round += 2) {
            high ^= round_bits(low, key) & high_mask;
            key += 0x9e3779b97f4a7c15u;
            low ^= round_bits(high, key) & low_mask;
            key += 0x9e3779b97f4a7c15u;
        }
        i = high << low_bits | low;
    } while (i >= s->n);
    return i;
}
