// Decides whether a run can continue when a process has ended, and how the whole run
// ends. These are pure rules, which do not touch processes.
//
//   the scheduler       decides how a training run ended; later ends of other processes
//                       do not count
//   a server            with exit code 0 it was dismissed; else the rows it held are lost,
//                       unless there are replicas: then the scheduler decides
//   a worker            after a signal or a network error (exit code 4) the others take
//                       over its work, unless it was the last worker
//   exit code 2, 3, 5   would happen to all others, too: wrong usage, bad data, a bug
//
// A program that does not train may have no scheduler. Then the first failure determines
// the exit code, and the run is over when all processes have ended. If the last words of
// that process name another one that has failed, the other one is the cause.
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
    int code, signal; // exit code and signal, as wait returns them
    const char *said; // the last line of the process's standard error, or ""
    int pid;          // 0: unknown, because the process has a supervisor
    bool asked;       // the process was asked to end, so its end is no sign of a failure
};

enum exit_policy_next {
    EXIT_POLICY_GO_ON,
    // The run cannot continue without the process. The scheduler will notice the loss and
    // report it.
    EXIT_POLICY_SETTLE,
    EXIT_POLICY_TOLD,  // as EXIT_POLICY_SETTLE, but the process itself has told the
                       // scheduler, if it could reach the scheduler
    EXIT_POLICY_LEAVE, // the scheduler has ended and told the other processes to leave
    EXIT_POLICY_END,   // end the other processes now
};

enum {
    EXIT_POLICY_TEXT_MAX = 768,
    EXIT_POLICY_SAID_MAX = 512,
    EXIT_POLICY_FAILURES_MAX = 16 // the most failures that are stored
};

struct exit_policy_failure {
    char name[24]; // "worker 1"
    char said[EXIT_POLICY_SAID_MAX], text[EXIT_POLICY_TEXT_MAX];
    int status;
};

struct exit_policy {
    bool program; // the run is of a program, not of `train`
    struct exit_policy_failure failures[EXIT_POLICY_FAILURES_MAX]; // filled if `program`
    uint32_t n_failures, decisive; // decisive: index of the failure that ended the run
    uint32_t workers;
    bool replicas; // other servers hold the partitions of a server that was killed
    uint32_t workers_ended, workers_done; // workers_done: number with exit code 0
    bool scheduler_ended;
    bool killed;    // `end` says that a process was killed
    struct err end; // the error that ended the run, as far as known; code 0: no error
};

// replicas: each partition has more than one.
void exit_policy_open(struct exit_policy *v, bool program, uint32_t workers,
                      bool replicas);
enum exit_policy_next exit_policy_exit(struct exit_policy *v,
                                       const struct launch_exit *x);
void exit_policy_interrupted(struct exit_policy *v);

// Describes the end of a process: "worker 1 (process 77) was killed by signal 9
// (Killed)", "server 0 ended with exit code 3: ...". The process id, left out if it is 0,
// helps to find messages about the process, such as those of the kernel's out-of-memory
// killer.
const char *exit_policy_describe(const struct launch_exit *x,
                                 char to[EXIT_POLICY_TEXT_MAX]);

const char *launch_role_name(enum launch_role role);

#endif
