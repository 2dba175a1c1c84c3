// A wait for other workers, which may be slow as long as they live: it has no deadline,
// and from time to time reports the awaited workers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REMOTE_WAITING_H
#define TUG_REMOTE_WAITING_H

#include <stdbool.h>

#include "base/clock.h"

struct waiting {
    double began, due; // by clock_seconds
};

static inline struct waiting waiting_begin(double patience)
{
    double now = clock_seconds();
    return (struct waiting){now, now + patience};
}

// Whether to tell now, after *ret_seconds; the next time when the wait is twice as long, or by
// an hour longer.
static inline bool waiting_is_due(struct waiting *w, double *ret_seconds)
{
    enum { RARELY = 3600 };
    double now = clock_seconds(), waited = now - w->began;
    if (now < w->due)
        return false;
    w->due = now + (waited < RARELY ? waited : RARELY);
    *ret_seconds = waited;
    return true;
}

#endif
