// The number of steps of each session, which is kept until the session ends.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/step_clock.h"

#include <assert.h>

#include "cluster/roster.h"
#include "server/moves/stream.h"

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

void step_clock_reach(struct step_clock *c, uint64_t least)
{
    uint64_t sum = step_clock_sum(c);
    if (sum < least)
        c->ended = step_clock_add(c->ended, least - sum);
}

int step_clock_get(const struct step_clock *c, struct buf *to)
{
    const struct step_session *s = c->sessions.first;
    uint64_t head[2] = {step_clock_sum(c), c->sessions.n};
    TRY(stream_add_u64s(to, head, 2));
    for (size_t i = 0; i < c->sessions.n; i++)
        TRY(stream_add(to, &s[i], sizeof(s[i])));
    return 0;
}

int step_clock_put(struct step_clock *c, const struct roster *r, struct stream *x,
                   struct err *e)
{
    uint64_t head[2];
    if (!stream_u64s(x, head, 2) || head[0] > STEP_CLOCK_MAX)
        return stream_damaged(e);
    const struct step_session *s = stream_take(x, head[1], sizeof(*s));
    for (uint64_t i = 0; s != NULL && i < head[1]; i++) {
        if (s[i].session == 0)
            return stream_damaged(e);
        if (!roster_session_over(r, s[i].session) &&
            step_clock_set(c, s[i].session, s[i].steps) != 0)
            return err_nomem(e, "the steps of a session");
    }
    if (s == NULL)
        return stream_damaged(e);
    step_clock_reach(c, head[0]);
    return 0;
}
