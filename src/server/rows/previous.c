// Copies of rows as they were before a batch (previous.h): they are appended while the
// batch is applied, and indexed only when a request needs them.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/rows/previous.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

void previous_free(struct previous *b)
{
    mem_free(b->keys);
    mem_free(b->values);
    key_set_fini(&b->index);
    *b = (struct previous){0};
}

void previous_begin(struct previous *b)
{
    b->n = 0;
    b->lost = b->indexed = false;
}

static bool previous_reserve(struct previous *b, size_t width, size_t n)
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

// Returns space for the values of n more rows; NULL if the copies are lost for lack of
// memory.
static float *more(struct previous *b, uint32_t width, size_t n)
{
    b->lost = b->lost || !previous_reserve(b, width, b->n + n);
    if (b->lost)
        return NULL;
    float *values = b->values + b->n * width;
    b->n += n;
    return values;
}

float *previous_take(struct previous *b, uint32_t width, const uint64_t *keys, size_t n)
{
    // previous_begin must be called before, because the index would lack rows that are added
    // now.
    assert(!b->indexed);
    float *values = n > 0 ? more(b, width, n) : NULL;
    if (values != NULL)
        memcpy(b->keys + b->n - n, keys, n * sizeof(*keys));
    return values;
}

void previous_shorten(struct previous *b, size_t n)
{
    assert(!b->indexed);
    b->n = n < b->n ? n : b->n;
}

bool previous_append(struct previous *b, uint32_t width, const struct previous *other)
{
    if (b->lost || other->n == 0)
        return true;
    if (!previous_reserve(b, width, b->n + other->n))
        return false;
    memcpy(b->keys + b->n, other->keys, other->n * sizeof(*b->keys));
    memcpy(b->values + b->n * width, other->values, other->n * width * sizeof(float));
    b->n += other->n;
    b->indexed = false;
    return true;
}

bool previous_index(struct previous *b)
{
    if (b->indexed || b->lost)
        return !b->lost;
    if (key_set_reserve(&b->index, b->n) != 0) {
        b->lost = true;
        return false;
    }
    key_set_clear(&b->index, b->n);
    for (size_t i = 0; i < b->n; i++)
        *key_set_place(&b->index, b->keys, b->keys[i]) = (uint32_t)i + 1;
    b->indexed = true;
    return true;
}

const float *previous_find(const struct previous *b, uint32_t width, uint64_t key)
{
    assert(b->indexed && !b->lost);
    uint32_t number = *key_set_place(&b->index, b->keys, key);
    return number != 0 ? b->values + (number - 1) * (size_t)width : NULL;
}
