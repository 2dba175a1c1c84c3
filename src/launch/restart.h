// Decides whether launch starts a process of a run again after its end, and when: pure rules,
// which do not touch processes.
//
// A scheduler or a worker that was killed is started again: the scheduler continues with
// its state, and the worker leases pieces anew. A server joins the cluster anew; without
// replicas it is not started again, because its rows are gone (launch.c). Nor is a
// process that ended by itself: it would end again for the same reason. The first restart
// of a process comes after RESTART_FIRST_SECONDS, and each further one after twice that
// time, up to RESTART_MOST_SECONDS, unless the process has lived for
// RESTART_CALM_SECONDS.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_RESTART_H
#define TUG_LAUNCH_RESTART_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/exit_policy.h"

#define RESTART_FIRST_SECONDS .25
enum { RESTART_MOST_SECONDS = 30, RESTART_CALM_SECONDS = 60 };

struct restart {
    uint32_t times; // how often the process was started again
    uint64_t began_ns;
    double delay;    // delay before the last restart, in seconds; 0: no restart yet
    uint64_t due_ns; // time at which the process is to be started again; 0: it is not
};

// Records that a process has begun.
void restart_began(struct restart *r, uint64_t now_ns);

// Decides whether a process that has ended is started again, which may happen `limit`
// times. If so, counts the restart, sets its time r->due_ns, and returns true.
bool restart_plan(struct restart *r, const struct launch_exit *x, uint32_t limit,
                  uint64_t now_ns);

#endif
