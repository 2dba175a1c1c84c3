// Watches for links that are dead although they are open, as when a firewall has
// forgotten them: nothing arrives, and no error is reported. If a session waits for
// answers and has been silent for a while, it sends PING; if no answer comes, a second
// link is tried. If the peer greets on the second link, it is alive, so the old link is
// dead and is closed. The user then repeats its unanswered requests, each of which the
// other end applies once.
//
// A node that is busy with a long task, or stopped, answers on neither link: then the old
// link stays, and nothing is sent twice. A node that only needs long to answer requests
// still answers PING. Bytes that arrive are signs of life. So is the sending of bytes
// that were queued before the PING, even if one large message takes a minute.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SILENCE_H
#define TUG_CLUSTER_SILENCE_H

#include "cluster/session.h"
#include "os/clock.h"

// Silence after which PING is sent. After twice this time a second link is tried.
#define SILENCE_NS (5 * SECOND_NS)

// State for one watched session; all zeros at first.
struct silence {
    struct session another; // the session over the second link, with the same settings
    uint64_t tried_at;
    uint64_t queued; // number of queued bytes at the last check
    uint64_t heard;  // time of the last message, as known at the last check
    bool asked;      // whether PING was sent after that message
    uint64_t ahead;  // at most this many bytes of the queue are older than the PING
};

// Starts to watch *s, called when the session begins to wait for answers. Returns when to
// call silence_watch.
uint64_t silence_begin(struct session *s, uint64_t now);

// Watches an open session that waits for answers. `address` is the peer's address for a
// second link, NULL if the peer has left. Returns when to call it again.
uint64_t silence_watch(struct silence *x, struct session *s, const char *address,
                       uint64_t now);

// Continues *s over the second link, on which the peer has sent WELCOME, and closes the
// silent link.
void silence_adopt(struct silence *x, struct session *s, uint64_t now);

void silence_end(struct silence *x); // gives up the second link

#endif
