// Shared by the files of kvapp: the node, its peers, customers, its own requests and
// those of others.
//
//   start.c     options, joining, the end
//   node.c      who is who; the van's calls
//   host.c      the scheduler, in the process of that role
//   peers.c     links to other nodes, opened when they are wanted
//   app.c       customers; simple requests; waiting
//   request.c   requests of this node, from the first call to the end
//   kv.c        pushes and pulls: cut by range or slicer, put together again
//   message.c   requests and answers by hand
//   barrier.c   barriers of nodes, and of single customers
//   received.c  requests of others, and their answers
//   handle.c    handlers of requests and responses
//   kept.c      what programs keep of requests of others
//   line.c      lines by priority: what waits to be sent, and to be handled
//   numbers.c   requests that come again
//   store.c     the default store
//   above.c     what the part above asks of a node
//
// Everything here belongs to who has the van (pump.h), unless it says otherwise.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVAPP_NODE_H
#define TUG_KVAPP_NODE_H

#include <stdatomic.h>

#include "base/chains.h"
#include "cluster/node.h"
#include "cluster/session.h"
#include "cluster/silence.h"
#include "facade/last_error.h"
#include "facade/pump.h"
#include "facade/role.h"
#include "kvapp/line.h"
#include "server/shard.h"
#include "tug/kvapp.h"

#define SECOND ((uint64_t)1000000000)

// How much longer a waiting node waits for the node that names the missing ones.
#define KV_LONGER (5 * SECOND)

enum { FIRST_SERVER = 8, FIRST_WORKER = 9 }; // ids; the next ones two further

// The app of customers' barriers; programs have no such customer.
#define KV_BARRIERS UINT32_MAX

struct kv_part;

// Requests to a node without an answer; those beyond wait here.
enum { KV_WINDOW = 4096 };

// A link to another node, for requests of this one.
struct kv_peer {
    struct chained by_node; // first
    struct kv_peer *next;
    struct kv_peer_link {
        struct chained by_link; // first
        struct kv_peer *peer;
    } links[2]; // of `s` and of the one that is tried beside it; key 0: there is none
    uint32_t node;
    struct session s;
    struct silence silence;            // of `s`, while requests wait
    uint64_t look;                     // when it is to be looked at
    bool greeted;                      // since it was dialled last
    uint32_t breaks;                   // of greeted links, since the last answer
    uint64_t gone_at;                  // the cluster goes on without the node since then
    uint64_t waiting;                  // parts without an answer
    struct kv_line line;               // of parts to be sent
    uint64_t in_van;                   // bytes that the van still holds
    uint64_t last_number;              // that was given to a part
    uint64_t acked;                    // all numbers below are answered
    uint64_t answered[KV_WINDOW / 64]; // bit number % KV_WINDOW, from `acked` on
};

// A link that another node opened to this one, which is not a server.
struct guest {
    struct chained by_link; // first
    bool greeted;
    uint32_t node;
};

// The part of a request for one node.
struct kv_part {
    struct kv_lined in_line; // of those that wait for the peer's link
    struct kv_request *request;
    uint32_t node;
    size_t first_key;     // among those of the request
    struct tug_kv_data d; // what it is sent, or asked for
    struct msg_app *copy; // of a request by hand: what it was told to send
    bool sent, queued, answered;
    struct kv_peer *peer; // that it was sent to
    uint64_t number;      // the number that it was sent with
    uint64_t bytes;       // that the van got
    // The answer of a pull, as long as it has not been put in its place.
    void *kept;
    const float *values;
    const int32_t *lengths;
    size_t n_got;
};

enum kv_state { KV_FREE, KV_OPEN, KV_ENDING, KV_FAILED };
enum kv_kind { KV_DATA, KV_SIMPLE, KV_BY_HAND };

struct kv_request {
    struct pump_work work; // its end, when callbacks are to be called
    struct kv_request *before, *behind;
    struct tug_app *app;
    uint64_t id; // of its messages
    uint32_t timestamp;
    enum kv_state state;
    enum kv_kind kind;
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

// Programs may give kept memory back from any thread, also in the middle of the library,
// and after the node was closed. So it is put into a list, from which the thread with the
// van takes it; the list outlives the node.
struct kept {
    struct kept *next;
    struct received *q;
};

struct kv_home {
    _Atomic(struct kept *) released; // or &home_closed (kept.c)
    atomic_uint refs;                // the node's, and of each that is kept
    void (*drop)(void *body);
};

// A request of another node, until it is answered and no longer used.
struct received {
    struct kv_lined in_line; // of those that wait for their handlers
    struct pump_work work;
    struct received *before, *behind; // of those without a customer
    struct tug_node *node;
    struct tug_app *app;
    van_link link;
    uint64_t request; // of its frame
    uint64_t ticket;
    struct asker *asker;   // who numbered it, or NULL
    struct received *next; // of barriers that are not complete
    uint64_t give_up;      // when there is still no customer; when a barrier is
    struct msg_app m;
    void *body;       // kept
    uint64_t counted; // in the account
    bool answered;
    bool is_response; // of a simple request of this node: not to be answered
    atomic_uint refs;
    struct kv_home *home;
    atomic_uint keeps; // of programs, and the node's own
    struct kept first; // what the first keep returns
    atomic_bool first_used;
};

// Returns how many answers a finished request had.
enum { KV_DONE = 256 };
struct kv_responses {
    bool used;
    uint32_t timestamp, n;
};

struct tug_app {
    struct chained by_ids, by_app; // see app.c
    struct tug_app *before, *next;
    struct tug_node *node;
    uint32_t app, customer;
    struct tug_app_handlers h;
    bool closing;        // its handlers are not called any more
    uint32_t n_handling; // those that run now
    uint32_t n_open_requests;
    atomic_uint n_waiting; // threads in kv_app_wait
    uint32_t next_timestamp;
    struct kv_request **open; // at timestamp & (n_open - 1)
    uint32_t n_open;
    struct kv_responses done[KV_DONE]; // at timestamp & (KV_DONE - 1)
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
    bool over;         // the member has ended: all is given up
    bool one_too_many; // of the workers: it is over for this node only
    bool ending;       // no customers, requests and calls are taken any more
    struct err why;

