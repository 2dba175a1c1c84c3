// Profiles of a whole cluster: every loop of every server is told to note its requests,
// and later what all of them noted becomes one file. For tug profile and tug/table.h.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_PROFILER_H
#define TUG_FACADE_PROFILER_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/node.h"
#include "server/trace_file.h"

struct profiler {
    struct node *node;              // who asks, and where the scheduler is
    double seconds;                 // to reach that
    const atomic_bool *interrupted; // may be NULL
};

// `bytes`: of events, at each loop at most. *ret_loops (may be NULL): how many note now.
int profiler_start(const struct profiler *p, uint64_t bytes, size_t *ret_loops,
                   struct err *e);

// Ends that, and writes `file`, which is there when complete. The records of other loops
// are kept if one cannot be asked: *ret is the contents of the file, also on failure; no
// loops: nothing was written. Loops forget only what is in a file. The caller calls
// trace_free(ret).
int profiler_stop(const struct profiler *p, const char *file, struct trace *ret,
                  struct err *e);

#endif
