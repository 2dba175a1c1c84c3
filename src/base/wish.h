// Interprets signals that ask a process to end. A sender that ends a group of processes
// often sends several within milliseconds: `timeout` one to its child and one to the
// group, a terminal SIGINT to all of which a launcher passes on SIGTERM, a closed
// terminal SIGHUP and SIGTERM. All signals within a second of the first are one request
// to end in order; a later one comes from a user that will not wait.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_WISH_H
#define TUG_BASE_WISH_H

#include <stdatomic.h>
#include <stdint.h>

enum { WISH_SAME_NS = 1000000000 };

struct wish {
    _Atomic uint64_t first; // when it came, by clock_ns; 0: not yet
};

enum wish_said {
    WISH_FIRST,
    WISH_SAME, // as before
    WISH_AT_ONCE,
};

// A signal came at `now`, which is not 0. A handler of signals may call it, in any thread.
static inline enum wish_said wish_take(struct wish *w, uint64_t now)
{
    uint64_t first = 0;
    if (atomic_compare_exchange_strong(&w->first, &first, now))
        return WISH_FIRST;
    return now < first || now - first < WISH_SAME_NS ? WISH_SAME : WISH_AT_ONCE;
}

#endif
