// Links that are dead and open, as when a firewall has forgotten them: nothing comes, and
// nothing says so. A session that is owed answers and has been silent for a while is
// asked for a sign of life; when none comes, another link is tried beside it. A peer that
// greets back there is alive, so that the old link is dead: it is closed, and its user
// sends again what has no answer, of which the other end does everything once.
//
// A node that is busy with something long, or stopped, answers neither: then the old link
// stays, and nothing is sent twice. Delayed answers do not matter, since the node answers
// PING. Bytes that come or leave, be it one large message for a minute, are signs of
// life.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SILENCE_H
#define TUG_CLUSTER_SILENCE_H

#include "base/clock.h"
#include "cluster/session.h"

// A node that is silent for so long is asked for a sign of life, and for twice that is
// tried over another link.
#define SILENCE_NS (5 * SECOND_NS)

// Kept beside the watched session. Zeros to begin with.
struct silence {
    struct session another; // that is tried; of the same side
    uint64_t tried_at;
    uint64_t queued; // bytes, as last seen
};

// Call when answers are due on *s from now on. Returns when to watch it.
uint64_t silence_begin(struct session *s, uint64_t now);

// For an open session with answers due; the address is the one to dial, NULL if that node
// has left. Returns when to look again.
uint64_t silence_watch(struct silence *x, struct session *s, const char *address,
                       uint64_t now);

// The other link has been greeted: *s goes on over it, and the silent one is closed.
void silence_adopt(struct silence *x, struct session *s, uint64_t now);

void silence_end(struct silence *x); // nothing is tried any more

#endif
