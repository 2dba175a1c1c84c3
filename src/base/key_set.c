// The memory of sets of keys.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/key_set.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"

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
