// The clock of bounded delay: see ssp_clock.h. The slowest worker is determined again
// when a worker has made progress or has ended.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/ssp_clock.h"

#include <assert.h>

#include "base/err.h"
#include "server/moves/stream.h"

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

// A tick is sent to another shard as this many numbers: session, request, clock.
enum { TICK_WORDS = 3 };

int ssp_clock_get(const struct ssp_clock *c, struct buf *to)
{
    const struct ssp_worker *w = c->workers.first;
    uint64_t n = 0;
    for (size_t i = 0; i < c->workers.n; i++)
        n += w[i].ticked;
    TRY(stream_add_u64s(to, &n, 1));
    for (size_t i = 0; i < c->workers.n; i++) {
        uint64_t tick[TICK_WORDS] = {w[i].session, w[i].request, w[i].clock};
        if (w[i].ticked)
            TRY(stream_add_u64s(to, tick, TICK_WORDS));
    }
    return 0;
}

int ssp_clock_put(struct ssp_clock *c, struct stream *x, struct err *e)
{
    uint64_t n;
    const uint64_t *tick = NULL;
    if (!stream_u64s(x, &n, 1) ||
        (tick = stream_take(x, n, TICK_WORDS * sizeof(*tick))) == NULL)
        return stream_damaged(e);
    for (uint64_t i = 0; i < n; i++, tick += TICK_WORDS) {
        if (tick[0] == 0)
            return stream_damaged(e);
        if (ssp_clock_tick(c, tick[0], tick[1], tick[2]) != 0)
            return err_nomem(e, "the workers of a table");
    }
    return 0;
}
