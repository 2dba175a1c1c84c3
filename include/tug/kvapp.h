// kvapp: programs on the interface of ps-lite (dmlc), in C.
//
// A cluster is one scheduler, S servers and W workers, each a process that calls
// tug_node_start and, at its end, tug_node_finalize. Inside, customers (struct tug_app)
// send requests and handle those of others: a simple app's head and body, or a key-value
// app's keys and values, cut by the servers' ranges of keys. from-ps-lite.md
// in the documentation (share/doc/tug) maps ps-lite's names to these and says what differs.
//
// Threads: all functions may be called from any thread. Callbacks and handlers run one at
// a time, on a thread of the library or on one that waits in it: requests of others by
// their priority, all else in the order in which it arrived. They may send and answer; they
// must not wait (TUG_EUSAGE), and should be short: meanwhile the node's other callbacks wait.
//
// Errors: functions return 0 or a code of tug/tug.h; tug_last_error() is the sentence.
// Beside what is said of a function: TUG_ENOMEM; of those that send or wait, from when the
// cluster has ended on, the code that it ended with; of those that wait, TUG_EIO when
// wait_seconds of the node have passed, which names who was waited for, and
// TUG_EINTERRUPTED (tug_interrupt_by). Only servers and the scheduler wait without an end, in
// tug_node_finalize, for as long as there are workers.
//
// Ownership: what arguments point at is the caller's and is read during the call, but for the
// memory of a tug_kv_request, which is the request's until it is done. Nodes, customers and
// stores are freed by their own last call.
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

// Roles and, added up, groups (kScheduler, kServerGroup, kWorkerGroup).
enum tug_group {
    TUG_GROUP_SCHEDULER = 1,
    TUG_GROUP_SERVERS = 2,
    TUG_GROUP_WORKERS = 4,
    TUG_GROUP_ALL = 7
};

// A node: this process's place in the cluster (ps::Postoffice).
struct tug_node;

// What is 0 or NULL comes from the environment: DMLC_ROLE, DMLC_NUM_SERVER,
// DMLC_NUM_WORKER, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, or Paddle's names (tug/fleet.h);
// DMLC_NODE_HOST, DMLC_INTERFACE and PORT if they are set; TUG_SCHEDULER, which goes before
// DMLC_PS_ROOT_*, TUG_CLUSTER, TUG_CA, TUG_CERT, TUG_KEY, TUG_INSECURE, TUG_SPIN_US,
// TUG_WAIT_SECONDS, TUG_DEAD_SECONDS likewise. Texts are read by tug_node_start only.
struct tug_node_options {
    int role; // one of enum tug_group
    uint32_t servers, workers;
    const char *scheduler;       // "HOST:PORT"
    const char *cluster;         // name; clusters of other names are not let in
    const char *host, *network;  // where this process listens: address, or interface
    uint16_t port;               // 0: any
    const char *ca, *cert, *key; // PEM files; none: no TLS
    bool insecure;               // off loopback without TLS
    double wait_seconds;         // the longest wait; by default 600
    double dead_seconds;         // without a sign of life a node is dead; by default 5
    double spin_us;              // look for so long before sleeping; by default 300
    bool async; // do not wait until all are there (ps::StartAsync): see tug_node_wait
    // Of a server: it also runs the scheduler, at `scheduler`, as the first of Paddle's list.
    bool hosts_scheduler;
    // Of a server: directories, with commas between them, that tables may be loaded from,
    // beside those of TUG_LOAD_ROOT.
    const char *load_root;
};

// Joins the cluster and waits until all servers and workers are there (ps::Start). The
// process of the scheduler also runs it. `o` may be NULL. TUG_EUSAGE naming all that is
// missing in the environment, or: the cluster was started for other numbers of servers and
// workers, or has all its workers, which takes three times dead_seconds and five more to
// tell, as one of them may be dead; TUG_EIO: it cannot be reached, or not in time.
TUG_API int tug_node_start(struct tug_node **ret, const struct tug_node_options *o);

