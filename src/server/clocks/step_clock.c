// The number of steps of each session, which is kept until the session ends.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/step_clock.h"

#include <assert.h>

#include "base/err.h"

struct step_session {
    uint64_t session, steps;
};

void step_clock_fini(struct step_clock *c)
{
    sessions_fini(&c->sessions);
    *c = (struct step_clock){0};
}

static uint64_t step_clock_add(uint64_t a, uint64_t b)
{
    a = a < STEP_CLOCK_MAX ? a : STEP_CLOCK_MAX;
    return b < STEP_CLOCK_MAX - a ? a + b : STEP_CLOCK_MAX;
}

int step_clock_set(struct step_clock *c, uint64_t session, uint64_t steps)
{
    struct step_session *s = sessions_make(&c->sessions, sizeof(*s), session);
    if (s == NULL)
        return TUG_ENOMEM;
    steps = step_clock_add(steps, 0);
    s->steps = steps > s->steps ? steps : s->steps;
    return 0;
}

void step_clock_end(struct step_clock *c, uint64_t session)
{
    struct step_session *s = sessions_find(&c->sessions, session);
    if (s != NULL)
        c->ended = step_clock_add(c->ended, s->steps);
    sessions_remove(&c->sessions, s);
}

void step_clock_begin(struct step_clock *c, uint64_t steps)
{
    steps = step_clock_add(steps, 0);
    c->ended = steps > c->ended ? steps : c->ended;
}

uint64_t step_clock_sum(const struct step_clock *c)
{
    const struct step_session *s = c->sessions.first;
    uint64_t sum = c->ended;
    for (size_t i = 0; i < c->sessions.n; i++)
        sum = step_clock_add(sum, s[i].steps);
    // the sum never decreases or overflows
    assert(sum >= c->ended && sum <= STEP_CLOCK_MAX);
    return sum;
}
