// The clock of bounded delay: see ssp_clock.h. The slowest worker is determined again
// when a worker has made progress or has ended.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/ssp_clock.h"

#include <assert.h>

#include "base/err.h"

void ssp_clock_fini(struct ssp_clock *c)
{
    sessions_fini(&c->workers);
    *c = SSP_CLOCK_INIT;
}

static void find_slowest(struct ssp_clock *c)
{
    const struct ssp_worker *w = c->workers.first;
    c->slowest = SSP_FINISHED;
    for (size_t i = 0; i < c->workers.n; i++)
        if (ssp_clock_counts(c, &w[i]) && w[i].clock < c->slowest)
            c->slowest = w[i].clock;
}

int ssp_clock_living(struct ssp_clock *c, const uint64_t *sessions, size_t n)
{
    struct sessions *all = &c->workers;
    TRY(sessions_reserve(all, sizeof(struct ssp_worker), n));
    struct ssp_worker *w = all->first, *known;
    size_t left = 0;
    for (size_t i = 0; i < all->n; i++)
        w[i].living = false;
    for (size_t i = 0; i < n; i++) {
        known = sessions_make(all, sizeof(*w), sessions[i]);
        known->living = true;
    }
    for (size_t i = 0; i < all->n; i++)
        if (w[i].living)
            w[left++] = w[i];
    all->n = left;
    assert(all->n <= n);
    find_slowest(c);
    return 0;
}

int ssp_clock_tick(struct ssp_clock *c, uint64_t session, uint64_t request,
                   uint64_t clock)
{
    struct ssp_worker *w = sessions_make(&c->workers, sizeof(*w), session);
    if (w == NULL)
        return TUG_ENOMEM;
    if (request < w->request)
        return 0;
    w->request = request;
    w->ticked = true;
    if (clock > w->clock || w->clock == SSP_FINISHED)
        w->clock = clock;
    find_slowest(c);
    return 0;
}
