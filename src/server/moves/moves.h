// Partitions that are on their way from one shard to another. The scheduler decides: a move
// is a line of the roster, and ends with a roster that names another owner or lacks the
// line. The target fetches the partition from its owner, the source; neither of them
// decides whose it is.
//
//   target                                        source
//   tells the scheduler COPIED
//   asks for the partition, to the end        ->  serves no request for it any more, and
//   gets its bytes, piece by piece            <-  keeps its bytes (parcel.h)
//   installs it, and tells ARRIVED
//   serves it under the newer roster              drops it under the newer roster
//
// If a move is given up, the target drops what it has, and the source serves the partition
// again. Requests that came meanwhile wait, and are then served or answered by the roster.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_MOVES_MOVES_H
#define TUG_SERVER_MOVES_MOVES_H

#include "base/buf.h"
#include "cluster/roster.h"
#include "cluster/session.h"

struct shard;

// A partition that another shard fetches here.
struct outgoing {
    struct outgoing *next;
    struct roster_move move;
    struct buf bytes;
    bool gone; // the roster has given it away, and it must be dropped
};

enum incoming_state {
    INCOMING_ASKS,    // asks the scheduler whether it may be handed over
    INCOMING_FETCHES, // gets bytes from the source
    INCOMING_WHOLE,   // all bytes are here; it is about to be installed
    INCOMING_HERE,    // it is installed
    INCOMING_FAILED,  // `why` is to be told
    INCOMING_OVER,    // the scheduler has given it up; the roster will say so, too
    INCOMING_DROPS,   // the roster says so; it was installed and must be dropped
};

// A partition that this shard fetches.
struct incoming {
    struct incoming *next;
    struct roster_move move;
    uint32_t from; // node id of the source
    enum incoming_state state;
    struct session s; // with the source
    char *bytes;      // the first `n` of `total` have arrived; NULL: none yet
    uint64_t n, total;
    uint64_t due;    // time of the next question to the source, or attempt to install
    uint64_t say_at; // time to tell the scheduler how it goes; VAN_NEVER: nothing is left
    struct err why;
};

struct moves {
    struct outgoing *out;
    struct incoming *in;
    struct session_side side;
    // The move of which the scheduler was told something that it has not answered yet, and
    // what it was told (enum wire_move_state); 0: none.
    uint64_t saying;
    uint8_t said;
};

void moves_close(struct shard *s);
// A roster has come: begins and ends moves.
void moves_follow(struct shard *s, const struct roster *r);
// Does what is due. Returns when to call it again.
uint64_t moves_tick(struct shard *s, uint64_t now);
// The van's handler calls these functions. They return whether the link is to a source.
bool moves_opened(struct shard *s, van_link link);
bool moves_message(struct shard *s, van_link link, const struct van_message *m);
bool moves_closed(struct shard *s, van_link link, const struct err *why);

// Of source.c and target.c:

void outgoing_follow(struct shard *s, const struct roster *r);
uint64_t outgoing_tick(struct shard *s);
void incoming_follow(struct shard *s, const struct roster *r);
uint64_t incoming_tick(struct shard *s, struct incoming *m);
void incoming_take(struct shard *s, struct incoming *m, const struct van_message *x);

#endif
