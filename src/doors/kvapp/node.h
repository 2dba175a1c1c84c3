// Shared by the files of kvapp: the node, its peers, customers, its own requests and
// those of others.
//
//   start.c       options, joining, leaving
//   node.c        roster, ids and ranks; handlers of the van's events
//   host.c        the scheduler, in the process of that role
//   peers.c       links to other nodes, opened with the first request
//   app.c         customers; simple requests; waiting
//   request.c     requests of this node, from their call to their end
//   kv.c          pushes and pulls: cutting by range or slicer, putting together
//   message.c     requests and answers by hand
//   barrier.c     barriers of nodes, and of single customers
//   received.c    requests of other nodes, and their answers
//   handle.c      handlers of requests and responses
//   kept.c        memory of other nodes' requests that programs keep
//   line.c        queues by priority, of parts to send and requests to handle
//   numbers.c     requests that arrive again after a link broke
//   store.c       the default store
//   facts.c       counts of requests, for the status
//   above.c       functions for kvstore
//   node_check.c  invariants, for builds with assertions
//
// Only the thread that has the van (pump.h) may use these structs and functions, unless a
// comment says otherwise.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVAPP_NODE_H
#define TUG_DOORS_KVAPP_NODE_H

#include <stdatomic.h>

#include "base/chains.h"
#include "cluster/node.h"
#include "cluster/session.h"
#include "cluster/silence.h"
#include "doors/kvapp/above.h"
#include "doors/kvapp/line.h"
#include "runtime/last_error.h"
#include "runtime/pump.h"
#include "runtime/ready.h"
#include "runtime/role.h"
#include "server/shard.h"
#include "tug/kvapp.h"

// How long a node that breaks off, or whose run has failed, waits until the other nodes
// have got the error.
#define KV_BREAK_OFF_NS (5 * SECOND_NS)
// At a barrier of customers, a node waits this much longer than the node that answers the
// barrier, so that the answer, which names the missing nodes, arrives in time.
#define KV_LONGER (5 * SECOND_NS)

enum { FIRST_SERVER = 8, FIRST_WORKER = 9 }; // node ids of rank 0; each next rank adds 2

// The app id of barriers of customers, which programs cannot use.
#define KV_BARRIERS UINT32_MAX

struct kv_part;

// The largest number of requests that a node sends to another node, counted from the
// oldest request without an answer. Further requests wait at the sender.
enum { KV_WINDOW = 4096 };

// Another node, with the link on which this node sends requests to it.
struct kv_peer {
    struct chained by_node; // must be the first member
    struct kv_peer *next;
    struct kv_peer_link {
        struct chained by_link; // must be the first member
        struct kv_peer *peer;
    } links[2]; // the links of `s` and of a second session that is tried while `s` is
                // silent; key 0: none
    uint32_t node;
    struct session s;
    // Watches whether `s` is silent while requests wait for answers.
    struct silence silence;
    uint64_t look;   // time at which kv_peers_look is to check this peer
    bool greeted;    // the peer has greeted on the link that was dialled last
    uint32_t breaks; // greeted links that broke since the last answer
    // The time at which a roster first showed that the node has died or left; 0: the node
    // is alive.
    uint64_t gone_at;
    uint64_t waiting;     // number of parts sent or queued here that have no answer
    struct kv_line line;  // the parts that wait to be sent, by priority
    uint64_t in_van;      // bytes given to the van that it has not sent yet
    uint64_t last_number; // the number of the part that was sent last
    uint64_t acked;       // all parts with lower numbers are answered
    // Bit number % KV_WINDOW says whether the part with this number was answered, for
    // numbers from `acked` on.
    uint64_t answered[KV_WINDOW / 64];
};

// A link that another node has opened to this node. (In a server, the shard keeps such
// links.)
struct guest {
    struct chained by_link; // must be the first member
    bool greeted;
    uint32_t node;
    uint64_t session;
};

