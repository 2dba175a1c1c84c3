// Copies of rows: written in passing, indexed only when somebody asks.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/before.h"

#include <string.h>

#include "base/alloc.h"

void before_free(struct before *b)
{
    mem_free(b->handles);
    mem_free(b->values);
    mem_free(b->places);
    *b = (struct before){0};
}

void before_begin(struct before *b)
{
    b->n = 0;
    b->lost = b->indexed = false;
}

static bool reserve(struct before *b, size_t width, size_t n)
{
    if (n <= b->cap)
        return true;
    size_t cap = n + n / 2 + 1024;
    uint32_t *handles = mem_realloc_array(b->handles, cap, sizeof(*handles));
    b->handles = handles != NULL ? handles : b->handles;
    float *values = mem_realloc_array(b->values, cap * width, sizeof(*values));
    b->values = values != NULL ? values : b->values;
    if (handles == NULL || values == NULL)
        return false;
    b->cap = cap;
    return true;
}

void before_add(struct before *b, const struct accessor *a, const uint32_t *handles,
                float *const *rows, size_t n)
{
    if (b->lost || !reserve(b, a->pull_width, b->n + n)) {
        b->lost = true;
        return;
    }
    if (n == 0)
        return;
    memcpy(b->handles + b->n, handles, n * sizeof(*handles));
    accessor_gather(a, rows, n, b->values + b->n * a->pull_width);
    b->n += n;
}

static size_t place_of(uint32_t handle, size_t n_places)
{
    return handle * 0x9e3779b1u & (n_places - 1);
}

static bool make_room(struct before *b)
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

bool before_index(struct before *b)
{
    if (b->indexed || b->lost)
        return !b->lost;
    if (!make_room(b)) {
        b->lost = true;
        return false;
    }
    for (size_t i = 0; i < b->n; i++) {
        size_t at = place_of(b->handles[i], b->n_places);
        while (b->places[at] != 0)
            at = (at + 1) & (b->n_places - 1);
        b->places[at] = (uint32_t)i + 1;
    }
    b->indexed = true;
    return true;
}

const float *before_find(const struct before *b, const struct accessor *a,
                         uint32_t handle)
{
    size_t at = place_of(handle, b->n_places);
    for (; b->places[at] != 0; at = (at + 1) & (b->n_places - 1))
        if (b->handles[b->places[at] - 1] == handle)
            return b->values + (b->places[at] - 1) * (size_t)a->pull_width;
    return NULL;
}
