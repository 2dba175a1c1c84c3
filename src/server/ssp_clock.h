// The clock of bounded delay: how far each worker has come with a table, and how far the
// slowest of the living has. A worker counts from its first tick on: until then it may be
// busy with reading its data, and others would wait for it. Pure.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SSP_CLOCK_H
#define TUG_SERVER_SSP_CLOCK_H

#include <stdbool.h>

#include "server/sessions.h"

#define SSP_FINISHED UINT64_MAX

struct ssp_worker {
    uint64_t session;
    uint64_t clock;   // SSP_FINISHED: holds nobody up
    uint64_t request; // of its newest tick
    bool living;
    bool ticked; // counts
};

struct ssp_clock {
    struct sessions workers;
    uint64_t slowest; // of the living that count; SSP_FINISHED when there is none
    bool all_count;   // tests: also those who have not ticked yet
};

#define SSP_CLOCK_INIT ((struct ssp_clock){.slowest = SSP_FINISHED})
void ssp_clock_fini(struct ssp_clock *c);

// The living are exactly these n sessions; ended ones are dropped. TUG_ENOMEM: unchanged.
int ssp_clock_living(struct ssp_clock *c, const uint64_t *sessions, size_t n);

// All pushes of the session's clocks below are acknowledged. It never goes back, but a
// finished session may begin again, at any clock. `request` grows from tick to tick of a
// session: a late earlier one changes nothing.
int ssp_clock_tick(struct ssp_clock *c, uint64_t session, uint64_t request,
                   uint64_t clock);

// Whether others wait for it.
static inline bool ssp_clock_counts(const struct ssp_clock *c, const struct ssp_worker *w)
{
    return w->living && (w->ticked || c->all_count);
}

// Returns whether a pull at `clock` need not wait.
static inline bool ssp_clock_open(const struct ssp_clock *c, uint64_t clock,
                                  uint64_t staleness)
{
    return clock <= staleness || c->slowest >= clock - staleness;
}

#endif
