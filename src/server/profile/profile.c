// The ring of events: see profile.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/profile/profile.h"

#include <assert.h>

#include "base/alloc.h"
#include "os/clock.h"

int profile_start(struct profile *p, uint64_t bytes, struct err *e)
{
    uint64_t wanted = bytes != 0 ? bytes : PROFILE_BYTES;
    if (wanted > PROFILE_MAX_BYTES)
        wanted = PROFILE_MAX_BYTES;
    uint64_t max = wanted / sizeof(*p->ring) > 0 ? wanted / sizeof(*p->ring) : 1;
    struct wire_event *ring = mem_map(max * sizeof(*ring));
    if (ring == NULL)
        return err_nomem(e, "a profile");
    profile_free(p);
    *p = (struct profile){
        .ring = ring, .max = max, .epoch = clock_unix_ns() - clock_ns()};
    return 0;
}

void profile_free(struct profile *p)
{
    if (p->ring != NULL)
        mem_unmap(p->ring, p->max * sizeof(*p->ring));
    *p = (struct profile){0};
}

void profile_note(struct profile *p, const struct wire_event *event)
{
    if (p->max == 0)
        return;
    struct wire_event *to = &p->ring[p->end++ % p->max];
    *to = *event;
    to->arrived_ns += p->epoch;
    to->begin_ns += p->epoch;
}

int profile_page(const struct profile *p, uint64_t from, struct buf *to,
                 uint64_t *ret_first)
{
    uint64_t at = from > profile_dropped(p) ? from : profile_dropped(p);
    uint64_t end = p->end - at > PROFILE_PAGE && p->end > at ? at + PROFILE_PAGE : p->end;
    *ret_first = at;
    // The ring still has all events of the page.
    assert(end <= p->end && (at >= end || p->end - at <= p->max));
    for (; at < end; at++)
        TRY(wire_put_event(to, &p->ring[at % p->max]));
    return 0;
}
