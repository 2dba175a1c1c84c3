// The global step: what the steps of all sessions add up to. Pure.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_STEP_CLOCK_H
#define TUG_SERVER_STEP_CLOCK_H

#include "server/sessions.h"

// Steps of a session, and of all: counts stop at their limit, and the sum never wraps.
#define STEP_CLOCK_MAX ((uint64_t)INT64_MAX)

struct step_clock {
    struct sessions sessions;
    uint64_t ended; // of sessions that have ended, and of the save that was loaded
};

void step_clock_fini(struct step_clock *c); // a zeroed one is fine

// The session has done so many steps; less than before is old news. TUG_ENOMEM.
int step_clock_set(struct step_clock *c, uint64_t session, uint64_t steps);
// Its steps stay, but nothing of it comes any more.
void step_clock_end(struct step_clock *c, uint64_t session);
// Earlier training counts, too.
void step_clock_begin(struct step_clock *c, uint64_t steps);
uint64_t step_clock_sum(const struct step_clock *c);

#endif
