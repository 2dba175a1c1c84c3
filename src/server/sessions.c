// Records of sessions, found by bisection: see sessions.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/sessions.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/search.h"

void sessions_fini(struct sessions *a)
{
    mem_free(a->first);
    *a = (struct sessions){0};
}

static char *sessions_place(const struct sessions *a, size_t i)
{
    return (char *)a->first + i * a->size;
}

uint64_t sessions_at(const struct sessions *a, size_t i)
{
    uint64_t session;
    assert(i < a->n);
    memcpy(&session, sessions_place(a, i), sizeof(session));
    return session;
}

// Returns the index at which the session's record is, or would be inserted.
static size_t number_of(const struct sessions *a, uint64_t session)
{
    return search_first(0, a->n, i, sessions_at(a, i) >= session);
}

void *sessions_find(const struct sessions *a, uint64_t session)
{
    size_t i = number_of(a, session);
    return i < a->n && sessions_at(a, i) == session ? sessions_place(a, i) : NULL;
}

int sessions_reserve(struct sessions *a, size_t size, size_t more)
{
    size_t max = a->max > 0 ? a->max : 8;
    while (max < a->n + more)
        max *= 2;
    if (max == a->max)
        return 0;
    void *first = mem_realloc_array(a->first, max, size);
    if (first == NULL)
        return TUG_ENOMEM;
    a->first = first;
    a->size = size;
    a->max = max;
    return 0;
}

void *sessions_make(struct sessions *a, size_t size, uint64_t session)
{
    void *found = sessions_find(a, session);
    if (found != NULL || sessions_reserve(a, size, 1) != 0)
        return found;
    size_t i = number_of(a, session);
    char *at = sessions_place(a, i);
    assert(a->size == size && (i == 0 || sessions_at(a, i - 1) < session));
    memmove(at + size, at, (a->n - i) * size);
    memset(at, 0, size);
    memcpy(at, &session, sizeof(session));
    a->n++;
    return at;
}

void sessions_remove(struct sessions *a, void *one)
{
    char *at = one;
    if (at == NULL)
        return;
    assert(a->n > 0 && at >= sessions_place(a, 0) && at < sessions_place(a, a->n));
    a->n--;
    memmove(at, at + a->size, (size_t)(sessions_place(a, a->n) - at));
}
