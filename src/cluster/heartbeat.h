// Heartbeats: a thread with a link of its own sends the scheduler a message once a
// second, or as often as the scheduler asks for, as a sign that this process is
// alive. A link without an answer for HEARTBEAT_SILENCE_NS, or three heartbeats, is
// replaced, so that the scheduler does not declare a living process dead only
// because its link is dead.
//
// A process that got a signal to end must not leave while other members need it.
// Heartbeats ask the scheduler, which either lets the process leave at once or first ends
// the run in order (a save, then STOP). The process also may leave if the scheduler has
// never answered, or not for HEARTBEAT_LEAVE_NS. A server whose scheduler keeps its state
// waits longer, until the time limit for reaching the scheduler.
//
// The protocol is a state machine, which tests run in the simulator; heartbeat_start
// gives it a van and a thread.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_HEARTBEAT_H
#define TUG_CLUSTER_HEARTBEAT_H

#include <stdatomic.h>

#include "cluster/node.h"
#include "os/clock.h"

#define HEARTBEAT_SILENCE_NS (3 * SECOND_NS)
#define HEARTBEAT_LEAVE_NS (5 * SECOND_NS)

struct heartbeat;

// Starts the thread that sends heartbeats. *lost (may be NULL) is set when the scheduler
// has declared this process dead. Returns 0, or the error of opening the van or starting
// the thread.
int heartbeat_start(struct heartbeat **ret, struct node *n, atomic_bool *lost,
                    struct err *e);
void heartbeat_stop(struct heartbeat *h); // NULL is fine; waits for the thread

// Opens heartbeats without a thread, for tests. It uses three fields of the node:
// scheduler, cluster and process. After heartbeat_serve the van calls the handler;
// heartbeat_stop frees everything except the van.
int heartbeat_open(struct heartbeat **ret, const struct node *n, atomic_bool *lost,
                   struct err *e);
struct van_handler heartbeat_handler(struct heartbeat *h);
void heartbeat_serve(struct heartbeat *h, struct van *v);

#endif
