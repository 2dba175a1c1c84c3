// A list of sessions, as long as there are workers.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/step_clock.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/err.h"

void step_clock_fini(struct step_clock *c)
{
    mem_free(c->sessions);
    *c = (struct step_clock){0};
}

static struct step_session *find(const struct step_clock *c, uint64_t session)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->sessions[i].session == session)
            return &c->sessions[i];
    return NULL;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    a = a < STEP_CLOCK_MAX ? a : STEP_CLOCK_MAX;
    return b < STEP_CLOCK_MAX - a ? a + b : STEP_CLOCK_MAX;
}

int step_clock_set(struct step_clock *c, uint64_t session, uint64_t steps)
{
    struct step_session *s = find(c, session);
    if (s == NULL && c->n == c->max) {
        size_t max = c->max > 0 ? 2 * c->max : 8;
        void *more = mem_realloc_array(c->sessions, max, sizeof(*c->sessions));
        if (more == NULL)
            return TUG_ENOMEM;
        c->sessions = more;
        c->max = max;
    }
    if (s == NULL) {
        s = &c->sessions[c->n++];
        *s = (struct step_session){.session = session};
    }
    steps = add(steps, 0);
    s->steps = steps > s->steps ? steps : s->steps;
    return 0;
}

void step_clock_end(struct step_clock *c, uint64_t session)
{
    struct step_session *s = find(c, session);
    if (s == NULL)
        return;
    c->ended = add(c->ended, s->steps);
    *s = c->sessions[--c->n];
}

void step_clock_begin(struct step_clock *c, uint64_t steps)
{
    steps = add(steps, 0);
    c->ended = steps > c->ended ? steps : c->ended;
}

uint64_t step_clock_sum(const struct step_clock *c)
{
    uint64_t sum = c->ended;
    for (size_t i = 0; i < c->n; i++)
        sum = add(sum, c->sessions[i].steps);
    assert(sum >= c->ended && sum <= STEP_CLOCK_MAX); // it never goes back by wrapping
    return sum;
}
