// A permutation without memory: an alternating Feistel network on the bits of n - 1 (its
// halves may differ by one bit), applied until the result is below n. The domain is
// smaller than 2 n, so that this takes fewer than two steps on average.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "base/random.h"
#include "data/dataset/dataset.h"

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

// Returns pseudo-random bits made from a half and the round's key; the upper half of
// a product mixes them.
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

struct order order_make(uint64_t n, uint64_t seed, uint64_t pass)
{
    uint64_t runs = (n + ORDER_RUN - 1) / ORDER_RUN;
    return (struct order){.n = n, .runs = shuffle_make(runs, seed, pass)};
}

uint64_t order_positions(const struct order *o)
{
    return o->runs.n * ORDER_RUN;
}

void order_fill_block(const struct order *o, struct order_block *h, uint64_t number)
{
    uint64_t first = number * ORDER_RUNS, left = o->runs.n - first;
    h->known = true;
    h->number = number;
    h->runs = left < ORDER_RUNS ? (uint32_t)left : ORDER_RUNS;
    for (uint32_t i = 0; i < h->runs; i++)
        h->first[i] = shuffle_at(&o->runs, first + i) * ORDER_RUN;
}

size_t order_take(const struct order *o, struct order_block *h, uint64_t first, size_t n,
                  uint64_t *ret_examples)
{
    uint64_t end = first + n < order_positions(o) ? first + n : order_positions(o);
    size_t taken = 0;
    for (uint64_t p = first; p < end; p++) {
        if (!h->known || h->number != p / ORDER_BLOCK)
            order_fill_block(o, h, p / ORDER_BLOCK);
        uint32_t at = (uint32_t)(p % ORDER_BLOCK);
        uint64_t example = h->first[at % h->runs] + at / h->runs;
        if (example < o->n)
            ret_examples[taken++] = example;
    }
    return taken;
}
