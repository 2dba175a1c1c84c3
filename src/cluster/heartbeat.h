// Heartbeats: a thread that tells the scheduler once a second that this process is alive,
// on a link of its own. A link that gives no answer for HEARTBEAT_SILENCE_NS is replaced:
// a dead link must not make a living process look dead.
//
// A process that a signal asks to end leaves no peer behind that needs it: heartbeats ask
// the scheduler whether it may leave at once, or the run ends in order first (a save,
// then STOP). It may, too, where the scheduler has never answered, or not for
// HEARTBEAT_LEAVE_NS.
//
// The protocol is a state machine, which tests run in the simulator; heartbeat_start
// gives it a van and a thread.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_HEARTBEAT_H
#define TUG_CLUSTER_HEARTBEAT_H

#include <stdatomic.h>

#include "base/clock.h"
#include "cluster/node.h"

#define HEARTBEAT_SILENCE_NS (3 * SECOND_NS)
#define HEARTBEAT_LEAVE_NS (5 * SECOND_NS)

struct heartbeat;

// *lost (may be NULL) is set when the scheduler says that it has given this process up.
int heartbeat_start(struct heartbeat **ret, struct node *n, atomic_bool *lost,
                    struct err *e);
void heartbeat_stop(struct heartbeat *h); // NULL is fine; waits for the thread

// Without a thread. Uses of the node: scheduler, cluster, process. After heartbeat_serve
// the van calls the handler; heartbeat_stop frees what is not the van.
int heartbeat_open(struct heartbeat **ret, const struct node *n, atomic_bool *lost,
                   struct err *e);
struct van_handler heartbeat_handler(struct heartbeat *h);
void heartbeat_serve(struct heartbeat *h, struct van *v);

#endif
