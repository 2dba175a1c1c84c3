// What the files of kvapp share: the node, its peers, customers, requests of its own and
// those of others.
//
//   kvapp_start.c     options, joining, the end
//   kvapp_node.c      who is who; the van's calls; barriers
//   kvapp_host.c      the scheduler, in the process of that role
//   kvapp_peers.c     links to other nodes, opened when they are wanted
//   kvapp_app.c       customers; simple requests; waiting
//   kvapp_request.c   requests of this node, from the first call to the end
//   kvapp_kv.c        pushes and pulls: cut by range, put together again
//   kvapp_received.c  requests of others, and their answers
//   kvapp_store.c     the default store
//
// Everything here belongs to who has the van (pump.h), unless it says otherwise.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_KVAPP_INTERNAL_H
#define TUG_FACADE_KVAPP_INTERNAL_H

#include <stdatomic.h>

#include "cluster/node.h"
#include "cluster/session.h"
#include "facade/last_error.h"
#include "facade/pump.h"
#include "facade/role.h"
#include "server/shard.h"
#include "tug/kvapp.h"

#define SECOND ((uint64_t)1000000000)

enum { FIRST_SERVER = 8, FIRST_WORKER = 9 }; // ids; the next ones two further

struct kv_part;

// A link to another node, for requests of this one.
struct peer {
    struct peer *next;
    uint32_t node;
    struct session s;
    struct kv_part *first, *last; // to be sent when it is ready
};

// A link that another node opened to this one, which is no server.
struct guest {
    struct guest *next;
    van_link link;
    bool greeted;
    uint32_t node;
};

// What a request sends to one node.
struct kv_part {
    struct kv_request *request;
    struct kv_part *next; // of those that wait for the peer's link
    uint32_t node;
    size_t first_key, n_keys;
    size_t first_value, n_values;
    bool answered;
    // The answer of a pull, as long as it has not been put in its place.
    void *kept;
    const float *values;
    const int32_t *lengths;
    size_t n_got;
};

enum kv_state { KV_FREE, KV_OPEN, KV_ENDING, KV_FAILED };

struct kv_request {
    struct pump_work work; // its end, when callbacks are to be called
    struct kv_request *before, *behind;
    struct tug_app *app;
    uint64_t id; // of its messages
    uint32_t timestamp;
    enum kv_state state;
    bool simple;
    int32_t head;
    char *body; // simple: copied
    size_t body_bytes;
    struct tug_kv_request kv;
    uint32_t open; // parts without an answer
    uint32_t pins; // sends for which the van holds memory of the request
    bool in_place; // answers of a pull can go straight to where they belong
    struct err why;
    uint32_t n_parts, cap_parts;
    struct kv_part *parts;
};

// A request of another node, until it is answered and nobody looks at it any more.
struct received {
    struct pump_work work;
    struct received *before, *behind; // of those without a customer
    struct tug_node *node;
    struct tug_app *app;
    van_link link;
    uint64_t request; // of its frame
    uint64_t ticket;
    uint64_t give_up; // when there is still no customer
    struct msg_app m;
    void *body;       // kept
    uint64_t counted; // in the account
    bool answered;
    bool is_response; // of a simple request of this node: not to be answered
    atomic_uint refs;
};

struct tug_app {
    struct tug_app *next;
    struct tug_node *node;
    uint32_t app, customer;
    struct tug_app_handlers h;
    uint32_t next_timestamp;
    struct kv_request **open; // at timestamp & (n_open - 1)
    uint32_t n_open;
};

struct exit_callback {
    void (*fn)(void *ctx);
    void *ctx;
};

struct tug_node {
    struct tug_node_options o;
    struct role environment;
    char scheduler[VAN_ADDRESS_MAX];
    char root[VAN_ADDRESS_MAX]; // the host of it
    enum wire_role role;
    struct node process;
    bool hosts;        // this process runs the scheduler
    struct host *host; // then
    struct van *van;
    struct pump *pump;
    struct shard *shard;        // servers
    struct roots *roots;        // likewise
    struct van_handler beneath; // of the shard
    struct member *own_member;  // others
    struct member *member;
    bool over; // the member has ended: all is given up
    struct err why;

