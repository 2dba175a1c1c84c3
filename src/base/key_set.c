// Memory of sets of keys, and numbering of keys.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/key_set.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"

enum { AHEAD = 8 }; // keys between the prefetch of a place and its use

static size_t places_for(size_t n)
{
    size_t places = 8;
    while (places < 4 * n)
        places *= 2;
    return places;
}

int key_set_reserve(struct key_set *s, size_t n)
{
    size_t places = places_for(n);
    if (places <= s->room)
        return 0;
    uint32_t *more = mem_array(places, sizeof(*more));
    if (more == NULL)
        return TUG_ENOMEM;
    mem_free(s->places);
    *s = (struct key_set){.places = more, .room = places};
    return 0;
}

void key_set_fini(struct key_set *s)
{
    mem_free(s->places);
    *s = (struct key_set){0};
}

void key_set_clear(struct key_set *s, size_t n)
{
    size_t places = places_for(n);
    assert(places <= s->room);
    memset(s->places, 0, places * sizeof(*s->places));
    s->mask = places - 1;
}

size_t key_set_number(struct key_set *s, const uint64_t *keys, size_t n,
                      uint64_t *distinct, uint32_t *which)
{
    uint32_t found = 0;
    key_set_clear(s, n);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            key_set_prefetch(s, keys[i + AHEAD]);
        uint32_t *place = key_set_place(s, distinct, keys[i]);
        if (*place == 0) {
            distinct[found] = keys[i];
            *place = ++found;
        }
        which[i] = *place - 1;
    }
    return found;
}