    uint64_t version; // of the roster that the following are of
    uint32_t n_servers;
    uint32_t *servers;   // ids by rank
    uint64_t *last_keys; // of each
    bool placed;

    struct session_side side; // of peers
    struct kv_peer *peers;
    struct chains peers_by_node, peers_by_link, guests;
    struct tug_app *apps;
    struct chains apps_by_ids, apps_by_app;
    struct tug_app *barriers;  // see barrier.c
    struct pump_work handling; // of those who wait for their handlers:
    bool handling_queued;
    uint64_t handler_ns; // what one took of late
    struct kv_line waiting;
    struct asker *askers; // see numbers.c
    struct chains askers_by_id;

    struct kv_request *first, *last; // open ones
    uint32_t n_in_flight;            // so many
    struct kv_request *free_requests;
    struct kv_request **requests; // by slot of the id
    uint32_t n_requests, cap_requests;
    uint64_t count; // of ids

    struct kv_home *home;
    struct received **received; // by slot of the ticket; NULL: free
    uint32_t n_received, cap_received;
    uint32_t *free_received; // slots
    uint32_t n_free_received;
    uint64_t tickets;
    struct received *held, *last_held;
    uint64_t held_version;    // of the roster that they were held against
    struct received *reached; // barriers of customers that are not complete

