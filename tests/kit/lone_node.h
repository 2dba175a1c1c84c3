// A server of programs on tug/kvapp.h in a simulated network, whose scheduler, workers and
// strangers a test or a fuzzer plays (kit/peers.h). One thread does everything: the program
// includes kit/lone_pump.inc.h, whose pump lends the van to it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_LONE_NODE_H
#define TUG_KIT_LONE_NODE_H

#include "kit/peers.h"
#include "kvapp/node.h"

enum {
    LONE_BITS = 3,
    LONE_ME = 8,
    LONE_WORKER = 9,
    LONE_WORKERS = 3,
    LONE_NEW = LONE_WORKER + 6
};
#define LONE_BYTES ((uint64_t)16 << 20) // of its account
// The others: two workers, nodes LONE_WORKER and two further, one that is dead, another
// two further, a tool, somebody who has not joined, and the scheduler.
enum { LONE_FIRST, LONE_SECOND, LONE_DEAD, LONE_TOOL, LONE_STRANGER, LONE_SCHEDULER };

struct lone_node {
    struct peers w;
    struct tug_node n;
    bool newcomer; // rosters from now on have a worker LONE_NEW, too
};

// For an open network. Customers are opened before it joins.
void lone_node_open(struct lone_node *l);
void lone_node_join(struct lone_node *l);
void lone_node_close(struct lone_node *l); // the network stays

void lone_node_roster(struct lone_node *l, bool first_lives, bool second_lives);
// The identity with which a peer opens a link to it. Without a session: as a tool.
void lone_node_greet(struct lone_node *l, int peer, uint32_t node, uint64_t session);

// Used by lone_pump.inc.h. Callbacks and handlers that are to be run, run.
void lone_node_work(void);
struct pump *lone_pump_begin(void);

#endif
