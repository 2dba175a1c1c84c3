// Profiles of a whole cluster: every loop of every server records its requests, and later
// the records of all loops are written to one file. Used by tug profile and by
// tug/table.h.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_PROFILER_H
#define TUG_RUNTIME_PROFILER_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/node.h"
#include "server/profile/trace_file.h"

struct profiler {
    struct node *node; // the identity of this process and the scheduler's address
    double seconds;    // the time limit for connecting to a process
    const atomic_bool *interrupted; // may be NULL
};

// Starts recording at all loops. A loop keeps at most `bytes` bytes of events. *ret_loops
// (may be NULL) becomes the number of loops that record.
int profiler_start(const struct profiler *p, uint64_t bytes, size_t *ret_loops,
                   struct err *e);

// Ends recording and writes the events to `file`, which appears when it is complete. If a
// loop cannot be asked, the file has the events of the other loops, and the error is
// returned. *ret is the contents of the file; it has no loops if no file was written.
// Loops forget their events only after the file was written. The caller calls
// trace_free(ret).
int profiler_stop(const struct profiler *p, const char *file, struct trace *ret,
                  struct err *e);

#endif
