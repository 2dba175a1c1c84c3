// Decides whether a run can continue when one of its processes has ended, and how the
// whole run ends: pure rules, without processes.
//
//   the scheduler     it decides how a training run ended; whatever the others do after
//                     it counts no more
//   a server          with exit code 0 it has been let go; else what it held is lost
//   a worker          lost to a signal or the network (exit code 4) the others take its
//                     work over, unless it was the last
//   exit code 2, 3, 5 the same would happen to all others: wrong usage, bad data, a bug
//
// Programs that are no training need not have a scheduler that decides: there the first
// failure counts, and the run is over when all have ended.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_EXIT_POLICY_H
#define TUG_LAUNCH_EXIT_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum launch_role { LAUNCH_SCHEDULER, LAUNCH_SERVER, LAUNCH_WORKER };

struct launch_exit {
    enum launch_role role;
    uint32_t rank;
    int code, signal; // as wait tells
    const char *said; // the last line of its standard error, or ""
    int pid;          // 0: of a supervisor, not its own
};

enum exit_policy_next {
    EXIT_POLICY_GO_ON,
    EXIT_POLICY_SETTLE, // it cannot go on: the scheduler will notice and tell what is lost
    EXIT_POLICY_TOLD, // likewise, and the scheduler has been told, if it was reached at all
    EXIT_POLICY_LEAVE, // the scheduler has ended and told the others to leave
    EXIT_POLICY_END,   // end the others now
};

struct exit_policy {
    bool program; // not a training run
    uint32_t workers;
    uint32_t workers_ended, workers_done; // done: with exit code 0
    bool scheduler_ended;
    bool killed;    // what is in `end` is that one of them was
    struct err end; // how the run ended, so far; code 0: well
};

void exit_policy_open(struct exit_policy *v, bool program, uint32_t workers);
enum exit_policy_next exit_policy_exit(struct exit_policy *v,
                                       const struct launch_exit *x);
void exit_policy_interrupted(struct exit_policy *v);

// "worker 1 (process 77) was killed by signal 9 (Killed)", "server 0 ended with exit code
// 3: ...". The scheduler gives out ranks of its own: the process is what both agree on.
enum { EXIT_POLICY_TEXT_MAX = 768 };
const char *exit_policy_describe(const struct launch_exit *x,
                                 char to[EXIT_POLICY_TEXT_MAX]);

const char *launch_role_name(enum launch_role role);

#endif