// What tug_node_start with `async` left out: waits until all servers and workers are there.
// TUG_EUSAGE: in a callback.
TUG_API int tug_node_wait(struct tug_node *n);

// Ends what tug_node_start began and frees the node and its apps (ps::Finalize). With
// `barrier` it waits for all other nodes first. Servers and the scheduler stay until the
// last worker has left. It returns when the last callback has, however long that takes: until then
// callbacks may use the node and its apps. NULL is fine. The node is gone also when an error is
// returned: the first that happened. Only in a callback (TUG_EUSAGE) it goes on.
TUG_API int tug_node_finalize(struct tug_node *n, bool barrier);
// Registers what tug_node_finalize runs when the node has left the cluster and before it is
// freed, in the order of registration (ps::RegisterExitCallback). It may close customers.
TUG_API int tug_node_at_exit(struct tug_node *n, void (*fn)(void *ctx), void *ctx);

// Who is who (ps::IsWorker, MyRank, NumServers and so on). Ids are ps-lite's: scheduler 1,
// server of rank r 8 + 2 r, worker 9 + 2 r. Ranks are from 0, by role. Servers and workers are
// as many as the cluster was started for; before all are there, what this process was told.
TUG_API int tug_node_role(const struct tug_node *n); // one of enum tug_group
TUG_API uint32_t tug_node_id(struct tug_node *n);    // 0: has not joined yet
TUG_API uint32_t tug_node_rank(struct tug_node *n);
TUG_API uint32_t tug_node_servers(const struct tug_node *n);
TUG_API uint32_t tug_node_workers(const struct tug_node *n);

// Ids of a group's living nodes, ascending, or of one node that there was
// (ps::Postoffice::GetNodeIDs). Returns how many there are; at most `room` are written.
TUG_API size_t tug_node_ids(struct tug_node *n, uint32_t group_or_id, uint32_t *ret,
                            size_t room);
// Ids of those that the scheduler has given up, or that have left, likewise
// (ps::Postoffice::GetDeadNodes).
TUG_API size_t tug_node_dead(struct tug_node *n, uint32_t *ret, size_t room);

// Of one node, dead or alive (ps::Node). TUG_EUSAGE: there never was one with this id.
struct tug_node_info {
    int role; // one of enum tug_group
    uint32_t id, rank;
    bool alive;
    char host[64];
    // That it listens at; of the scheduler the one that others are given
    // (DMLC_PS_ROOT_PORT). 0: it listens at no port.
    uint16_t port;
    bool recovered; // it has come in the place of one that died (ps::Node::is_recovery)
};
TUG_API int tug_node_find(struct tug_node *n, uint32_t id, struct tug_node_info *ret);

// Opens the link to a node now, not with the first request (ps::Van::Connect). Does not
// wait. TUG_EUSAGE: there never was one with this id.
TUG_API int tug_node_reach(struct tug_node *n, uint32_t id);

// The keys of a server, by its rank: from *ret_first to *ret_last, both included
// (ps::Postoffice::GetServerKeyRanges). TUG_EUSAGE: there is no such server, or not all
// are there yet.
TUG_API int tug_node_range(struct tug_node *n, uint32_t server_rank, uint64_t *ret_first,
                           uint64_t *ret_last);

// Waits until all living nodes of the group (a sum of enum tug_group) have called it as
// often as this one (ps::Postoffice::Barrier). TUG_EUSAGE: in a callback, or this node is
// not in the group. A barrier whose wait ended in an error counts as reached.
TUG_API int tug_node_barrier(struct tug_node *n, uint32_t group);

// Likewise, by the customers of one id: those of others have barriers of their own. All
// nodes of the group must have such a customer and call it. 0 is tug_node_barrier.
TUG_API int tug_node_barrier_of(struct tug_node *n, uint32_t customer, uint32_t group);

// Runs fn as callbacks are run: on a thread of the library or on one that waits in it,
// after what has come before (ps::Customer::Accept).
TUG_API int tug_node_call(struct tug_node *n, void (*fn)(void *ctx), void *ctx);

