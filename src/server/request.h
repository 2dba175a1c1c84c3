// A shard's requests from its links, and their results.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_REQUEST_H
#define TUG_SERVER_REQUEST_H

#include "protocol/keys.h"
#include "van/van.h"

// The peer of a link.
struct shard_peer {
    struct shard_peer *next;
    van_link link;
    bool greeted;
    enum wire_role role; // role with which the peer was accepted
    uint32_t node;       // id of the peer's node; 0 if it is a tool, which has not joined
    uint64_t session;
    bool ended; // the session of the peer's node has ended
    uint64_t greet_by;
    uint64_t heard; // time of the link's last message
    struct key_lists lists;
    uint32_t n_pending;         // number of the link's requests that wait for any reason
    uint32_t n_draining;        // number of the link's requests that wait for room
    uint32_t n_draining_pushes; // number of pushes among those that wait for room
    uint32_t n_stopped_pushes;  // pushes that wait for a save or a move; later pushes and
                                // pulls must wait behind them
    // Not 0: a push was not applied, because one of its partitions had left this shard.
    // Until its sender sends it again, with a newer epoch, later pushes and pulls with
    // epochs below this one must not be served.
    uint64_t stale;
    uint64_t blocked; // value of shard.retries in the last round of retries in which a
                      // request of this link found no room
};

struct shard_request {
    struct shard_peer *peer;
    uint16_t type;
    uint64_t id;
    const union wire_any *m;
    struct van_message *fresh; // the message; NULL if the request has waited, because
                               // then only the body is kept
    void *kept;                // the body, if the request has waited
    // The request was answered before (ACKNOWLEDGE_BEFORE_APPLY), so it gets no answer.
    bool silent;
    uint64_t room; // bytes of the answer that waits for room (WANTS_DRAIN)
};

// The result of serving a request, or of one check on the way. A request with the result
// WANTS_... has had no effect yet.
enum outcome {
    ANSWERED,     // the request is done: its sender got an answer, a refusal or a roster
    WANTS_ROSTER, // waits for a newer roster
    WANTS_BATCH,  // sync: waits until a batch is complete
    WANTS_TICK,   // ssp: waits for other workers' ticks
    WANTS_LATER,  // ACKNOWLEDGE_BEFORE_APPLY: waits a moment
    WANTS_TURN,   // waits for the end of an admin operation or save of the table
    WANTS_CUT,    // waits until the marked save has begun its cuts
    WANTS_ROOM,   // waits for room for a save's copies of rows
    WANTS_SAVED,  // waits until the save is written, or has ended
    WANTS_DRAIN,  // waits until earlier answers have been sent
    WANTS_STATUS, // waits until the text of the status is written
    WANTS_MOVE, // waits until a roster names the owner of a moving partition, or its rows
                // are here
    WANTS_MEMBER, // waits until replicas have more of the records of earlier pushes
    // Returned by checks only: the request need not wait, and the caller serves it.
    GOES_ON,
};

#endif
