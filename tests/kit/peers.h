// A simulated network in which a fuzzer plays all nodes but the one that it fuzzes. The
// fuzzer's nodes have a link each, and note its messages for the next ones that they
// send.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_PEERS_H
#define TUG_KIT_PEERS_H

#include "base/clock.h"
#include "cluster/proof.h"
#include "kit/draw.h"
#include "kit/sim.h"

#define MILLIS (SECOND_NS / 1000)

enum { PEERS = 6 };

// The key of sessions' secrets; also stands for no certificate.
extern const uint8_t peers_key[MAC_BYTES];

struct peers;

struct peer {
    struct peers *world;
    struct van *van;
    van_link link;
    bool opened;
    uint32_t node;
    uint64_t session;
    uint64_t asked; // the last question that came
    uint16_t asked_type;
};

struct peers {
    struct sim *sim;
    struct draw d;
    struct peer peers[PEERS];
    uint64_t events;
    uint64_t heard[256]; // messages of each type
};

void peers_open(struct peers *w, const uint8_t *data, size_t size);
// The fuzzed node and its van must be closed before.
void peers_close(struct peers *w);

// Time goes on. It is an error if a node does more in this time than repeating messages:
// it would work for ever.
void peers_run(struct peers *w, uint64_t ns);
uint64_t peers_pause(struct peers *w); // how long
struct peer *peers_any(struct peers *w);

void peer_connect(struct peer *p, const char *address);
void peer_send(struct peer *p, uint16_t type, uint64_t request, const void *msg);
// Any message, or one of those.
void peer_send_drawn(struct peer *p, const uint16_t *types, size_t n);
void peer_hello(struct peer *p, enum wire_role role);
// Opens a link and says hello: as a worker that has this session; without one, as a tool.
void peer_greet(struct peer *p, const char *address, uint32_t node, uint64_t session);

// The scheduler, one of them, lets the server that has dialled it in as this node.
void peers_let_in(struct peers *w, int scheduler, uint32_t node, uint64_t session);
// A node for a roster.
void peers_put_node(struct buf *nodes, uint32_t id, enum wire_role role, uint32_t rank,
                    uint64_t session, bool alive);

#endif