// Requests of a simple app, and answers to them: a number and some bytes (ps::SimpleData).
// An answer has the head and timestamp of what it answers.
struct tug_simple {
    int32_t head;
    const void *body; // not terminated
    size_t body_bytes;
    uint32_t sender;              // node id of who sends it
    uint32_t timestamp, customer; // of who asked
    uint64_t ticket;              // of the answer that is owed: tug_app_answer
};

// Keys and their values (ps::KVPairs). Keys ascend strictly. Values lie one behind the
// other: of key i lengths[i] of them, or, without lengths, n_values / n_keys of each. They
// are floats, or, with value_bytes, anything of so many bytes (`values` is cast, and what is
// pulled likewise): nothing looks at it.
struct tug_kv_data {
    const uint64_t *keys;
    size_t n_keys;
    const float *values;
    size_t n_values;
    const int32_t *lengths; // n_keys, none negative; NULL: all the same
    uint32_t value_bytes;   // 1, 2, 4 or 8; 0: floats
};

// Of a push or pull that somebody asks for (ps::KVMeta). `push` is false of one that comes
// again because its answer was lost: what it pushed was handled then.
struct tug_kv_meta {
    int32_t cmd;
    bool push, pull;
    uint32_t sender, timestamp, customer; // of who asked: node id, its number for it
    uint64_t ticket;                      // of the answer that is owed: tug_kv_answer
};

// A message by itself (ps::Message with its ps::Meta): what a customer gets that wants no
// other form, and what tug_message_send sends. `data` are keys, values and lengths as in
// struct tug_kv_data, or absent.
enum { TUG_MESSAGE_DATA = 3 };
struct tug_message {
    int32_t head, priority;
    bool request;           // else it answers one
    bool simple;            // has a body, else data
    bool push, pull;        // of one with data
    uint32_t app, customer; // customer of who asked
    uint32_t timestamp;     // of who asked
    uint32_t sender, receiver;
    const void *body;
    size_t body_bytes;
    const void *data[TUG_MESSAGE_DATA];
    size_t data_bytes[TUG_MESSAGE_DATA];
    uint32_t value_bytes; // see struct tug_kv_data
    uint64_t ticket;      // of a request that has come; else 0
};

// An app id: its customer gets requests for apps of which this process has none, instead
// of their waiting for one to be opened.
#define TUG_APP_ANY ((uint32_t)-2)

// A customer (ps::Customer with ps::SimpleApp, ps::KVWorker and ps::KVServer around it).
// Requests go to the customers of the same app: on servers the one whose customer id is
// the app id, on others the one with the requester's customer id, else the first.
struct tug_app;

// All may be NULL. What the arguments point at is valid until the handler returns, or
// until tug_app_release of what was kept. Each request is to be answered once, now or later,
// from any thread, by tug_app_answer, tug_kv_answer or tug_app_refuse. From the first that
// a node has no answer to, it sends this one at most 4,096.
struct tug_app_handlers {
    // Somebody's simple request. NULL: it is answered at once, without a body.
    void (*request)(void *ctx, struct tug_app *a, const struct tug_simple *q);
    // Each answer to a simple request of this customer.
    void (*response)(void *ctx, struct tug_app *a, const struct tug_simple *r);
    // Somebody's push or pull. NULL: it is refused.
    void (*kv)(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
               const struct tug_kv_data *d);
    // Instead of all of these: requests of any kind, which tug_message_send answers, too,
    // and answers to requests of tug_app_new_request.
    void (*message)(void *ctx, struct tug_app *a, const struct tug_message *m);
    void *ctx;
};

// Opens a customer (ps::SimpleApp, ps::KVWorker, ps::KVServer); its handlers may run before
// this returns. Requests that came before wait for it for ten seconds, then they are refused.
// `h` may be NULL. TUG_EUSAGE: the node has a customer of these ids, or the app is the
// library's own (UINT32_MAX).
TUG_API int tug_app_open(struct tug_app **ret, struct tug_node *n, uint32_t app,
                         uint32_t customer, const struct tug_app_handlers *h);
