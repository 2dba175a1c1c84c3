// Makes the result of a collective call from the workers' bytes: checks that all workers are in the
// same call, then gathers or reduces. It knows neither links nor processes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_COLLECT_H
#define TUG_CLUSTER_SCHEDULER_COLLECT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/wire.h"

// The bytes of one worker, and the call that it is in.
struct given {
    uint8_t op, type; // enum wire_collect, enum wire_number
    uint32_t index, workers;
    uint64_t first;
    char call[WIRE_CALL_MAX + 1]; // name of the call
    bool lost; // there was no room for its bytes, so that the call fails
    uint32_t n;
    char bytes[]; // n bytes
};

// Checks the numbers of a message, which any worker may have made up. Returns why it is
// not valid; NULL if it is.
const char *collect_fault(const struct msg_collect *m);
// Copies what a worker gives; without its bytes (`lost`) if they are more than `room`.
// NULL: memory is out.
struct given *collect_keep(const struct msg_collect *m, size_t room);

// Makes the result of a call from what n > 0 workers gave; sorts `all` by their indexes.
// `at_barrier` (-1: none) is the rank of a worker that came to the barrier without a
// call. Returns 0, or the code with which the call fails at all workers.
int collect_make(struct given **all, size_t n, int64_t at_barrier, struct buf *ret,
                 struct err *e);

#endif
