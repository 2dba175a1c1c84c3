// Ends a wait for data with TUG_EINTERRUPTED. A wait ends in two ways: its thread's
// descriptor becomes readable, which stops this thread alone; or a signal has set a flag,
// which all waits check from time to time.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_INTERRUPT_H
#define TUG_OS_INTERRUPT_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct interrupt {
    int wake_fd;             // the wait ends when this descriptor is readable; -1: none
    const atomic_bool *flag; // the wait ends when this flag is true; NULL: no flag
};

#define INTERRUPT_NEVER ((struct interrupt){.wake_fd = -1})

// Waits for the interrupt for at most `ms` milliseconds. Returns whether it has come.
static inline bool interrupt_comes(const struct interrupt *i, int ms)
{
    struct pollfd fd = {.fd = i->wake_fd, .events = POLLIN};
    bool woken = (i->wake_fd >= 0 || ms > 0) && poll(&fd, 1, ms) > 0;
    return woken || (i->flag != NULL && atomic_load(i->flag));
}

#endif