// The part of a request that is sent to one node.
struct kv_part {
    struct kv_lined in_line; // the part's place in the line of its peer
    struct kv_request *request;
    uint32_t node;
    size_t first_key;     // index of the part's first key among the request's keys
    struct tug_kv_data d; // the part's keys, and the values of a push
    // The message of a request that the program sends by itself (tug_message_send).
    struct msg_app *copy;
    bool sent, queued, answered;
    struct kv_peer *peer; // the peer to which the part is sent; NULL: not sent yet
    uint64_t number; // the part's number among those sent to this peer; 0: not sent yet
    uint64_t bytes;  // bytes of the part's message that the van got
    // The answer to a pull, until its values are copied to the program's array. `kept` is
    // the memory of the answer's message.
    void *kept;
    const float *values;
    const int32_t *lengths;
    size_t n_got;
};

enum kv_state { KV_FREE, KV_OPEN, KV_ENDING, KV_FAILED };
enum kv_kind { KV_DATA, KV_SIMPLE, KV_BY_HAND };

struct kv_request {
    // Queued when the request has ended, if the program has a handler or callback for its
    // end.
    struct pump_work work;
    struct kv_request *before, *behind;
    struct tug_app *app;
    uint64_t id; // the request number in the frames of this request's messages
    uint32_t timestamp;
    enum kv_state state;
    enum kv_kind kind;
    int32_t head;
    char *body; // a copy of a simple request's body
    size_t body_bytes;
    struct tug_kv_request kv;
    uint32_t open; // number of parts without an answer
    uint32_t pins; // number of messages in the van that point at the request's memory
    bool in_place; // answers of the pull are received directly into the program's array
    struct err why;
    uint32_t n_parts, cap_parts;
    struct kv_part *parts;
};

// A request of another node whose memory the program keeps. The program may release it on
// any thread, without the van, and even after the node was closed. A release therefore
// only adds it to the list of kv_home, which outlives the node; the thread that has the
// van takes it from there.
struct kept_request {
    struct kept_request *next;
    struct received *q;
};

struct kv_home {
    _Atomic(struct kept_request *)
        released; // list of released requests; &home_closed: the node was closed (kept.c)
    // Number of references: one for the node, and one for each struct kept_request.
    atomic_uint refs;
    void (*drop)(void *body);
};

// A request of another node, until it is answered and no longer used.
struct received {
    struct kv_lined in_line; // the request's place in the node's line `waiting`
    struct pump_work work;
    // Neighbours in the list `held` of requests without a customer.
    struct received *before, *behind;
    struct tug_node *node;
    struct tug_app *app;
    van_link link;
    uint64_t request; // the request number that the answer's frame must have
    uint64_t ticket;
    // The node that numbered the request; NULL: the request has no number.
    struct asker *asker;
    struct received *next; // next in the list `reached` of barriers that are not complete
    uint64_t give_up;      // time at which a held request, or a barrier, is given up
    struct msg_app m;
    void *body;       // the message's memory (van_keep)
    uint64_t counted; // bytes taken from the budget of the process
    bool answered;
    // True: an answer to a request of this node, which needs no answer itself.
    bool is_response;
    atomic_uint refs;
    struct kv_home *home;
    // Number of struct kept_request that the program holds, plus one for the node.
    atomic_uint keeps;
    // The first tug_app_keep returns this one; further calls allocate one.
    struct kept_request first;
    atomic_bool first_used;
};

// The number of nodes that have answered a finished request, for tug_app_responses. A
// customer stores it for its last KV_DONE requests.
enum { KV_DONE = 256 };
struct kv_responses {
    bool used;
    uint32_t timestamp, n;
};

struct tug_app {
    struct chained by_ids, by_app; // entries in the tables of customers (app.c)
    struct tug_app *before, *next;
    struct tug_node *node;
    uint32_t app, customer;
    struct tug_app_handlers h;
    bool closing;        // the customer is being closed: no handler is called any more
    uint32_t n_handling; // number of handlers that run now
    uint32_t n_open_requests;
    atomic_uint n_waiting; // number of threads in kv_app_wait
    uint32_t next_timestamp;
    // Open and failed requests, at index timestamp & (n_open - 1).
    struct kv_request **open;
    uint32_t n_open;
    // The last requests that are done, at index timestamp & (KV_DONE - 1).
    struct kv_responses done[KV_DONE];
};

// How many requests this node has received, by kind; a request may be both a push and a
// pull. Barriers do not count.
struct kv_counts {
    uint64_t pushes, pulls, simple, refused;
    uint64_t keys, bytes; // the keys and bytes of all these requests
};

