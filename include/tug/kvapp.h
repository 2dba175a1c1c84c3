// kvapp: programs on the interface of ps-lite (dmlc), in C.
//
// A cluster is one scheduler, S servers and W workers, each a process that calls
// tug_node_start and, at its end, tug_node_finalize. In these processes customers (struct
// tug_app) send requests and handle those of other customers. A request has a head and a
// body (simple app), or keys and values, which are cut by the servers' ranges of keys
// (key-value app). from-ps-lite.md in the documentation (share/doc/tug) maps ps-lite's
// names to these and says what differs.
//
// Threads: all functions may be called from any thread. Callbacks and handlers of a node
// run one at a time, on a thread of the library or on a thread that waits in it. Requests
// of other nodes are handled by priority, everything else in the order of arrival.
// Callbacks and handlers may send and answer. They must not wait (calls that would wait
// return TUG_EUSAGE), and should be short, because they delay the node's other callbacks.
//
// Errors: functions return 0 or a code of tug/tug.h; tug_last_error() is the sentence.
// Besides the codes listed with a function, each may return TUG_ENOMEM. Functions that
// send or wait return the cluster's code once the cluster has ended. Functions that wait
// return TUG_EIO after the node's wait_seconds (tug_last_error names the awaited nodes),
// and TUG_EINTERRUPTED if the program interrupts them (tug_interrupt_by). Only servers
// and the scheduler wait without a limit, in tug_node_finalize, as long as there are
// workers. Ownership: the memory of arguments belongs to the caller and is read during
// the call only. A tug_kv_request is the exception: the request uses its memory until it
// is done. Nodes, customers and stores are freed by their closing calls.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVAPP_H
#define TUG_KVAPP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tug.h"

