// Records a server loop's requests while profiling is on: a ring of events with a memory
// limit, which drops the oldest. `tug profile` reads it and writes a file for Perfetto or
// Chrome.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_PROFILE_PROFILE_H
#define TUG_SERVER_PROFILE_PROFILE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/wire.h"

// Memory of the ring, in bytes, if the request names no size.
#define PROFILE_BYTES ((uint64_t)64 << 20)
#define PROFILE_MAX_BYTES ((uint64_t)1 << 30) // the most memory that can be asked for

enum { PROFILE_PAGE = 16384 }; // largest number of events that are read at once

// A zeroed one has no events and records none.
struct profile {
    struct wire_event *ring;
    uint64_t max; // the number of events that fit into the ring
    uint64_t end; // the number of events recorded so far, which is the number of the next
                  // one
    uint64_t epoch; // the Unix clock minus the monotonic clock, in ns
};

// Starts a new recording. The system provides the memory of the ring only as events fill
// it. On TUG_ENOMEM nothing has changed.
int profile_start(struct profile *p, uint64_t bytes, struct err *e);
void profile_free(struct profile *p);

// Records an event. Its times are those of clock_ns.
void profile_note(struct profile *p, const struct wire_event *event);

static inline uint64_t profile_dropped(const struct profile *p)
{
    return p->end > p->max ? p->end - p->max : 0;
}

// Appends at most a page of the recorded events to *to, as EVENT records, from event
// number `from` on. *ret_first is the number of the first appended event, which is
// greater if earlier ones were dropped.
int profile_page(const struct profile *p, uint64_t from, struct buf *to,
                 uint64_t *ret_first);

#endif
