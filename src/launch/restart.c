// See restart.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/restart.h"

#include <signal.h>

#include "os/clock.h"

void restart_began(struct restart *r, uint64_t now_ns)
{
    r->began_ns = now_ns;
    r->due_ns = 0;
}

static bool was_killed(const struct launch_exit *x)
{
    return x->signal != 0 && x->signal != SIGINT && x->signal != SIGTERM &&
           x->signal != SIGHUP;
}

bool restart_plan(struct restart *r, const struct launch_exit *x, uint32_t limit,
                  uint64_t now_ns)
{
    if (x->asked || !was_killed(x) || r->times >= limit)
        return false;
    bool calm = now_ns - r->began_ns >= RESTART_CALM_SECONDS * SECOND_NS;
    r->delay = r->delay == 0 || calm ? RESTART_FIRST_SECONDS : 2 * r->delay;
    if (r->delay > RESTART_MOST_SECONDS)
        r->delay = RESTART_MOST_SECONDS;
    r->times++;
    r->due_ns = now_ns + (uint64_t)(r->delay * (double)SECOND_NS);
    return true;
}
