// A sorted array of workers: there are few, and they change rarely.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/ssp_clock.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"

void ssp_clock_fini(struct ssp_clock *c)
{
    mem_free(c->workers);
    *c = SSP_CLOCK_INIT;
}

static size_t place_of(const struct ssp_clock *c, uint64_t session)
{
    size_t low = 0, high = c->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (c->workers[mid].session < session)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void find_slowest(struct ssp_clock *c)
{
    c->slowest = SSP_FINISHED;
    for (size_t i = 0; i < c->n; i++)
        if (ssp_clock_counts(c, &c->workers[i]) && c->workers[i].clock < c->slowest)
            c->slowest = c->workers[i].clock;
}

static int reserve(struct ssp_clock *c, size_t n)
{
    if (n <= c->max)
        return 0;
    struct ssp_worker *w = mem_realloc_array(c->workers, n + 16, sizeof(*w));
    if (w == NULL)
        return TUG_ENOMEM;
    c->workers = w;
    c->max = n + 16;
    return 0;
}

// There is room.
static struct ssp_worker *worker_of(struct ssp_clock *c, uint64_t session)
{
    size_t at = place_of(c, session);
    struct ssp_worker *w = &c->workers[at];
    if (at < c->n && w->session == session)
        return w;
    assert(c->n < c->max);
    memmove(w + 1, w, (c->n - at) * sizeof(*w));
    c->n++;
    *w = (struct ssp_worker){.session = session};
    return w;
}

int ssp_clock_living(struct ssp_clock *c, const uint64_t *sessions, size_t n)
{
    TRY(reserve(c, c->n + n));
    for (size_t i = 0; i < c->n; i++)
        c->workers[i].living = false;
    for (size_t i = 0; i < n; i++)
        worker_of(c, sessions[i])->living = true;
    size_t left = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->workers[i].living)
            c->workers[left++] = c->workers[i];
    c->n = left;
    assert(c->n <= n);
    find_slowest(c);
    return 0;
}

int ssp_clock_tick(struct ssp_clock *c, uint64_t session, uint64_t request,
                   uint64_t clock)
{
    TRY(reserve(c, c->n + 1));
    struct ssp_worker *w = worker_of(c, session);
    if (request < w->request)
        return 0;
    w->request = request;
    w->ticked = true;
    if (clock > w->clock || w->clock == SSP_FINISHED)
        w->clock = clock;
    find_slowest(c);
    return 0;
}
