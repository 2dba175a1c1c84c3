// A shard's requests from its links, and their results.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_REQUEST_H
#define TUG_SERVER_REQUEST_H

#include "protocol/keys.h"
#include "van/van.h"

// The peer of a link.
struct peer {
    struct peer *next;
    van_link link;
    bool greeted;
    enum wire_role role; // as what it was let in
    uint32_t node;       // 0: a tool's, that has not joined
    uint64_t session;
    bool ended; // the session
    uint64_t greet_by;
    uint64_t heard; // when the last message came
    struct key_lists lists;
    uint32_t n_pending;         // its requests that wait,
    uint32_t n_draining;        // those of them that wait for room,
    uint32_t n_draining_pushes; // and the pushes among them
    uint32_t n_stopped_pushes;  // pushes that wait for a save, which others may not pass
    uint64_t blocked; // the try of waiting requests at which one of its found none
};

struct request {
    struct peer *peer;
    uint16_t type;
    uint64_t id;
    const union wire_any *m;
    struct van_message *fresh; // NULL: it was held, its body is kept
    void *kept;                // the body, if it was held
    bool silent;               // it was answered before (acknowledge_before_apply)
    uint64_t room;             // that it waits for: WANTS_DRAIN
};

// The result of a request. A waiting request has had no effect yet.
enum outcome {
    ANSWERED,
    WANTS_ROSTER, // a newer one
    WANTS_BATCH,  // sync: batches to be complete
    WANTS_TICK,   // ssp: workers to come further
    WANTS_LATER,  // acknowledge_before_apply: the next moment
    WANTS_TURN,   // an admin operation or a save of it to be over
    WANTS_CUT,    // the moment of a save that is marked
    WANTS_ROOM,   // a save to come further
    WANTS_SAVED,  // the save to be written, or over
    WANTS_DRAIN,  // answers to be read
};

#endif
