// Records a server loop's requests while profiling is on: a ring of events with a memory
// limit, which drops the oldest. `tug profile` reads it and writes a file for Perfetto or
// Chrome.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_PROFILE_H
#define TUG_SERVER_PROFILE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/wire.h"

#define PROFILE_BYTES ((uint64_t)64 << 20)    // if nobody says how much
#define PROFILE_MAX_BYTES ((uint64_t)1 << 30) // whoever asks for more

enum { PROFILE_PAGE = 16384 }; // events that are read at once

// A zeroed one has no events and takes none.
struct profile {
    struct wire_event *ring;
    uint64_t max;   // of events in it
    uint64_t end;   // events noted so far: the next one's number
    uint64_t epoch; // the unix clock less the monotonic one
};

// Begins anew. Memory is taken from the system as events come. On TUG_ENOMEM all is as it
// was.
int profile_start(struct profile *p, uint64_t bytes, struct err *e);
void profile_free(struct profile *p);

// Times of `event` are clock_ns.
void profile_note(struct profile *p, const struct wire_event *event);

static inline uint64_t profile_dropped(const struct profile *p)
{
    return p->end > p->max ? p->end - p->max : 0;
}

// Adds EVENT records to *to: those from number `from` on that are there, one page at
// most. The number of the first goes into *ret_first.
int profile_page(const struct profile *p, uint64_t from, struct buf *to,
                 uint64_t *ret_first);

#endif
