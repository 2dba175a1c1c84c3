// Interprets signals that ask a process to end. Ending a process group often sends
// several within milliseconds: `timeout` sends one to its child and one to the group; a
// terminal sends SIGINT to all processes, and a launcher passes it on as SIGTERM; a
// closed terminal sends SIGHUP and SIGTERM. All signals within a second of the first
// count as one request to end in order. A later signal comes from a user who will not
// wait.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_WISH_H
#define TUG_OS_WISH_H

#include <stdatomic.h>
#include <stdint.h>

enum { WISH_SAME_NS = 1000000000 };

struct wish {
    _Atomic uint64_t first; // time of the first signal by clock_ns; 0: none yet
};

enum wish_said {
    WISH_FIRST,
    WISH_SAME, // the signal is a part of the first request
    WISH_AT_ONCE,
};

// Records a signal at time `now`, which is not 0. Signal handlers and any thread may call
// it.
static inline enum wish_said wish_take(struct wish *w, uint64_t now)
{
    uint64_t first = 0;
    if (atomic_compare_exchange_strong(&w->first, &first, now))
        return WISH_FIRST;
    return now < first || now - first < WISH_SAME_NS ? WISH_SAME : WISH_AT_ONCE;
}

#endif
