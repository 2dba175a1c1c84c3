// The state of any process of this machine, from /proc.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_PROCESS_STATE_H
#define TUG_OS_PROCESS_STATE_H

#include <stdbool.h>
#include <sys/types.h>

// Returns the letter of the state as in proc(5): 'R', 'S', 'T' (stopped by a signal), 't'
// (stopped by a debugger), 'Z' (a zombie), ... 0 if the process does not exist, or /proc is
// missing.
char process_state(pid_t pid);

// Returns whether a signal (SIGSTOP) or a debugger has stopped the process.
static inline bool process_is_stopped(pid_t pid)
{
    char state = process_state(pid);
    return state == 'T' || state == 't';
}

#endif