    struct exit_callback *exits;
    size_t n_exits;
};

// node.c
struct van_handler kv_node_handler(struct tug_node *n);
int kv_node_wait_ready(struct tug_node *n);
uint64_t kv_node_deadline(const struct tug_node *n);
void kv_node_give_up(struct tug_node *n, const struct err *why); // all that waits
uint64_t kv_node_spin_ns(const struct tug_node *n);              // see pump_set_spin
// "server 0 (host:pid)"; "node 12" for an unknown one.
const char *kv_node_name(const struct tug_node *n, uint32_t id, char to[ROSTER_NAME_MAX]);
// Whether it is a process of these groups: no further loop of one, no worker too many.
bool kv_node_is_in(const struct roster *r, const struct roster_node *node,
                   uint32_t groups);
size_t kv_node_ids(struct tug_node *n, uint32_t group_or_id, uint32_t *ret, size_t room);

// barrier.c
int kv_barriers_open(struct tug_node *n, struct err *e);
void kv_barrier_reached(struct tug_node *n, struct received *q);
uint64_t kv_barriers_look(struct tug_node *n, uint64_t now);

// app.c
int kv_app_ask(struct tug_app *a, int32_t head, const void *body, size_t body_bytes,
               uint32_t group_or_id, uint32_t *ret_timestamp, struct err *e);
int kv_app_wait(struct tug_app *a, uint32_t timestamp, uint64_t longer_ns);
struct tug_app *kv_app_find(const struct tug_node *n, uint32_t app, uint32_t customer);
void kv_apps_free(struct tug_node *n); // those that could not be closed
// Waits for its requests, and gives up those that have no answer in time. False: a callback of
// theirs has not returned.
bool kv_app_end_requests(struct tug_app *a);
// Finds as kv_app_find does, or else the app's oldest customer, or one of TUG_APP_ANY.
struct tug_app *kv_app_for(const struct tug_node *n, uint32_t app, uint32_t customer);

// host.c
int kv_host_start(struct host **ret, struct tug_node *n, struct err *e);
const char *kv_host_address(const struct host *h);     // where its own process reaches it
int kv_host_open_doors(struct host *h, struct err *e); // others may come
// Ends the cluster for this reason.
void kv_host_end(struct host *h, const struct err *why);
// With `wait`, waits until the cluster has ended: returns 0, or why it failed. Frees.
int kv_host_stop(struct host *h, bool wait, struct err *e);

// numbers.c
enum kv_seen { KV_NEW, KV_AGAIN, KV_WRONG };
enum kv_seen kv_numbers_look(struct tug_node *n, van_link link, uint32_t from,
                             const struct van_message *m, bool *ret_pull_only,
                             struct err *e);
int kv_numbers_take(struct tug_node *n, uint32_t from, struct received *q);
// Its answer, kept until it is acknowledged: a code with a sentence, or a body.
void kv_numbers_answered(struct received *q, int code, const void *what, size_t bytes,
                         bool has_values);
void kv_numbers_forget(struct tug_node *n, bool all); // of those who are gone

// peers.c
struct session_side kv_peers_side(const struct tug_node *n); // the van is there
struct kv_peer *kv_peer_find(struct tug_node *n, van_link link);
void kv_peer_send(struct tug_node *n, struct kv_part *p); // now, or when there is room
void kv_peers_flush(struct tug_node *n);                  // what there is room for now
void kv_peer_answered(struct kv_part *p);                 // of one that was to be sent
// Its window is: more is sent to it only when the first without an answer has one.
bool kv_peer_is_full(const struct kv_peer *p);
void kv_peer_reach(struct tug_node *n, uint32_t node); // opens the link, if it is not
void kv_peer_opened(struct kv_peer *p, van_link link, uint64_t now);
// Returns true if the message was an answer to a request.
bool kv_peer_message(struct tug_node *n, struct kv_peer *p, van_link link,
                     const struct van_message *m, uint64_t now);
void kv_peer_closed(struct tug_node *n, struct kv_peer *p, van_link link,
                    const struct err *why, uint64_t now);
// Fails a customer's requests and breaks their links, so that the van releases the
// memory. They are dialled again for what others have asked.
void kv_peers_give_up(struct tug_node *n, const struct tug_app *a, const struct err *why);
void kv_peers_roster(struct tug_node *n);                 // there is a new one
uint64_t kv_peers_look(struct tug_node *n, uint64_t now); // returns when to look again
void kv_peers_free(struct tug_node *n);

// request.c
struct kv_request *kv_request_new(struct tug_app *a, uint32_t n_parts);
// Sends to each living node of a group, or to one.
int kv_request_new_to(struct kv_request **ret, struct tug_app *a, uint32_t group_or_id,
                      enum kv_kind kind, struct err *e);
void kv_request_unmake(struct kv_request *r); // one that was never started
struct kv_request *kv_request_by_id(struct tug_node *n, uint64_t id);
void kv_request_start(struct kv_request *r); // sends its parts
struct kv_part *kv_request_part(struct kv_request *r, uint32_t node);
void kv_part_answered(struct kv_part *p, const struct err *why);
void kv_part_transmit(struct tug_node *n, struct kv_peer *to, struct kv_part *p);
const char *kv_unsent(int rc); // why the van did not take a message
void kv_request_free(struct kv_request *r);
void kv_requests_of_node_fail(struct tug_node *n, uint32_t node, const struct err *why);
// Whether the node owes the customer an answer.
bool kv_request_waits(const struct tug_app *a, const struct kv_peer *p);
// Gives up a customer's requests without an answer: breaks the links that hold their
// memory.
void kv_requests_give_up(struct tug_app *a);

struct kv_request *kv_request_find(struct tug_app *a, uint32_t timestamp);
void kv_requests_free(struct tug_node *n);

// kv.c
// Of one value; nothing said: floats.
static inline size_t kv_value_bytes(size_t said)
{
    return said != 0 ? said : sizeof(float);
}

// Whether keys ascend strictly.
int kv_check_keys(const struct tug_kv_data *d, struct err *e);
// Whether counts, lengths and bytes of values fit each other.
int kv_check_data(const struct tug_kv_data *d, struct err *e);
// Keys, values and lengths of a message, as they lie in it; and whether they fit each other and the
// number of keys (of an answer, which has none, those that were asked for).
struct tug_kv_data kv_data_of(const struct msg_app *m);
int kv_check_message(const struct msg_app *m, size_t n_keys, struct err *e);
void *kv_place(struct kv_request *r, const struct kv_part *p, const struct msg_app *m,
               uint64_t body_bytes);
void kv_answered(struct tug_node *n, struct kv_part *p, struct van_message *m);
int kv_assemble(struct kv_request *r); // runs as work: may call `room`

// received.c
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
void kv_received_let_go(struct received *q); // with the van: nobody looks at it
// A response to a request of ours, for its handler.
void kv_received_response(struct tug_app *a, uint32_t from, struct van_message *m);

// handle.c
void kv_handle_request(struct received *q, struct tug_app *a); // by its priority
void kv_handle_response(struct received *q);
// Requests that wait until answers have been read: handled when they have. Returns when to
// look again.
uint64_t kv_handle_look(struct tug_node *n, uint64_t now);
// The request whose handler the calling thread runs, or NULL.
struct received *kv_handled(void);
// Bytes of values that one answer has at most.
uint64_t kv_answer_most(const struct tug_node *n);

// kept.c
int kv_kept_init(struct tug_node *n, struct err *e);
void kv_kept_drain(struct tug_node *n); // what programs have given back
void kv_kept_close(struct tug_node *n); // what they still keep they free alone

#endif