    uint64_t version; // of the roster that the following are of
    uint32_t n_servers;
    uint32_t *servers;   // ids by rank
    uint64_t *last_keys; // of each
    bool placed;

    struct session_side side; // of peers
    struct peer *peers;
    struct guest *guests;
    struct tug_app *apps;

    struct kv_request *first, *last; // open ones
    uint32_t n_in_flight;            // so many
    struct kv_request *free_requests;
    struct kv_request **requests; // by slot of the id
    uint32_t n_requests, cap_requests;
    uint64_t count; // of ids

    struct received **received; // by slot of the ticket; NULL: free
    uint32_t n_received, cap_received;
    uint32_t *free_received; // slots
    uint32_t n_free_received;
    uint64_t tickets;
    struct received *held, *last_held;

    struct exit_callback *exits;
    size_t n_exits;
};

// kvapp_node.c
struct van_handler kv_node_handler(struct tug_node *n);
int kv_node_wait_ready(struct tug_node *n);
uint64_t kv_node_deadline(const struct tug_node *n);
uint64_t kv_node_spin_ns(const struct tug_node *n); // see pump_set_spin
// "server 0 (host:pid)"; "node 12" for an unknown one.
const char *kv_node_name(const struct tug_node *n, uint32_t id, char to[ROSTER_NAME_MAX]);
size_t kv_node_ids(struct tug_node *n, uint32_t group_or_id, uint32_t *ret, size_t max);

// kvapp_host.c
int kv_host_start(struct host **ret, struct tug_node *n, struct err *e);
const char *kv_host_address(const struct host *h);     // where its own process reaches it
int kv_host_open_doors(struct host *h, struct err *e); // others may come
// With `wait` until the cluster has ended: 0, or why it failed. Frees.
int kv_host_stop(struct host *h, bool wait, struct err *e);

// kvapp_peers.c
struct peer *kv_peer_find(struct tug_node *n, van_link link);
void kv_peer_send(struct tug_node *n,
                  struct kv_part *p);                  // now, or when the link is there
void kv_peer_reach(struct tug_node *n, uint32_t node); // opens the link, if it is not
void kv_peer_ready(struct tug_node *n, struct peer *p);
void kv_peer_lost(struct tug_node *n, struct peer *p); // its link is closed
// Breaks its link: what it was asked for fails, and the van lets go of the memory.
void kv_peer_break(struct tug_node *n, uint32_t node, const struct err *why);
void kv_peers_free(struct tug_node *n);

// kvapp_request.c
struct kv_request *kv_request_new(struct tug_app *a, uint32_t n_parts);
struct kv_request *kv_request_by_id(struct tug_node *n, uint64_t id);
void kv_request_start(struct kv_request *r); // sends its parts
struct kv_part *kv_request_part(struct kv_request *r, uint32_t node);
void kv_part_answered(struct kv_part *p, const struct err *why);
void kv_part_transmit(struct tug_node *n, struct peer *to, struct kv_part *p);
void kv_request_free(struct kv_request *r);
void kv_requests_of_node_fail(struct tug_node *n, uint32_t node, const struct err *why);
// Those of a customer that have no answer: links that hold their memory break.
void kv_requests_give_up(struct tug_app *a);

struct kv_request *kv_request_find(struct tug_app *a, uint32_t timestamp);
void kv_requests_free(struct tug_node *n);

// kvapp_kv.c
void *kv_place(struct kv_request *r, const struct kv_part *p, const struct msg_app *m,
               uint64_t body_bytes);
void kv_answered(struct tug_node *n, struct kv_part *p, struct van_message *m);
int kv_assemble(struct kv_request *r); // runs as work: may call `room`

// kvapp_received.c
void kv_received_app(struct tug_node *n, van_link link, uint32_t from,
                     struct van_message *m);
void kv_received_deliver_held(struct tug_node *n);
uint64_t kv_received_expire(struct tug_node *n, uint64_t now);
void kv_received_forget_app(struct tug_node *n, struct tug_app *a);
void kv_received_free(struct tug_node *n);
// A response to a simple request of ours, for its handler.
void kv_received_response(struct tug_app *a, uint32_t from, struct van_message *m);

#endif
