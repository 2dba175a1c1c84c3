// Hash chains whose links are inside the structs (chains.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "base/chains.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/hash.h"

enum { FIRST = 64 };

static struct chained **bucket_of(struct chained **buckets, size_t n, uint64_t key)
{
    return &buckets[mix64(key) & (n - 1)];
}

struct chained *chains_find(const struct chains *c, uint64_t key)
{
    struct chained *x = c->buckets == NULL ? c->only
                                           : *bucket_of(c->buckets, c->n_buckets, key);
    while (x != NULL && x->key != key)
        x = x->next;
    return x;
}

struct chained *chains_again(const struct chained *x)
{
    uint64_t key = x->key;
    struct chained *y = x->next;
    while (y != NULL && y->key != key)
        y = y->next;
    return y;
}

// Moves entries to new buckets. Entries keep their order in a chain, so that among equal
// keys the last entry is still found first.
static void move(struct chained *x, struct chained **to, size_t n)
{
    struct chained *turned = NULL;
    for (struct chained *next; x != NULL; x = next) {
        next = x->next;
        x->next = turned;
        turned = x;
    }
    for (struct chained *next; turned != NULL; turned = next) {
        next = turned->next;
        struct chained **at = bucket_of(to, n, turned->key);
        turned->next = *at;
        *at = turned;
    }
}

static void chains_grow(struct chains *c)
{
    size_t n = c->buckets == NULL ? FIRST : 2 * c->n_buckets;
    struct chained **buckets = mem_zalloc(n * sizeof(struct chained *));
    if (buckets == NULL)
        return;
    move(c->only, buckets, n);
    for (size_t i = 0; i < c->n_buckets; i++)
        move(c->buckets[i], buckets, n);
    mem_free(c->buckets);
    c->only = NULL;
    c->buckets = buckets;
    c->n_buckets = n;
}

void chains_put(struct chains *c, struct chained *x, uint64_t key)
{
    if (c->n >= 2 && c->n >= c->n_buckets)
        chains_grow(c);
    struct chained **at = c->buckets == NULL ? &c->only
                                             : bucket_of(c->buckets, c->n_buckets, key);
    *x = (struct chained){*at, key};
    *at = x;
    c->n++;
}

void chains_take(struct chains *c, struct chained *x)
{
    struct chained **at = c->buckets == NULL
                              ? &c->only
                              : bucket_of(c->buckets, c->n_buckets, x->key);
    while (*at != x) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = x->next;
    x->next = NULL;
    c->n--;
}

static void each(struct chained *x, void (*fn)(struct chained *x))
{
    for (struct chained *next; x != NULL; x = next) {
        next = x->next;
        fn(x);
    }
}

void chains_free(struct chains *c, void (*fn)(struct chained *x))
{
    if (fn != NULL)
        each(c->only, fn);
    for (size_t i = 0; fn != NULL && i < c->n_buckets; i++)
        each(c->buckets[i], fn);
    mem_free(c->buckets);
    *c = (struct chains){0};
}
