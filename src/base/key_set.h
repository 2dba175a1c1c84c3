// A set that gives keys numbers. The table of places (open addressing, linear probing, at
// most a quarter full) refers to an array of distinct keys that the caller owns. A place
// costs 16 to 32 bytes a key. The set is emptied before each use, and a single key cannot
// be removed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_KEY_SET_H
#define TUG_BASE_KEY_SET_H

#include <stddef.h>
#include <stdint.h>

struct key_set {
    uint32_t *places; // the number of a key, plus 1; 0: the place is free
    size_t mask, room;
};

// Makes room for n keys, fewer than 2^31. Returns TUG_ENOMEM if it cannot; then nothing
// has changed.
int key_set_reserve(struct key_set *s, size_t n);
void key_set_fini(struct key_set *s); // a zeroed struct is fine

// Empties the set for at most n keys, which must have been reserved.
void key_set_clear(struct key_set *s, size_t n);

// Returns the place at which the search for a key begins. Both halves of a product are
// mixed, so that keys may differ in any bits.
static inline size_t key_set_home(const struct key_set *s, uint64_t key)
{
    unsigned __int128 x = (unsigned __int128)key * 0x9e3779b97f4a7c15ull;
    return ((uint64_t)(x >> 64) ^ (uint64_t)x) & s->mask;
}

static inline void key_set_prefetch(const struct key_set *s, uint64_t key)
{
    __builtin_prefetch(&s->places[key_set_home(s, key)], 1);
}

// Returns the place of a key, or the free place into which the caller writes its number +
// 1.
static inline uint32_t *key_set_place(const struct key_set *s, const uint64_t *keys,
                                      uint64_t key)
{
    size_t at = key_set_home(s, key);
    while (s->places[at] != 0 && keys[s->places[at] - 1] != key)
        at = (at + 1) & s->mask;
    return &s->places[at];
}

// Copies the distinct keys among n keys to `distinct`, in the order of their first
// occurrence, sets which[i] to the number of key i, and returns the number of distinct
// keys. Room for n keys must be reserved, and `distinct` must have room for n.
size_t key_set_number(struct key_set *s, const uint64_t *keys, size_t n,
                      uint64_t *distinct, uint32_t *which);

#endif
