// The clock of bounded delay: it has the clock of each worker in a table, and that
// of the slowest living worker. A worker counts from its first tick on: before that
// it may still be reading its data, and the others would wait for it. Pure: no clock
// of the machine, no I/O.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CLOCKS_SSP_CLOCK_H
#define TUG_SERVER_CLOCKS_SSP_CLOCK_H

#include <stdbool.h>

#include "server/sessions.h"

#define SSP_FINISHED UINT64_MAX

struct ssp_worker {
    uint64_t session;
    // The worker's clock. SSP_FINISHED if the worker has finished: then no
    // other worker waits for it.
    uint64_t clock;
    uint64_t request; // request number of the worker's newest tick
    bool living;
    bool ticked; // whether the worker counts, because it has sent a tick
};

struct buf;
struct err;
struct stream;

struct ssp_clock {
    struct sessions workers;
    uint64_t slowest; // the smallest clock of living workers that count; SSP_FINISHED if
                      // there are none
    bool all_count;   // for tests: workers that have sent no tick count as well
};

#define SSP_CLOCK_INIT ((struct ssp_clock){.slowest = SSP_FINISHED})
void ssp_clock_fini(struct ssp_clock *c);

// Sets the living sessions to exactly these n, and drops ended ones. On TUG_ENOMEM
// nothing has changed.
int ssp_clock_living(struct ssp_clock *c, const uint64_t *sessions, size_t n);

// Records a tick: all pushes of the session for clocks below `clock` are acknowledged.
// The clock of a session never decreases, except that a finished session may begin again
// at any clock. `request` grows with each tick of a session, so that a late earlier tick
// is ignored.
int ssp_clock_tick(struct ssp_clock *c, uint64_t session, uint64_t request,
                   uint64_t clock);

// ssp_clock_get appends the newest tick of each session to *to. ssp_clock_put merges the
// ticks that another shard has appended: for each session it keeps the tick with the
// larger request number. ssp_clock_put returns 0, TUG_EDATA or TUG_ENOMEM.
int ssp_clock_get(const struct ssp_clock *c, struct buf *to);
int ssp_clock_put(struct ssp_clock *c, struct stream *x, struct err *e);

// Returns whether other workers must wait for w when w is behind.
static inline bool ssp_clock_counts(const struct ssp_clock *c, const struct ssp_worker *w)
{
    return w->living && (w->ticked || c->all_count);
}

// Returns whether a pull of a worker at `clock` can be answered now.
static inline bool ssp_clock_open(const struct ssp_clock *c, uint64_t clock,
                                  uint64_t staleness)
{
    return clock <= staleness || c->slowest >= clock - staleness;
}

#endif