// Waits for its requests, at most wait_seconds; those without an answer are given up then,
// and their memory is the caller's again. Requests of others that it has not answered are
// refused. NULL is fine. tug_node_finalize does it for customers that are still open.
// TUG_EUSAGE: in a callback or handler. TUG_EIO: a callback or handler of its has not returned
// for wait_seconds. It is not closed then.
TUG_API int tug_app_close(struct tug_app *a);
TUG_API struct tug_node *tug_app_node(const struct tug_app *a);
// The customer of these ids; waits up to so many seconds for it to be opened, but not in a
// callback. NULL: there is none (ps::Postoffice::GetCustomer).
TUG_API struct tug_app *tug_app_find(struct tug_node *n, uint32_t app, uint32_t customer,
                                     double seconds);

// Asks a node, or all living nodes of a group: then it is done when all have answered
// (ps::SimpleApp::Request). TUG_EUSAGE: there is no such node, and none in the group.
TUG_API int tug_app_request(struct tug_app *a, int32_t head, const void *body,
                            size_t body_bytes, uint32_t group_or_id,
                            uint32_t *ret_timestamp);
// Answers a simple request (ps::SimpleApp::Response). TUG_EUSAGE: it was answered before;
// TUG_EIO: who asked is gone.
TUG_API int tug_app_answer(struct tug_app *a, uint64_t ticket, const void *body,
                           size_t body_bytes);
// Instead of an answer to a request of any kind: it fails with this code (TUG_EUSAGE for one
// that is none) and this sentence. TUG_EUSAGE: it was answered before.
TUG_API int tug_app_refuse(struct tug_app *a, uint64_t ticket, int code, const char *why);

// In the handler of a request of any kind: keeps what its arguments point at until
// tug_app_release, called once, from any thread; also when the node has ended. NULL: there is
// no such request, or, if it was kept before, no memory.
TUG_API void *tug_app_keep(struct tug_app *a, uint64_t ticket);
TUG_API void tug_app_release(void *kept); // NULL is fine

// Waits until a request of this customer, of any kind, is done, and its callback has run
// (ps::Customer::WaitRequest). 0, or how it failed: a node died, or refused; that is told
// once, and waiting again is 0. One that took too long, or was interrupted, can be waited for
// again. TUG_EUSAGE: in a callback; a timestamp that was never given.
TUG_API int tug_app_wait(struct tug_app *a, uint32_t timestamp);

// Requests by hand (ps::Customer::NewRequest): a timestamp that is done when each node of
// the group has answered what tug_message_send sent it, or was counted as if it had.
TUG_API int tug_app_new_request(struct tug_app *a, uint32_t group_or_id,
                                uint32_t *ret_timestamp);
// Counts n of the nodes that were sent nothing as if they had answered
// (ps::Customer::AddResponse). TUG_EUSAGE: there are not so many, or the request is over.
TUG_API int tug_app_add_responses(struct tug_app *a, uint32_t timestamp, uint32_t n);
// How many answers a request of this customer has, of any kind, open or among the last 256
// that are done; servers that a push or pull has nothing for count as if they had answered
// (ps::Customer::NumResponse). TUG_EUSAGE: it is long over, or was never made.
TUG_API int tug_app_responses(struct tug_app *a, uint32_t timestamp, uint32_t *ret_n);

// Sends a message (ps::Van::Send); all of it is copied, `sender` and `ticket` are not looked
// at. A request goes from this node's customer of its ids to `receiver`, for a timestamp of
// tug_app_new_request whose group has that node. An answer goes to the request of
// `receiver` with its app, customer and timestamp. TUG_EUSAGE: there is no such customer or
// request, it was sent or answered before, or the data are no keys, values and lengths.
TUG_API int tug_message_send(struct tug_node *n, const struct tug_message *m);

