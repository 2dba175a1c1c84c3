// A server of programs on tug/kvapp.h in a simulated network, whose scheduler, workers and
// strangers a test or a fuzzer plays (kit/peers.h). One thread does everything: the program
// includes kit/lone_pump.inc.h, whose pump lends the van to it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_LONE_NODE_H
#define TUG_KIT_LONE_NODE_H

#include "doors/kvapp/node.h"
#include "kit/peers.h"

enum {
    LONE_BITS = 3,
    LONE_ME = 8,
    LONE_WORKER = 9,
    LONE_WORKERS = 3,
    LONE_NEW = LONE_WORKER + 6
};
#define LONE_BYTES ((uint64_t)16 << 20) // the node's budget of memory, in bytes
// The other nodes: worker LONE_WORKER, another worker whose id is 2 higher, a dead one
// whose id is 4 higher, a tool, a peer that has not joined, and the scheduler.
enum { LONE_FIRST, LONE_SECOND, LONE_DEAD, LONE_TOOL, LONE_STRANGER, LONE_SCHEDULER };

struct lone_node {
    struct peers w;
    struct tug_node n;
    bool newcomer; // from now on rosters also have worker LONE_NEW
};

// Opens the node in an open network. Customers are opened before it joins.
void lone_node_open(struct lone_node *l);
void lone_node_join(struct lone_node *l);
void lone_node_close(struct lone_node *l); // the network stays open

void lone_node_roster(struct lone_node *l, bool first_lives, bool second_lives);
// Opens a link from a peer to the node under test. The peer says that it is the node
// `node` with this session; if `session` is 0, that it is a tool.
void lone_node_greet(struct lone_node *l, int peer, uint32_t node, uint64_t session);

// Used by lone_pump.inc.h: runs the callbacks and handlers that are due.
void lone_node_work(void);
struct pump *lone_pump_begin(void);

#endif
