// Long work inside a public call: a thread of its own does it, while the program's thread
// waits and asks the program's interrupt function now and then (tug_interrupt_by).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_JOB_H
#define TUG_RUNTIME_JOB_H

#include <stdatomic.h>

#include "base/err.h"

// Runs work(ctx) on a thread of its own, waits until it has ended and returns its code.
// The waiting thread calls `look` (may be NULL) a few times a second and at the end, and
// sets *stop when the program interrupts the wait; the work reads *stop and ends early.
int job_run(int (*work)(void *ctx, struct err *e), void (*look)(void *ctx), void *ctx,
            atomic_bool *stop, struct err *e);

#endif