// A push, a pull, or (both) a push whose answer is the values after it.
struct tug_kv_request {
    bool push, pull;
    int32_t cmd;
    // The greater, the sooner: of requests that wait here to be sent to one server, and of
    // those that wait there for their handler. Of equal ones the first comes first. After
    // 64 that went before it the one that has waited longest goes, whatever its priority.
    int32_t priority;
    // Keys, for a push also values and perhaps lengths. The memory belongs to the request
    // until it is done.
    struct tug_kv_data data;
    // Where pulled values go, in the order of the keys, and how many there must be. NULL:
    // `room` is asked for memory when the answers are there and how many values they have is
    // known; it may return NULL, and the request fails with TUG_ENOMEM.
    float *pulled;
    size_t n_pulled;
    float *(*room)(void *ctx, size_t n_values);
    int32_t *pulled_lengths; // n_keys; NULL: not wanted
    // What each server gets (ps::KVWorker::set_slicer), instead of what is in its range:
    // fills ret[server], of which n_keys is 0 at first; last_keys[server] ends its range.
    // The slices belong to the request as its data do. Those of a pull are runs of its
    // keys, and all of them; a push may also send a key to several. Not 0: nothing is sent.
    int (*slice)(void *ctx, const struct tug_kv_data *d, uint32_t servers,
                 const uint64_t *last_keys, struct tug_kv_data *ret);
    // Called once when it is done, perhaps before tug_kv_send returns: rc 0, or why it failed
    // (tug_last_error). The memory is the caller's then. Not called if tug_kv_send fails.
    void (*done)(void *ctx, uint32_t timestamp, int rc);
    void *ctx; // of room, slice and done
};

// Sends to each server what is in its range (ps::KVWorker::ZPush, ZPull, ZPushPull). Keys
// that do not ascend strictly, lengths or counts that do not fit, pushed values that are not
// finite (NaN, infinities), and a request before all servers and workers were there are
// TUG_EUSAGE and nothing is sent. Each server handles its part by itself: of a push that one
// of them refuses, the others may have taken theirs.
TUG_API int tug_kv_send(struct tug_app *a, const struct tug_kv_request *q,
                        uint32_t *ret_timestamp);

// For a handler that reads `each` values of every key: 0 if a push has so many of each, and if
// the request pushes nothing; else TUG_EUSAGE, and tug_last_error() says what to refuse it with.
TUG_API int tug_kv_check_values(const struct tug_kv_meta *m, const struct tug_kv_data *d,
                                size_t each);

// Answers a push or pull (ps::KVServer::Response). To a pull `d` has values of as many keys
// as were asked for (its keys are not looked at), lengths if they are not all the same; to a
// push it may be NULL. `release` is called once, when the values are needed no more or this
// has failed, maybe before it returns and from any thread; it must not call the library.
// NULL: they are copied. TUG_EUSAGE: it was answered before, or `d` does not fit the
// request, which can still be answered; TUG_EIO: who asked is gone.
TUG_API int tug_kv_answer(struct tug_app *a, uint64_t ticket, const struct tug_kv_data *d,
                          void (*release)(void *ctx), void *ctx);

// The default store (ps::KVServerDefaultHandle): pushed values are added to a table of
// this process, keys that were never pushed have zeros. The number of values of each key
// is what it was pushed with first. Values that are not finite are refused, as they are
// before they are sent. A push by which a sum would become infinite is refused, too, and this
// server takes nothing of its part. A store belongs to the callbacks of one
// node: tug_kv_default_keys, how many keys it has, and tug_kv_default_find are for one of them,
// or for when none runs.
struct tug_kv_default;
TUG_API int tug_kv_default_open(struct tug_kv_default **ret);
TUG_API void tug_kv_default_close(struct tug_kv_default *s); // NULL is fine
TUG_API size_t tug_kv_default_keys(const struct tug_kv_default *s);
// The values of a key, and how many in *ret_n; they stay until the store is changed. NULL: it was
// never pushed.
TUG_API const float *tug_kv_default_find(const struct tug_kv_default *s, uint64_t key,
                                         size_t *ret_n);
// A handler (`kv` of struct tug_app_handlers); ctx is the store.
TUG_API void tug_kv_default_handle(void *ctx, struct tug_app *a,
                                   const struct tug_kv_meta *m,
                                   const struct tug_kv_data *d);

#ifdef __cplusplus
}
#endif

#endif
