// A set of keys with numbers: a table of places (open addressing, linear probing, at most
// a quarter full) over an array of distinct keys that is the caller's. It is emptied for
// each use, 16 to 32 bytes a key, and no key is taken out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_KEY_SET_H
#define TUG_BASE_KEY_SET_H

#include <stddef.h>
#include <stdint.h>

struct key_set {
    uint32_t *places; // the number of a key + 1; 0: free
    size_t mask, room;
};

// Memory for n keys, less than 2^31. TUG_ENOMEM: unchanged.
int key_set_reserve(struct key_set *s, size_t n);
void key_set_fini(struct key_set *s); // a zeroed one is fine

// Empties it, for n keys at most: no more than were reserved.
void key_set_clear(struct key_set *s, size_t n);

// Both halves of a product, so that keys may differ in any bits.
static inline size_t key_set_home(const struct key_set *s, uint64_t key)
{
    unsigned __int128 x = (unsigned __int128)key * 0x9e3779b97f4a7c15ull;
    return ((uint64_t)(x >> 64) ^ (uint64_t)x) & s->mask;
}

static inline void key_set_prefetch(const struct key_set *s, uint64_t key)
{
    __builtin_prefetch(&s->places[key_set_home(s, key)], 1);
}

// The place of a key, or the free one that is to have its number + 1.
static inline uint32_t *key_set_place(const struct key_set *s, const uint64_t *keys,
                                      uint64_t key)
{
    size_t at = key_set_home(s, key);
    while (s->places[at] != 0 && keys[s->places[at] - 1] != key)
        at = (at + 1) & s->mask;
    return &s->places[at];
}

// The distinct ones of n keys, in the order in which they first come, and for each key
// the number of its distinct one; how many. Memory for n keys must be there.
// `distinct` has room for n.
size_t key_set_number(struct key_set *s, const uint64_t *keys, size_t n,
                      uint64_t *distinct, uint32_t *which);

#endif