struct exit_callback {
    void (*fn)(void *ctx);
    void *ctx;
};

struct tug_node {
    struct tug_node_options o;
    struct role environment;
    char scheduler[VAN_ADDRESS_MAX];
    char root[VAN_ADDRESS_MAX]; // the host in the scheduler's address
    enum wire_role role;
    struct node process;
    bool hosts;        // whether this process runs the scheduler
    struct host *host; // the scheduler, if `hosts`
    struct van *van;
    struct pump *pump;
    struct shard *shard;        // a server's tables; else NULL
    struct roots *roots;        // a server's directories; else NULL
    struct van_handler beneath; // the shard's handlers of the van's events
    struct member *own_member;  // the member of a node that is not a server
    struct member *member;
    bool over; // the member has ended; all requests were given up
    // Whether all the cluster's ranks for workers were taken when this worker joined.
    bool one_too_many;
    bool ending; // tug_node_finalize: new customers, requests and calls are refused
    struct err why;

    uint64_t version; // version of the roster from which the following members were taken
    uint32_t n_servers;
    uint32_t *servers;   // node ids of the servers by rank
    uint64_t *last_keys; // last key of each server's range
    bool placed;

    struct session_side side; // this node's settings for sessions with its peers
    struct kv_peer *peers;
    struct chains peers_by_node, peers_by_link, guests;
    struct tug_app *apps;
    struct chains apps_by_ids, apps_by_app;
    struct tug_app *barriers;  // the customer that serves barriers (barrier.c)
    struct pump_work handling; // the work that handles the requests in `waiting`
    bool handling_queued;
    uint64_t handler_ns; // average time that recent handlers took
    struct kv_line waiting;
    struct asker *askers; // the nodes that send numbered requests to this one (numbers.c)
    struct chains askers_by_id;

    struct kv_request *first, *last; // list of requests in flight
    uint32_t n_in_flight;            // number of requests in flight
    struct kv_request *free_requests;
    struct kv_request **requests; // requests by the slot in their ids
    uint32_t n_requests, cap_requests;
    uint64_t count; // number of ids given so far

    struct kv_home *home;
    // Received requests by the slot in their tickets; NULL: the slot is free.
    struct received **received;
    uint32_t n_received, cap_received;
    uint32_t *free_received; // the free slots
    uint32_t n_free_received;
    uint64_t tickets;
    struct received *held, *last_held;
    // Version of the roster with which the held requests were last checked.
    uint64_t held_version;
    struct received *reached; // requests of customers at barriers that are not complete

    struct kv_counts counts;
    struct kv_above above;

    struct exit_callback *exits;
    size_t n_exits;

    atomic_uint lost_told; // number of lost processes in the last warning (tell_lost)
};

// Defined in node_check.c:
#ifndef NDEBUG
void kv_node_check(struct tug_node *n, uint64_t now);
#else
static inline void kv_node_check(struct tug_node *n, uint64_t now)
{
    (void)n, (void)now;
}
#endif

// Defined in node.c:
struct van_handler kv_node_handler(struct tug_node *n);
int kv_node_wait_ready(struct tug_node *n);
uint64_t kv_node_deadline(const struct tug_node *n);
// Ends the node with this error: all its requests fail, and all waits return the error.
void kv_node_give_up(struct tug_node *n, const struct err *why);
// Returns the polling time in nanoseconds, for pump_set_spin.
uint64_t kv_node_spin_ns(const struct tug_node *n);
// Returns the name of a node for messages: "server 0 (host:pid)", or "node 12" if the
// roster does not have it.
const char *kv_node_name(const struct tug_node *n, uint32_t id, char to[ROSTER_NAME_MAX]);
// Returns whether a node of the roster counts as a process of these groups. A server
// counts once, by its first loop. A worker whose rank is not below the number of workers
// does not count.
bool kv_node_is_in(const struct roster *r, const struct roster_node *node,
                   uint32_t groups);
size_t kv_node_ids(struct tug_node *n, uint32_t group_or_id, uint32_t *ret, size_t room);

// Defined in facts.c:
void kv_facts_count(struct tug_node *n, const struct msg_app *m);
void kv_facts_put(void *node, struct json_out *o);

