// Long work for a waiting program: an extra thread does it, and the program's thread
// checks now and then for an interrupts it (tug_interrupt_by).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_JOB_H
#define TUG_FACADE_JOB_H

#include <stdatomic.h>

#include "base/err.h"

// Does work(ctx) to its end. `look` (may be NULL) is called a few times a second and at the
// end, by the thread that waits; *stop is set when the wait is interrupted, and is for the
// work to look at.
int job_run(int (*work)(void *ctx, struct err *e), void (*look)(void *ctx), void *ctx,
            atomic_bool *stop, struct err *e);

#endif
