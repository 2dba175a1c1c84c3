// Server-sent events: the facts, whenever there are new ones. All readers share the bytes
// of an event.
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

// Makes an event of a line of JSON, with one user: the caller. Takes ownership of the
// text, also on failure; returns NULL if memory is short.
struct event *event_of(struct buf *json, uint64_t version);
struct event *event_use(struct event *e); // adds a user
void event_release(struct event *e);      // NULL is fine

#endif
