// A wait for other workers. These may be slow as long as they live, so the wait has no
// deadline, but from time to time reports the awaited workers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_WAITING_H
#define TUG_TRAIN_CLUSTER_WAITING_H

#include <stdbool.h>

#include "os/clock.h"

struct waiting {
    // Times (clock_seconds) of the beginning of the wait and of its next report.
    double began, due;
};

static inline struct waiting waiting_begin(double patience)
{
    double now = clock_seconds();
    return (struct waiting){now, now + patience};
}

// Returns whether to report now, with the seconds of the wait so far. The next report is
// due when the wait has lasted twice as long as now, but at most an hour later.
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
