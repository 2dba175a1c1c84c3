// Finds structs by a number, for any count of them: hash chains whose links are inside
// the structs. No function fails: without memory for more buckets, the chains become
// longer.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_CHAINS_H
#define TUG_BASE_CHAINS_H

#include <stddef.h>
#include <stdint.h>

// The member that a struct needs to be in a table. It is in at most one table at a time.
struct chained {
    struct chained *next;
    uint64_t key;
};

// A zeroed struct is an empty table.
struct chains {
    struct chained **
        buckets; // array whose length is a power of two; NULL: `only` is the single chain
    struct chained *only;
    size_t n_buckets, n;
};

// Returns the entry that was put last among those with this key; NULL if there is none.
struct chained *chains_find(const struct chains *c, uint64_t key);
// Returns the next entry with the same key; NULL if there is none.
struct chained *chains_again(const struct chained *x);
void chains_put(struct chains *c, struct chained *x, uint64_t key);
void chains_take(struct chains *c, struct chained *x); // x must be in the table
// Empties the table and calls `fn` for each entry; `fn` may free the entry. If `fn` is
// NULL, frees only the table.
void chains_free(struct chains *c, void (*fn)(struct chained *x));

#endif
