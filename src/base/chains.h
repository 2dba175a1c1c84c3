// Things found by a number, whatever their count: hash chains through the things
// themselves. Nothing here fails: where there is no memory for more buckets,
// chains become longer.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_CHAINS_H
#define TUG_BASE_CHAINS_H

#include <stddef.h>
#include <stdint.h>

// A member of whatever is found. It is in at most one table at a time.
struct chained {
    struct chained *next;
    uint64_t key;
};

// Begins as zeros.
struct chains {
    struct chained **buckets; // a power of two; NULL: `only` is the one there is
    struct chained *only;
    size_t n_buckets, n;
};

// Returns the entry with the key that was put last; NULL if none has it.
struct chained *chains_find(const struct chains *c, uint64_t key);
// The next one with the same key.
struct chained *chains_again(const struct chained *x);
void chains_put(struct chains *c, struct chained *x, uint64_t key);
void chains_take(struct chains *c, struct chained *x); // which is in it
// Empties it; fn may free what it is given. NULL: frees only the table.
void chains_free(struct chains *c, void (*fn)(struct chained *x));

#endif