// Defined in barrier.c:
int kv_barriers_open(struct tug_node *n, struct err *e);
void kv_barrier_reached(struct tug_node *n, struct received *q);
uint64_t kv_barriers_look(struct tug_node *n, uint64_t now);

// Defined in app.c:
int kv_app_ask(struct tug_app *a, int32_t head, const void *body, size_t body_bytes,
               uint32_t group_or_id, uint32_t *ret_timestamp, struct err *e);
// Waits as tug_app_wait does, for at most this many seconds.
int kv_app_wait(struct tug_app *a, uint32_t timestamp, double seconds);
struct tug_app *kv_app_find(const struct tug_node *n, uint32_t app, uint32_t customer);
void kv_apps_free(struct tug_node *n); // frees customers that could not be closed
// Waits until the customer's requests have ended, and gives up requests that have no
// answer in time. Returns false if a callback of a request has still not returned.
bool kv_app_end_requests(struct tug_app *a);
// Returns the customer with both ids; if there is none, the oldest customer of the app; if
// there is none, a customer of TUG_APP_ANY; else NULL.
struct tug_app *kv_app_for(const struct tug_node *n, uint32_t app, uint32_t customer);

// Defined in host.c:
int kv_host_start(struct host **ret, struct tug_node *n, struct err *e);
// Returns the address at which the node of this process reaches the scheduler.
const char *kv_host_address(const struct host *h);
// Listens on the scheduler's public address.
int kv_host_open_doors(struct host *h, struct err *e);
// Ends the cluster with this error.
void kv_host_end(struct host *h, const struct err *why);
// Stops and frees the scheduler. With `wait`, waits until the cluster has ended and
// returns its result.
int kv_host_stop(struct host *h, bool wait, struct err *e);

// Defined in numbers.c:
enum kv_seen { KV_NEW, KV_AGAIN, KV_WRONG };
enum kv_seen kv_numbers_look(struct tug_node *n, van_link link, uint32_t from,
                             const struct van_message *m, bool *ret_pull_only,
                             struct err *e);
int kv_numbers_take(struct tug_node *n, uint32_t from, struct received *q);
// Stores the answer to a numbered request until the answer is acknowledged. If `code` is
// 0, `what` is the answer's body; otherwise it is the text of the error.
void kv_numbers_answered(struct received *q, int code, const void *what, size_t bytes,
                         bool has_values);
// Frees the records of numbered requests of nodes that are dead or have left; if `all` is
// true, of all nodes.
void kv_numbers_forget(struct tug_node *n, bool all);

// Defined in peers.c:
struct session_side kv_peers_side(const struct tug_node *n); // needs the node's van
struct kv_peer *kv_peer_find(struct tug_node *n, van_link link);
// Sends a part now, or queues it until the peer's link is open and has room.
void kv_peer_send(struct tug_node *n, struct kv_part *p);
// Sends queued parts, as far as the windows of their peers allow.
void kv_peers_flush(struct tug_node *n);
// Called once for each part of kv_peer_send, when the part is answered.
void kv_peer_answered(struct kv_part *p);
// Returns whether the peer's window is full: no more parts are sent to it until the
// oldest open part is answered.
bool kv_peer_is_full(const struct kv_peer *p);
void kv_peer_reach(struct tug_node *n, uint32_t node); // opens the link unless it is open
void kv_peer_opened(struct kv_peer *p, van_link link, uint64_t now);
// Handles a message on a peer's link. Returns true if it was an answer to a request.
bool kv_peer_message(struct tug_node *n, struct kv_peer *p, van_link link,
                     const struct van_message *m, uint64_t now);
void kv_peer_closed(struct tug_node *n, struct kv_peer *p, van_link link,
                    const struct err *why, uint64_t now);
// Fails a customer's requests and breaks their links, so that the van releases the memory
// of the requests. The links are dialled again if they have requests of other customers.
void kv_peers_give_up(struct tug_node *n, const struct tug_app *a, const struct err *why);
void kv_peers_roster(struct tug_node *n); // checks all peers after a new roster
// Dials, watches and gives up links. Returns when it is to be called again.
uint64_t kv_peers_look(struct tug_node *n, uint64_t now);
void kv_peers_free(struct tug_node *n);

