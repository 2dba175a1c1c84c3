// Server-sent events: each event has the facts as JSON, and is sent when the facts
// change. All readers share the bytes of an event, which are freed with their last user.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_EVENTS_INTERNAL_H
#define TUG_MONITOR_EVENTS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct event {
    size_t users;
    uint64_t version; // version of the facts
    struct buf text;
};

// Makes an event from a line of JSON; its first user is the caller. Takes ownership of
// the text, also on failure; returns NULL if memory ran out.
struct event *event_of(struct buf *json, uint64_t version);
struct event *event_use(struct event *e); // adds a user
void event_release(struct event *e);      // NULL is fine

#endif
