// Copies of rows: written in passing, indexed only when somebody asks.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/previous.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

void previous_free(struct previous *b)
{
    mem_free(b->keys);
    mem_free(b->values);
    mem_free(b->places);
    *b = (struct previous){0};
}

void previous_begin(struct previous *b)
{
    b->n = 0;
    b->lost = b->indexed = false;
}

static bool reserve(struct previous *b, size_t width, size_t n)
{
    if (n <= b->cap)
        return true;
    size_t cap = n + n / 2 + 1024;
    uint64_t *keys = mem_realloc_array(b->keys, cap, sizeof(*keys));
    b->keys = keys != NULL ? keys : b->keys;
    float *values = mem_realloc_array(b->values, cap * width, sizeof(*values));
    b->values = values != NULL ? values : b->values;
    if (keys == NULL || values == NULL)
        return false;
    b->cap = cap;
    return true;
}

// Room for n more; NULL: they are lost.
static float *more(struct previous *b, uint32_t width, size_t n)
{
    b->lost = b->lost || !reserve(b, width, b->n + n);
    if (b->lost)
        return NULL;
    float *values = b->values + b->n * width;
    b->n += n;
    return values;
}

float *previous_take(struct previous *b, uint32_t width, const uint64_t *keys, size_t n)
{
    assert(!b->indexed); // previous_begin comes first: the index would not know these
    float *values = n > 0 ? more(b, width, n) : NULL;
    if (values != NULL)
        memcpy(b->keys + b->n - n, keys, n * sizeof(*keys));
    return values;
}

static size_t place_of(uint64_t key, size_t n_places)
{
    return (key ^ key >> 32) * 0x9e3779b1u & (n_places - 1);
}

static bool make_room(struct previous *b)
{
    size_t n = 64;
    while (n < 2 * b->n)
        n *= 2;
    if (n > b->n_places) {
        uint32_t *places = mem_array(n, sizeof(*places));
        if (places == NULL)
            return false;
        mem_free(b->places);
        b->places = places;
        b->n_places = n;
    }
    memset(b->places, 0, b->n_places * sizeof(*b->places));
    return true;
}

bool previous_index(struct previous *b)
{
    if (b->indexed || b->lost)
        return !b->lost;
    if (!make_room(b)) {
        b->lost = true;
        return false;
    }
    assert(2 * b->n <= b->n_places); // a search ends at a free place
    for (size_t i = 0; i < b->n; i++) {
        size_t at = place_of(b->keys[i], b->n_places);
        while (b->places[at] != 0)
            at = (at + 1) & (b->n_places - 1);
        b->places[at] = (uint32_t)i + 1;
    }
    b->indexed = true;
    return true;
}

const float *previous_find(const struct previous *b, uint32_t width, uint64_t key)
{
    assert(b->indexed && !b->lost);
    size_t at = place_of(key, b->n_places);
    for (; b->places[at] != 0; at = (at + 1) & (b->n_places - 1))
        if (b->keys[b->places[at] - 1] == key)
            return b->values + (b->places[at] - 1) * (size_t)width;
    return NULL;
}
