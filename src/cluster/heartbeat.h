// Heartbeats: a thread that tells the scheduler once a second that this process is alive,
// on a link of its own.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_HEARTBEAT_H
#define TUG_CLUSTER_HEARTBEAT_H

#include <stdatomic.h>

#include "cluster/node.h"

struct heartbeat;

// *lost (may be NULL) is set when the scheduler says that it has given this process up.
int heartbeat_start(struct heartbeat **ret, struct node *n, atomic_bool *lost,
                    struct err *e);
void heartbeat_stop(struct heartbeat *h); // NULL is fine; waits for the thread

#endif
