// Lets a process wait until all servers and workers of its cluster have joined.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_READY_H
#define TUG_RUNTIME_READY_H

#include <stdbool.h>

#include "cluster/member.h"
#include "os/clock.h"
#include "runtime/pump.h"
#include "runtime/role.h"

// The additional time that a process waits for the complete cluster, beyond the
// scheduler's wait. So the scheduler's error, which names the missing processes, arrives
// before the process's own wait ends.
#define READY_LONGER_NS (5 * SECOND_NS)

// Waits until over(ctx) is true: for up to `seconds`, and READY_LONGER_NS more if the
// scheduler has admitted the process. *ret_seconds becomes the time limit that applied.
// Returns false if this time is over or the wait was interrupted.
bool ready_wait(struct pump *p, struct van *van, const struct member *m,
                bool (*over)(void *ctx), void *ctx, double seconds, double *ret_seconds);

#endif
