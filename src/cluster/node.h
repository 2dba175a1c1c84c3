// A node's process: its access to the network, and its heartbeats.
//
// A process has one `struct node`. The vans of its loops and clients are opened through
// it, so that keys, addresses and the process's id are in one place. Heartbeats are sent
// by a thread of their own over a link of their own, so that no busy loop and no bulk
// data can delay them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_NODE_H
#define TUG_CLUSTER_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/member.h"
#include "cluster/token.h"
#include "os/budget.h"
#include "van/handshake.h"
#include "van/van.h"

struct tls;

struct node_options {
    const char *cluster; // the cluster's name; NULL: "tug"
    // "HOST:PORT", or an address of the van; or a comma-separated list of the addresses
    // at which the scheduler may be (one scheduler leads, the others are standbys).
    const char *scheduler;
    // This process's listening address: a host name or address, or a network interface
    // (which wins); both NULL: loopback.
    const char *host, *interface;
    // The address, HOST or HOST:PORT, at which other nodes reach this process if it
    // differs from the listening address (behind NAT, in a container). NULL: the
    // listening address; for a process that listens on all addresses, the address from
    // which it reaches the scheduler.
    const char *advertise;
    // Whether to listen also on a Unix socket in the user's runtime directory, which
    // processes on this machine prefer. A node does so anyway if its scheduler's address
    // is a Unix socket.
    bool sockets;
    uint16_t port; // port of the first loop; the other loops use the ports after it. 0:
                   // any free ports
    const char *ca, *cert, *key; // PEM files; all NULL: no TLS
    const char *pem;  // instead of the three files: CA, certificate and key in one text
    uint32_t wish;    // 1 + the rank that the node asks for; 0: any rank
    bool late;        // a server that joins a running cluster
    const char *zone; // of a server: name of the machines that may fail together; NULL:
                      // this machine alone
    bool fixed;       // a server with handlers of its own, whose state cannot move
    bool insecure;    // allows links off loopback without TLS, and on loopback without a
                      // token
    uint64_t memory;  // limit of memory for the whole process in bytes; 0: not given (see
                      // budget_of)
    const char *token; // token as text; NULL: from $TUG_TOKEN, or else from the user's
                       // file
    // The role with which the node opens links. It limits the node's rights, whatever
    // certificate or token the node has. WIRE_NOBODY: an operator.
    enum wire_role role;
    double spin_us;                   // microseconds that vans poll before they sleep
    double scheduler_timeout_seconds; // time limit for reaching the scheduler; 0: 60
};

enum { NODE_CLUSTER_MAX = 256 }; // longest name of a cluster in bytes, with its final 0

struct node {
    struct node_options options;
    char name[NODE_CLUSTER_MAX]; // name of the cluster
    char scheduler[VAN_ADDRESS_MAX];
    char host[64]; // name of the machine
    char bind[VAN_ADDRESS_MAX];
    bool sockets;
    uint64_t cluster, process;
    // The token from the options, or made by node_make_token; if its role is WIRE_NOBODY,
    // the token is looked up for each link.
    struct token token;
    char token_file[FILE_PATH_MAX]; // the file to which this process has written the
                                    // token; "" if it has written none
    int token_lock;                 // descriptor that holds the lock of token_file
    struct prover prover;
    struct tls *tls;
    struct budget budget;        // budget of buffers, shared by all vans of the process
    struct heartbeat *heartbeat; // NULL if heartbeats have not begun
    // Set before node_heartbeat, or both NULL. A signal sets *asked to make the process
    // end; heartbeats set *leave when it may end (see heartbeat.h).
    const atomic_bool *asked;
    atomic_bool *leave;
    // The newest generation of the scheduler that a member of the process knows; NULL before
    // node_open.
    _Atomic uint64_t *generation;
    _Atomic uint64_t newest; // *generation
};

// Reads keys and finds the address of the interface. The strings of *o may be freed after
// the call, except `advertise`, which node_listen reads. Returns TUG_EUSAGE for an option
// that cannot be used.
int node_open(struct node *n, const struct node_options *o, struct err *e);
void node_close(struct node *n);

// node_van opens a van of this process; if `spins` is set, the van polls for spin_us
// before it sleeps. node_listen lets a van listen at port + `loop` (at any port if `port`
// is 0) and returns the address in *ret_address.
int node_van(struct node *n, struct van **ret, const struct van_handler *h, bool spins,
             struct err *e);
int node_listen(struct node *n, struct van *v, uint16_t loop,
                char ret_address[VAN_ADDRESS_MAX], struct err *e);

// For the process of the scheduler. node_make_token makes the token of the cluster if
// none was given, unless the process is insecure or has certificates. node_leave_token
// writes the token to a file for other processes; it is called when the node listens on
// `address`. node_take_token removes the file; it is called while the node still listens.
int node_make_token(struct node *n, struct err *e);
int node_leave_token(struct node *n, const char *address, struct err *e);
void node_take_token(struct node *n);

// Gets the address of the Unix socket of the node that listens at `port`, in the cluster
// whose scheduler listens at port `scheduler` (for the scheduler itself both are the
// same). Returns TUG_EUSAGE if the path would be too long.
int node_socket(char ret[VAN_ADDRESS_MAX], const char *cluster, uint16_t scheduler,
                uint16_t port, struct err *e);

// Gets random bytes, such as the scheduler's key of sessions.
int node_random(uint8_t ret[32], struct err *e);

// Returns the time limit for reaching the scheduler, in seconds.
double node_scheduler_timeout(const struct node *n);

// Returns the options of a member of this process, with a new random ticket.
struct member_options node_member(const struct node *n, enum wire_role role,
                                  const char *address);

// Starts heartbeats to the scheduler; node_close ends them. *lost (may be NULL) is set
// when the scheduler has declared this process dead.
int node_heartbeat(struct node *n, atomic_bool *lost, struct err *e);
// Ends the heartbeats, for a caller whose *lost or *leave is freed before the node is
// closed.
void node_heartbeat_end(struct node *n);

// Returns the hash of a cluster's name; HELLO carries this hash.
uint64_t node_cluster(const char *name);

// Puts "tcp://" in front of each address in a comma-separated list that has no "://".
int node_address(const char *text, char ret[VAN_ADDRESS_MAX], struct err *e);

#endif
