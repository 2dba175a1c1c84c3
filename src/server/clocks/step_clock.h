// The global step: the sum of the steps of all sessions. Pure: no clock, no I/O.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CLOCKS_STEP_CLOCK_H
#define TUG_SERVER_CLOCKS_STEP_CLOCK_H

#include "server/sessions.h"

// Limit of the steps of a session, and of their sum, which therefore never overflows.
#define STEP_CLOCK_MAX ((uint64_t)INT64_MAX)

struct step_clock {
    struct sessions sessions;
    uint64_t ended; // steps of sessions that have ended, and of the save that was loaded
};

void step_clock_fini(struct step_clock *c); // a zeroed one is fine

// Sets the number of steps of a session; a smaller number than before is ignored. Returns
// 0 or TUG_ENOMEM.
int step_clock_set(struct step_clock *c, uint64_t session, uint64_t steps);
// Ends a session; its steps stay in the sum.
void step_clock_end(struct step_clock *c, uint64_t session);
// Adds the steps of earlier training.
void step_clock_begin(struct step_clock *c, uint64_t steps);
uint64_t step_clock_sum(const struct step_clock *c);

#endif
