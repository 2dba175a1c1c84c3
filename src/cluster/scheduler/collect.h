// Makes the result of a collective call from the workers' bytes: checks that all
// workers are in the same call, then gathers or reduces. Its functions know nothing
// of links and processes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_COLLECT_H
#define TUG_CLUSTER_SCHEDULER_COLLECT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/wire.h"

// The bytes that one worker sent, and the collective call that the worker is in.
struct given {
    uint8_t op, type; // enum wire_collect, enum wire_number
    uint32_t index, workers;
    uint64_t first;
    char call[WIRE_CALL_MAX + 1];
    bool lost; // the bytes were dropped for lack of room, so the call will fail
    uint32_t n;
    char bytes[]; // n bytes
};

// Checks the numbers of a message, which any peer may have made up. Returns NULL if the
// message is valid, else the reason why it is not.
const char *collect_fault(const struct msg_collect *m);
// Copies a worker's message; drops its bytes (`lost`) if they are more than `room`.
// Returns NULL if memory is out.
struct given *collect_keep(const struct msg_collect *m, size_t room);

// Makes the result of a call from the bytes of n > 0 workers; sorts `all` by index.
// `at_barrier` is the rank of a worker that came to the barrier without a call, so that
// the call fails; it is -1 if there is no such worker. Returns 0, or the code with which the call
// fails at all workers.
int collect_make(struct given **all, size_t n, int64_t at_barrier, struct buf *ret,
                 struct err *e);

#endif
