// A simulated network in which a fuzzer plays all nodes except the one that it tests.
// Each of the fuzzer's nodes has one link. It records facts from the messages that it
// gets, and uses them in the messages that it sends.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_PEERS_H
#define TUG_KIT_PEERS_H

#include "cluster/proof.h"
#include "kit/draw.h"
#include "kit/sim.h"
#include "os/clock.h"

#define MILLIS (SECOND_NS / 1000)

enum { PEERS = 6 };

// The key of sessions' secrets; it also stands for a missing certificate.
extern const uint8_t peers_key[MAC_BYTES];

struct peers;

struct peer {
    struct peers *world;
    struct van *van;
    van_link link;
    bool opened;
    uint32_t node;
    uint64_t session;
    uint64_t asked; // number of the last request that arrived
    uint16_t asked_type;
};

struct peers {
    struct sim *sim;
    struct draw d;
    struct peer peers[PEERS];
    uint64_t events;
    uint64_t heard[256]; // number of messages of each type that arrived
};

void peers_open(struct peers *w, const uint8_t *data, size_t size);
// Closes the network. The node under test and its van must have been closed before.
void peers_close(struct peers *w);

// Lets time pass. The test fails if a node does more in this time than repeat messages,
// because such a node would never come to rest.
void peers_run(struct peers *w, uint64_t ns);
uint64_t peers_pause(struct peers *w); // returns the time that has passed
struct peer *peers_any(struct peers *w);

void peer_connect(struct peer *p, const char *address);
void peer_send(struct peer *p, uint16_t type, uint64_t request, const void *msg);
// Sends a random message of any type, or of one of these n types.
void peer_send_drawn(struct peer *p, const uint16_t *types, size_t n);
void peer_hello(struct peer *p, enum wire_role role);
// Opens a link and sends HELLO: as the worker with this session; without a session, as a
// tool.
void peer_greet(struct peer *p, const char *address, uint32_t node, uint64_t session);

// Lets the peer `scheduler` admit the server that has connected to this peer. The server
// gets this node id and this session.
void peers_let_in(struct peers *w, int scheduler, uint32_t node, uint64_t session);
// Adds a node to a roster.
void peers_put_node(struct buf *nodes, uint32_t id, enum wire_role role, uint32_t rank,
                    uint64_t session, bool alive);

#endif