// Defined in request.c:
struct kv_request *kv_request_new(struct tug_app *a, uint32_t n_parts);
// Makes a request with a part for each living node of a group, or for one node.
int kv_request_new_to(struct kv_request **ret, struct tug_app *a, uint32_t group_or_id,
                      enum kv_kind kind, struct err *e);
void kv_request_unmake(struct kv_request *r); // frees a request that was never started
struct kv_request *kv_request_by_id(struct tug_node *n, uint64_t id);
void kv_request_start(struct kv_request *r); // sends the request's parts
struct kv_part *kv_request_part(struct kv_request *r, uint32_t node);
void kv_part_answered(struct kv_part *p, const struct err *why);
void kv_part_transmit(struct tug_node *n, struct kv_peer *to, struct kv_part *p);
const char *kv_unsent(int rc); // says why the van did not take a message
void kv_request_free(struct kv_request *r);
void kv_requests_of_node_fail(struct tug_node *n, uint32_t node, const struct err *why);
// Returns whether a request of the customer waits for an answer of this peer.
bool kv_request_waits(const struct tug_app *a, const struct kv_peer *p);
// Gives up a customer's requests without an answer, and breaks the links that hold their
// memory.
void kv_requests_give_up(struct tug_app *a);

struct kv_request *kv_request_find(struct tug_app *a, uint32_t timestamp);
void kv_requests_free(struct tug_node *n);

// Defined in kv.c:
// Returns the size of a value in bytes; `said` is a request's value_bytes, 0 for floats.
static inline size_t kv_value_bytes(size_t said)
{
    return said != 0 ? said : sizeof(float);
}

// Checks that the keys ascend strictly.
int kv_check_keys(const struct tug_kv_data *d, struct err *e);
// Checks that the counts and lengths fit the number and size of the values.
int kv_check_data(const struct tug_kv_data *d, struct err *e);
// kv_data_of returns pointers to the keys, values and lengths in a message.
// kv_check_message checks that these fit each other and n_keys. An answer has no keys;
// its n_keys is the number of keys that the request asked for.
struct tug_kv_data kv_data_of(const struct msg_app *m);
int kv_check_message(const struct msg_app *m, size_t n_keys, struct err *e);
void *kv_place(struct kv_request *r, const struct kv_part *p, const struct msg_app *m,
               uint64_t body_bytes);
void kv_answered(struct tug_node *n, struct kv_part *p, struct van_message *m);
// Called as work of the pump, without the van, because it may call the program's function
// `room`.
int kv_assemble(struct kv_request *r);

// Defined in received.c:
void kv_received_app(struct tug_node *n, van_link link, uint32_t from,
                     struct van_message *m);
void kv_received_deliver_held(struct tug_node *n);
uint64_t kv_received_expire(struct tug_node *n, uint64_t now);
void kv_received_forget_app(struct tug_node *n, struct tug_app *a);
void kv_received_free(struct tug_node *n);
struct received *kv_received_by_ticket(struct tug_node *n, uint64_t ticket);
struct received *kv_received_open(struct tug_node *n, const struct tug_message *m);
int kv_received_answer(struct tug_node *n, struct received *q, struct msg_app *m,
                       const struct van_release *release, struct err *e);
void kv_received_refuse(struct tug_node *n, struct received *q, int code,
                        const char *why);
// Drops one reference to the request; without references, its memory is freed. The caller
// has the van.
void kv_received_let_go(struct received *q);
// Passes a response to a request of this node to the customer's handler.
void kv_received_response(struct tug_app *a, uint32_t from, struct van_message *m);

// Defined in handle.c:
// Queues the request by priority.
void kv_handle_request(struct received *q, struct tug_app *a);
void kv_handle_response(struct received *q);
// Continues to handle requests that waited for memory because other nodes had not read
// their answers. Returns when it is to be called again.
uint64_t kv_handle_look(struct tug_node *n, uint64_t now);
// Returns the request whose handler this thread runs, or NULL.
struct received *kv_handled(void);
// Returns the most bytes of values that an answer may have.
uint64_t kv_answer_most(const struct tug_node *n);

// Defined in kept.c:
int kv_kept_init(struct tug_node *n, struct err *e);
void kv_kept_drain(struct tug_node *n); // frees memory that programs have released
// Separates the node from memory that programs still keep, so that their release frees the
// memory without the node.
void kv_kept_close(struct tug_node *n);

#endif
