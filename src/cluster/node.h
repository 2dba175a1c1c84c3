// A node's process: how it reaches the network, and how it shows that it is alive.
//
// One `struct node` a process; the vans of its loops and clients are opened through it,
// so that keys, addresses and the process's id are in one place. Heartbeats go out from a
// thread and on a link of their own: no busy loop and no bulk data can hold them up.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_NODE_H
#define TUG_CLUSTER_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/err.h"
#include "cluster/member.h"
#include "cluster/token.h"
#include "van/handshake.h"
#include "van/van.h"

struct tls;

struct node_options {
    const char *cluster;   // its name; NULL: "tug"
    const char *scheduler; // "HOST:PORT", or an address of the van
    // This process's listening address: a host name or address, or a network interface
    // (which wins); both NULL: loopback.
    const char *host, *interface;
    // The address that others are told instead, HOST or HOST:PORT, if they reach this
    // process by another one (behind NAT, in a container); NULL: the listening address. A
    // process that listens on all addresses tells the one from which it reaches the
    // scheduler.
    const char *advertise;
    // Also on a Unix socket in the user's runtime directory, which others on this machine
    // prefer; so does every node whose scheduler is named with one.
    bool sockets;
    uint16_t port;               // of the first loop, the next ones follow; 0: any
    const char *ca, *cert, *key; // PEM files; all NULL: no TLS
    const char *pem;             // or all three as one text
    uint32_t wish;               // 1 + the rank that it would like; 0: any
    bool insecure;               // off loopback without TLS, on it without a token
    uint64_t memory;   // for all that it may hold; 0: nothing was said (budget_of)
    const char *token; // as text; NULL: $TUG_TOKEN, else the user's file
    // The role with which it opens links; it limits its rights, whatever certificate or
    // token it has. WIRE_NOBODY: an operator.
    enum wire_role role;
    double spin_us;                   // vans look for so long before they sleep
    double scheduler_timeout_seconds; // to reach it; 0: 60
};

enum { NODE_CLUSTER_MAX = 256 }; // bytes of a cluster's name, its end included

struct node {
    struct node_options options;
    char name[NODE_CLUSTER_MAX]; // of the cluster
    char scheduler[VAN_ADDRESS_MAX];
    char host[64]; // name of the machine
    char bind[VAN_ADDRESS_MAX];
    bool sockets;
    uint64_t cluster, process;
    struct token token;             // given or made; WIRE_NOBODY: looked for at each link
    char token_file[FILE_PATH_MAX]; // that this process has left; empty: none
    int token_lock;                 // of that file
    struct prover prover;
    struct tls *tls;
    struct budget budget;        // of buffers, for all vans of the process
    struct heartbeat *heartbeat; // NULL: not begun
    // Set before node_heartbeat, or both NULL. A signal sets *asked: the process is to end.
    // *leave is set when it may: see heartbeat.h.
    const atomic_bool *asked;
    atomic_bool *leave;
};

// Reads keys, finds the interface's address. Strings of *o are the caller's again, but for
// `advertise`, which node_listen reads. TUG_EUSAGE: one that cannot be.
int node_open(struct node *n, const struct node_options *o, struct err *e);
void node_close(struct node *n);

// A van of this process; if it `spins` it looks for spin_us before it sleeps. node_listen
// listens at port + `loop` (any, if port is 0); *ret_address is where.
int node_van(struct node *n, struct van **ret, const struct van_handler *h, bool spins,
             struct err *e);
int node_listen(struct node *n, struct van *v, uint16_t loop,
                char ret_address[VAN_ADDRESS_MAX], struct err *e);

// The scheduler's process: makes the token of its cluster, unless one was given, when it
// is not `--insecure` and has no certificates. node_leave_token leaves it in a file for
// others to find, once the node listens on `address`; node_take_token takes the file
// away, while it still listens.
int node_make_token(struct node *n, struct err *e);
int node_leave_token(struct node *n, const char *address, struct err *e);
void node_take_token(struct node *n);

// The socket of the node that listens at `port`, in the cluster whose scheduler does at
// `scheduler`; its own has one port for both. TUG_EUSAGE: its path would be too long.
int node_socket(char ret[VAN_ADDRESS_MAX], const char *cluster, uint16_t scheduler,
                uint16_t port, struct err *e);

// Random bytes, as the scheduler's key of sessions is.
int node_random(uint8_t ret[32], struct err *e);

// Returns the options of a member of this process, with a random ticket.
struct member_options node_member(const struct node *n, enum wire_role role,
                                  const char *address);

// Begins heartbeats to the scheduler; they end with node_close. *lost (may be NULL) is
// set when the scheduler has given this process up.
int node_heartbeat(struct node *n, atomic_bool *lost, struct err *e);

// Hash of a cluster's name, as HELLO carries it.
uint64_t node_cluster(const char *name);

// "tcp://" in front of what has no "://".
int node_address(const char *text, char ret[VAN_ADDRESS_MAX], struct err *e);

#endif