#ifdef __cplusplus
extern "C" {
#endif

// The roles of nodes; a group of nodes is the sum of its roles (ps-lite: kScheduler,
// kServerGroup, kWorkerGroup).
enum tug_group {
    TUG_GROUP_SCHEDULER = 1,
    TUG_GROUP_SERVERS = 2,
    TUG_GROUP_WORKERS = 4,
    TUG_GROUP_ALL = 7
};

// A node is this process's place in the cluster (ps::Postoffice).
struct tug_node;

// The options of tug_node_start. An option that is 0 or NULL is taken from the
// environment. The required variables are DMLC_ROLE, DMLC_NUM_SERVER, DMLC_NUM_WORKER,
// DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT, or Paddle's names (tug/fleet.h). Optional are
// DMLC_WORKER_ID or DMLC_SERVER_ID (the rank that this process gets if it is free),
// DMLC_NODE_HOST, DMLC_INTERFACE, PORT, TUG_SCHEDULER (which overrides DMLC_PS_ROOT_*),
// TUG_CLUSTER, TUG_CA, TUG_CERT, TUG_KEY, TUG_INSECURE, TUG_SPIN_US, TUG_WAIT_SECONDS and
// TUG_DEAD_SECONDS. The strings need not outlive the call of tug_node_start.
struct tug_node_options {
    int role; // one of enum tug_group
    uint32_t servers, workers;
    // "HOST:PORT" of the scheduler, or of several schedulers, separated by commas.
    const char *scheduler;
    // The cluster's name; the scheduler refuses nodes with another name.
    const char *cluster;
    // The address to listen at, or, if `host` is NULL, the network interface.
    const char *host, *network;
    uint16_t port; // the port to listen at; 0: the system chooses a free one
    const char *ca, *cert, *key; // paths of PEM files; all NULL: links without TLS
    bool insecure;               // allows links to other machines without TLS
    double wait_seconds;         // the time limit of each wait; by default 600
    // The number of seconds without a message from a node after which the scheduler
    // counts it as dead; by default 5.
    double dead_seconds;
    double spin_us; // microseconds that a wait polls before it sleeps; by default 300
    // If true, tug_node_start does not wait for the other nodes (ps::StartAsync);
    // tug_node_wait does.
    bool async;
    // If true, this server also runs the scheduler, at the address `scheduler`. (The
    // first server in Paddle's list of servers does so.)
    bool hosts_scheduler;
    // A server's directories, with commas between them, from which tables may be loaded,
    // besides those of TUG_LOAD_ROOT.
    const char *load_root;
};

// Joins the cluster and waits until all servers and workers have joined (ps::Start). In
// the scheduler's process the call also starts the scheduler. `o` may be NULL. TUG_EUSAGE
// if variables are missing (tug_last_error names all of them), if the cluster was started
// for other numbers of servers and workers, or if it has all its workers already (this
// error comes after 3 x dead_seconds + 5 seconds, in which the process waits for the
// place of a dead worker); TUG_EIO if the scheduler cannot be reached in time.
TUG_API int tug_node_start(struct tug_node **ret, const struct tug_node_options *o);

// Waits until all servers and workers have joined, which tug_node_start does itself
// unless `async` is true. TUG_EUSAGE in a callback.
TUG_API int tug_node_wait(struct tug_node *n);

// Leaves the cluster and frees the node and its customers (ps::Finalize). With `barrier`
// it first waits for all other nodes. Servers and the scheduler stay until the last
// worker has left. The call returns after the last callback has returned, however long
// that takes; until then callbacks may use the node and its apps. NULL is fine. The node
// is freed even if the call returns an error, which is the first that occurred. In a
// callback it returns TUG_EUSAGE and does nothing.
TUG_API int tug_node_finalize(struct tug_node *n, bool barrier);
// Registers a function that tug_node_finalize calls after the node has left the cluster
// and before it is freed, in the order of registration (ps::RegisterExitCallback). The
// function may close customers.
TUG_API int tug_node_at_exit(struct tug_node *n, void (*fn)(void *ctx), void *ctx);

// These functions return this node's role, id and rank, and the numbers of servers and
// workers (ps::IsWorker, MyRank, NumServers and so on). Ids are ps-lite's: 1 for the
// scheduler, 8 + 2 r for the server of rank r, 9 + 2 r for the worker of rank r. Ranks
// count from 0 within a role. The numbers of servers and workers are those with which the
// cluster was started; before all nodes have joined, they are those of this process's
// options or environment.
TUG_API int tug_node_role(const struct tug_node *n); // one of enum tug_group
TUG_API uint32_t tug_node_id(struct tug_node *n);    // 0 before this node has joined
TUG_API uint32_t tug_node_rank(struct tug_node *n);
TUG_API uint32_t tug_node_servers(const struct tug_node *n);
TUG_API uint32_t tug_node_workers(const struct tug_node *n);

// Gets the ids of the living nodes of a group, in ascending order
// (ps::Postoffice::GetNodeIDs). If `group_or_id` is the id of a node, gets that id alone,
// whether the node is alive or dead. Returns the number of ids; at most `room` of them
// are written.
TUG_API size_t tug_node_ids(struct tug_node *n, uint32_t group_or_id, uint32_t *ret,
                            size_t room);
// Gets the ids of the nodes that the scheduler counts as dead, or that have left
// (ps::Postoffice::GetDeadNodes). Returns the number of ids; at most `room` of them are
// written.
TUG_API size_t tug_node_dead(struct tug_node *n, uint32_t *ret, size_t room);

// Facts about a node (ps::Node).
struct tug_node_info {
    int role; // one of enum tug_group
    uint32_t id, rank;
    bool alive;
    char host[64];
    // The port at which the node listens; for the scheduler, that of DMLC_PS_ROOT_PORT. 0
    // if the node does not listen at a port.
    uint16_t port;
    bool recovered; // whether the node replaces one that died (ps::Node::is_recovery)
};
// Gets the facts about the node with this id, also if it has died. Does not wait.
// TUG_EUSAGE if no node ever had this id.
TUG_API int tug_node_find(struct tug_node *n, uint32_t id, struct tug_node_info *ret);

// Begins to open the link to a node, so that the first request to the node does not have
// to wait for the link (ps::Van::Connect). Does not wait. TUG_EUSAGE if no node ever had
// this id.
TUG_API int tug_node_reach(struct tug_node *n, uint32_t id);

// Gets the range of keys of the server with this rank: *ret_first to *ret_last, both
// included (ps::Postoffice::GetServerKeyRanges; borders are multiples of a 256th of all
// keys, and not of kMaxKey / n). TUG_EUSAGE if there is no such server, or not all servers
// have joined yet.
TUG_API int tug_node_range(struct tug_node *n, uint32_t server_rank, uint64_t *ret_first,
                           uint64_t *ret_last);

// Waits until each living node of the group (a sum of enum tug_group) has called
// tug_node_barrier as many times as this node (ps::Postoffice::Barrier). TUG_EUSAGE in a
// callback, or if this node is not in the group. A barrier counts as reached even if the
// wait for it ended in an error.
TUG_API int tug_node_barrier(struct tug_node *n, uint32_t group);

// Does the same as tug_node_barrier for the customers with the id `customer`: each id has
// barriers of its own. All nodes of the group must have such a customer and call the
// function. The barriers of customer 0 are those of tug_node_barrier.
TUG_API int tug_node_barrier_of(struct tug_node *n, uint32_t customer, uint32_t group);

// Runs fn as a callback of the node, after the callbacks of earlier events
// (ps::Customer::Accept). Does not wait until fn has run.
TUG_API int tug_node_call(struct tug_node *n, void (*fn)(void *ctx), void *ctx);

// A request of a simple app, or an answer to such a request: a number (head) and some
// bytes (body) (ps::SimpleData). An answer has the head and timestamp of its request.
struct tug_simple {
    int32_t head;
    const void *body; // body_bytes bytes, without a final 0
    size_t body_bytes;
    uint32_t sender;              // the node id of the sender
    uint32_t timestamp, customer; // the request's timestamp and customer id at its sender
    uint64_t ticket;              // names the request for tug_app_answer
};

// Keys and their values (ps::KVPairs). Keys ascend and do not repeat. Values are stored
// one after the other. Key i has lengths[i] values, or, without lengths, each key has
// n_values / n_keys. Values are floats, or, if value_bytes is not 0, data of value_bytes
// bytes each, which the library does not interpret; the caller then casts the pointers
// `values` and `pulled`.
struct tug_kv_data {
    const uint64_t *keys;
    size_t n_keys;
    const float *values;
    size_t n_values;
    const int32_t *lengths; // n_keys lengths, none negative; NULL: all are equal
    uint32_t value_bytes; // size of a value that is not a float: 1, 2, 4 or 8; 0: floats
};

// Describes a push or pull of another node (ps::KVMeta). If a push-and-pull arrives a
// second time because its answer was lost, `push` is false, because its push was handled
// before.
struct tug_kv_meta {
    int32_t cmd;
    bool push, pull;
    // The sender's node id, and the timestamp and customer of the request there.
    uint32_t sender, timestamp, customer;
    uint64_t ticket; // names the request for tug_kv_answer
};

// A raw message (ps::Message with its ps::Meta), for customers with a `message` handler
// and for tug_message_send. `data` are keys, values and lengths as in struct tug_kv_data;
// NULL where absent.
enum { TUG_MESSAGE_DATA = 3 };
struct tug_message {
    int32_t head, priority;
    bool request; // true: a request; false: an answer to a request
    bool simple;  // true: the message has a body; false: it has data
    // Whether a message with data belongs to a push, a pull or both.
    bool push, pull;
    uint32_t app, customer;    // the ids of the customer that made the request
    uint32_t timestamp;        // the request's timestamp at that customer
    uint32_t sender, receiver; // node ids
    const void *body;
    size_t body_bytes;
    const void *data[TUG_MESSAGE_DATA];
    size_t data_bytes[TUG_MESSAGE_DATA];
    uint32_t value_bytes; // see struct tug_kv_data
    uint64_t ticket;      // identifies a received request; 0 in other messages
};

// A customer with this app id gets the requests for apps that this process has not
// opened. Without such a customer these requests wait until the app is opened.
#define TUG_APP_ANY ((uint32_t)-2)

// A customer (ps::Customer with ps::SimpleApp, ps::KVWorker and ps::KVServer around it).
// A request goes to a customer with the same app id. On a server this is the customer
// whose customer id equals the app id; on any other node, the customer with the sender's
// customer id. If there is no such customer, the first customer of the app gets the
// request.
struct tug_app;

// The functions that handle the messages of a customer; each may be NULL. The memory of
// arguments is valid until the handler returns, or, if the handler calls tug_app_keep,
// until tug_app_release. Each request must be answered once, now or later, from any
// thread, by tug_app_answer, tug_kv_answer or tug_app_refuse. A node sends another node
// at most 4,096 requests, counted from the oldest one without an answer.
struct tug_app_handlers {
    // Handles a simple request of another node. NULL: the library answers at once,
    // without a body.
    void (*request)(void *ctx, struct tug_app *a, const struct tug_simple *q);
    // Gets each answer to a simple request of this customer.
    void (*response)(void *ctx, struct tug_app *a, const struct tug_simple *r);
    // Handles a push or pull of another node. NULL: the library refuses it.
    void (*kv)(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
               const struct tug_kv_data *d);
    // Used instead of the other three if it is not NULL: gets requests of any kind, which
    // can also be answered by tug_message_send, and answers to requests of
    // tug_app_new_request.
    void (*message)(void *ctx, struct tug_app *a, const struct tug_message *m);
    void *ctx;
};

// Opens a customer (ps::SimpleApp, ps::KVWorker, ps::KVServer); its handlers may run
// before this returns. A request that arrived before the customer was opened waits at
// most ten seconds for it, and is then refused. `h` may be NULL. TUG_EUSAGE if the node
// has a customer with these ids, or the app id is UINT32_MAX, which the library uses
// itself.
TUG_API int tug_app_open(struct tug_app **ret, struct tug_node *n, uint32_t app,
                         uint32_t customer, const struct tug_app_handlers *h);
// Closes a customer. Waits at most wait_seconds for the answers to its requests and gives
// up requests without an answer; their memory is then the caller's again. Refuses the
// requests of other customers that it has not answered yet. NULL is fine.
// tug_node_finalize closes customers that are still open. The customer stays open on
// TUG_EUSAGE (called in a callback or handler) and on TUG_EIO (one of its callbacks or
// handlers, or a thread that waits for one of its requests, has not returned within
// wait_seconds).
TUG_API int tug_app_close(struct tug_app *a);
TUG_API struct tug_node *tug_app_node(const struct tug_app *a);
// Returns the customer of this process with these ids (ps::Postoffice::GetCustomer).
// Waits up to `seconds` for it to be opened, but not in a callback. Returns NULL if it is
// not open at the end of the wait.
TUG_API struct tug_app *tug_app_find(struct tug_node *n, uint32_t app, uint32_t customer,
                                     double seconds);

// Sends a simple request to a node, or to all living nodes of a group
// (ps::SimpleApp::Request). The request is done when all these nodes have answered.
// TUG_EUSAGE if there is no such node, or the group is empty.
TUG_API int tug_app_request(struct tug_app *a, int32_t head, const void *body,
                            size_t body_bytes, uint32_t group_or_id,
                            uint32_t *ret_timestamp);
// Answers a simple request (ps::SimpleApp::Response). TUG_EUSAGE if it was answered
// before; TUG_EIO if its sender has left.
TUG_API int tug_app_answer(struct tug_app *a, uint64_t ticket, const void *body,
                           size_t body_bytes);
// Refuses a request of any kind: at its sender the request fails with this code (or
// TUG_EUSAGE if the code is invalid) and the sentence `why`. Returns TUG_EUSAGE if the
// request was answered before.
TUG_API int tug_app_refuse(struct tug_app *a, uint64_t ticket, int code, const char *why);

// Keeps the memory of a handler's arguments after the handler returns; called in the
// handler of a request of any kind. The program must pass the returned pointer to
// tug_app_release, once, from any thread, even after the node was freed. Returns NULL if
// there is no such request, its memory is already kept, or memory is short.
TUG_API void *tug_app_keep(struct tug_app *a, uint64_t ticket);
TUG_API void tug_app_release(void *kept); // NULL is fine

// Waits until a request of this customer, of any kind, is done and its callback has run
// (ps::Customer::WaitRequest). Returns 0 or the request's error (a node died or refused
// it). The error is returned once; further calls return 0. After a timeout or an
// interrupt the program can wait for the request again. TUG_EUSAGE in a callback, or if
// no request had this timestamp.
TUG_API int tug_app_wait(struct tug_app *a, uint32_t timestamp);

// Makes a request whose messages the program sends by tug_message_send
// (ps::Customer::NewRequest). The request is done when each node of the group has
// answered its message, or was counted by tug_app_add_responses.
TUG_API int tug_app_new_request(struct tug_app *a, uint32_t group_or_id,
                                uint32_t *ret_timestamp);
// Counts n nodes as if they had answered; the request must not have sent them a message
// (ps::Customer::AddResponse). TUG_EUSAGE if there are fewer such nodes, or the request
// is done.
TUG_API int tug_app_add_responses(struct tug_app *a, uint32_t timestamp, uint32_t n);
// Gets the number of answers to a request of this customer, of any kind
// (ps::Customer::NumResponse). The request must be open or among the last 256 that are
// done (else TUG_EUSAGE). Servers for which a push or pull has no keys count as if they
// had answered.
TUG_API int tug_app_responses(struct tug_app *a, uint32_t timestamp, uint32_t *ret_n);

// Sends a copy of a message (ps::Van::Send); `sender` and `ticket` are ignored. If the
// message is a request, this node's customer `app`, `customer` sends it to the node
// `receiver`; `timestamp` must come from tug_app_new_request for a group that includes
// `receiver`. If the message is an answer, it answers the request of the node `receiver`
// with this app, customer and timestamp. TUG_EUSAGE if there is no such customer or
// request, the message was sent or the request answered before, or the data are not keys,
// values and lengths.
TUG_API int tug_message_send(struct tug_node *n, const struct tug_message *m);

// A push, a pull, or both for tug_kv_send. A request that pushes and pulls gets the
// values after its push.
struct tug_kv_request {
    bool push, pull;
    int32_t cmd;
    // A request with a higher priority overtakes requests with a lower one that wait in
    // this process to be sent to the same server, or wait at the server for its handler.
    // Requests with equal priority keep their order. After 64 requests have overtaken the
    // oldest one, it goes next, whatever its priority.
    int32_t priority;
    // The keys, for a push also the values and maybe lengths. The request uses this
    // memory until it is done.
    struct tug_kv_data data;
    // The caller's array for the pulled values, in the order of the keys, and its exact
    // number of values. If `pulled` is NULL, the library calls `room` with the number of
    // values when all answers have arrived, and `room` returns the array; if `room`
    // returns NULL, the request fails with TUG_ENOMEM.
    float *pulled;
    size_t n_pulled;
    float *(*room)(void *ctx, size_t n_values);
    int32_t *pulled_lengths; // room for n_keys lengths of pulled values; NULL: none
    // Chooses the part of the request for each server (ps::KVWorker::set_slicer), instead
    // of the servers' ranges of keys; NULL: the ranges. The function fills ret[server],
    // whose n_keys is initially 0, for each server; last_keys[server] is the last key of
    // the server's range. The memory of the slices must stay valid until the request is
    // done. The slices of a pull must be runs of its keys and cover all of them; a push
    // may send a key to several servers. If `slice` does not return 0, nothing is sent.
    int (*slice)(void *ctx, const struct tug_kv_data *d, uint32_t servers,
                 const uint64_t *last_keys, struct tug_kv_data *ret);
    // The library calls `done` once when the request is done, maybe before tug_kv_send
    // returns, with rc 0 or the error's code (tug_last_error). The caller may reuse the
    // memory from the call of `done` on. `done` is not called if tug_kv_send fails. It may
    // be NULL.
    void (*done)(void *ctx, uint32_t timestamp, int rc);
    void *ctx; // the first argument of room, slice and done
};

// Sends each server the part of the request with the keys of its range
// (ps::KVWorker::ZPush, ZPull, ZPushPull). Returns TUG_EUSAGE and sends nothing if keys
// are not in strictly ascending order, lengths or counts do not fit, a pushed value is NaN or
// infinite, or not all servers and workers have joined. Each server handles its part by
// itself: if one server refuses its part of a push, other servers may have applied their
// parts.
TUG_API int tug_kv_send(struct tug_app *a, const struct tug_kv_request *q,
                        uint32_t *ret_timestamp);

// Checks a request in a handler that reads `each` values for every key. Returns 0 if the
// request is a push with exactly `each` values for every key, or is not a push. Else
// returns TUG_EUSAGE, and the handler refuses the request with the sentence of
// tug_last_error().
TUG_API int tug_kv_check_values(const struct tug_kv_meta *m, const struct tug_kv_data *d,
                                size_t each);

// Answers a push or pull (ps::KVServer::Response). For a pull `d` has the values of all
// requested keys (its keys are ignored), and lengths if not all are equal; for a push `d`
// may be NULL. The library calls `release` once, from any thread, when it no longer needs
// the values or the call has failed, maybe before tug_kv_answer returns; `release` must
// not call the library. If `release` is NULL, the values are copied. TUG_EUSAGE if the
// request was answered before, or `d` does not fit the request (which can then still be
// answered); TUG_EIO if the request's sender has left.
TUG_API int tug_kv_answer(struct tug_app *a, uint64_t ticket, const struct tug_kv_data *d,
                          void (*release)(void *ctx), void *ctx);

// The default store (ps::KVServerDefaultHandle): pushed values are added to a table of
// this process; keys that were never pushed have zeros. The first push of a key decides
// its number of values. Values that are not finite are refused, as in tug_kv_send. A push
// that would make a sum infinite is refused, too, and this server applies nothing of its
// part. The handlers of only one node may use a store. tug_kv_default_keys returns the
// number of keys. A program calls tug_kv_default_keys and tug_kv_default_find in a
// callback or handler of that node, or while none of its callbacks and handlers runs.
struct tug_kv_default;
TUG_API int tug_kv_default_open(struct tug_kv_default **ret);
TUG_API void tug_kv_default_close(struct tug_kv_default *s); // NULL is fine
TUG_API size_t tug_kv_default_keys(const struct tug_kv_default *s);
// Returns the values of a key, and their number in *ret_n, valid until the store changes;
// NULL if the key was never pushed.
TUG_API const float *tug_kv_default_find(const struct tug_kv_default *s, uint64_t key,
                                         size_t *ret_n);
// Handles pushes and pulls with a default store. A program sets this function as `kv` of
// struct tug_app_handlers, and the store as `ctx`.
TUG_API void tug_kv_default_handle(void *ctx, struct tug_app *a,
                                   const struct tug_kv_meta *m,
                                   const struct tug_kv_data *d);

#ifdef __cplusplus
}
#endif

#endif
