// The global step: the sum of the steps of all sessions. Pure: no clock, no I/O.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CLOCKS_STEP_CLOCK_H
#define TUG_SERVER_CLOCKS_STEP_CLOCK_H

#include "server/sessions.h"

// Limit of the steps of a session, and of their sum, which therefore never overflows.
#define STEP_CLOCK_MAX ((uint64_t)INT64_MAX)

struct buf;
struct err;
struct roster;
struct stream;

struct step_clock {
    struct sessions sessions;
    uint64_t ended; // steps of sessions that have ended, and of the save that was loaded
};

void step_clock_fini(struct step_clock *c); // *c may be zeroed

// Sets the number of steps of a session; a smaller number than before is ignored. Returns
// 0 or TUG_ENOMEM.
int step_clock_set(struct step_clock *c, uint64_t session, uint64_t steps);
// Ends a session; its steps stay in the sum.
void step_clock_end(struct step_clock *c, uint64_t session);
// Raises the sum of all sessions to this number, if the sum is smaller.
void step_clock_reach(struct step_clock *c, uint64_t least);
// Adds the steps of the training before the save that was loaded.
void step_clock_begin(struct step_clock *c, uint64_t steps);
uint64_t step_clock_sum(const struct step_clock *c);

// step_clock_get appends the numbers of steps to *to. step_clock_put merges the numbers
// that another shard has appended: for each session, and for the sum, it keeps the larger
// number. Steps of a session that has ended, by the roster r, count only in the sum.
// step_clock_put returns 0, TUG_EDATA or TUG_ENOMEM.
int step_clock_get(const struct step_clock *c, struct buf *to);
int step_clock_put(struct step_clock *c, const struct roster *r, struct stream *x,
                   struct err *e);

#endif
