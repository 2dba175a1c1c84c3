// Open addressing with linear probing. When a mark is removed, the entries behind it move
// up (Knuth, The Art of Computer Programming, volume 3, 6.4, algorithm R).
//
// SPDX-License-Identifier: Apache-2.0
#include "server/rows/marks.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/search.h"

enum { LEAST_PLACES = 64 };

void marks_fini(struct marks *m)
{
    budget_give(m->budget, BUDGET_CLOCKS, m->n_places * sizeof(*m->places));
    mem_free(m->places);
    *m = (struct marks){.budget = m->budget};
}

static size_t home_of(const struct marks *m, uint64_t session)
{
    return mix64(session) & (m->n_places - 1);
}

static void marks_put(struct marks *m, const struct save_mark *mark)
{
    size_t at = home_of(m, mark->session);
    assert(2 * m->n <= m->n_places); // so that every search ends at a free entry
    while (m->places[at].session != 0)
        at = (at + 1) & (m->n_places - 1);
    m->places[at] = *mark;
}

static int marks_grow(struct marks *m)
{
    struct marks larger = {.budget = m->budget, .n = m->n};
    larger.n_places = m->n_places > 0 ? 2 * m->n_places : LEAST_PLACES;
    size_t bytes = larger.n_places * sizeof(*larger.places);
    if (!budget_take(m->budget, BUDGET_CLOCKS, bytes))
        return TUG_EIO;
    larger.places = mem_zalloc(bytes);
    if (larger.places == NULL) {
        budget_give(m->budget, BUDGET_CLOCKS, bytes);
        return TUG_ENOMEM;
    }
    for (size_t i = 0; i < m->n_places; i++)
        if (m->places[i].session != 0)
            marks_put(&larger, &m->places[i]);
    marks_fini(m);
    *m = larger;
    return 0;
}

int marks_add(struct marks *m, const struct save_mark *mark)
{
    assert(mark->session != 0 && !marks_has(m, mark->save, mark->session));
    if (2 * (m->n + 1) > m->n_places)
        TRY(marks_grow(m));
    marks_put(m, mark);
    m->n++;
    return 0;
}

const struct save_mark *marks_next(const struct marks *m, uint64_t session,
                                   size_t *cursor)
{
    if (m->n == 0)
        return NULL;
    size_t home = home_of(m, session);
    for (;;) {
        const struct save_mark *at = &m->places[(home + *cursor) & (m->n_places - 1)];
        ++*cursor;
        if (at->session == 0)
            return NULL;
        if (at->session == session)
            return at;
    }
}

bool marks_has(const struct marks *m, uint64_t save, uint64_t session)
{
    size_t cursor = 0;
    const struct save_mark *mark;
    while ((mark = marks_next(m, session, &cursor)) != NULL)
        if (mark->save == save)
            return true;
    return false;
}

static void close_up(struct marks *m, size_t gap)
{
    assert(m->places[gap].session != 0 && m->n > 0);
    probe_close(gap, m->n_places - 1, i, m->places[i].session != 0,
                home_of(m, m->places[i].session), m->places[gap] = m->places[i]);
    m->places[gap] = (struct save_mark){0};
}

// Removes marks. An entry that moves into the place of a removed one is checked there,
// even if it was checked before.
void marks_remove(struct marks *m, bool (*goes)(void *ctx, const struct save_mark *mark),
                  void *ctx)
{
    for (size_t i = 0; i < m->n_places && m->n > 0;) {
        if (m->places[i].session == 0 || !goes(ctx, &m->places[i])) {
            i++;
            continue;
        }
        close_up(m, i);
        m->n--;
    }
}
