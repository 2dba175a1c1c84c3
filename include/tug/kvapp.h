// kvapp: programs on the interface of ps-lite (dmlc), in C.
//
// A cluster is one scheduler, S servers and W workers, each a process that calls
// tug_node_start and, at its end, tug_node_finalize. In these processes customers (struct
// tug_app) send requests and handle those of others: a simple app's head and body, or a
// key-value app's keys and values, cut by the servers' ranges of keys. from-ps-lite.md in
// the documentation (share/doc/tug) maps ps-lite's names to these and says what differs.
//
// Threads: all functions may be called from any thread. Callbacks and handlers run one at
// a time, on a thread of the library or on one that waits in it: requests of others by
// priority, all else in order of arrival. They may send and answer; they must not wait
// (TUG_EUSAGE), and should be short: the node's other callbacks wait for them.
//
// Errors: functions return 0 or a code of tug/tug.h; tug_last_error() is the sentence.
// Besides the codes listed with a function: TUG_ENOMEM; functions that send or wait
// return the cluster's code once it has ended; functions that wait return TUG_EIO after
// the node's wait_seconds, naming the awaited nodes, and TUG_EINTERRUPTED
// (tug_interrupt_by). Only servers and the scheduler wait without a limit, in
// tug_node_finalize, as long as there are workers.
//
// Ownership: memory that arguments point at belongs to the caller and is read during the
// call, except that of a tug_kv_request, which the request uses until it is done. Nodes,
// customers and stores are freed by their closing calls.
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

// A node is this process's place in the cluster (ps::Postoffice).
struct tug_node;

// Members that are 0 or NULL come from the environment: DMLC_ROLE, DMLC_NUM_SERVER,
// DMLC_NUM_WORKER, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, or Paddle's names (tug/fleet.h);
// DMLC_NODE_HOST, DMLC_INTERFACE and PORT if they are set; TUG_SCHEDULER, which overrides
// DMLC_PS_ROOT_*, TUG_CLUSTER, TUG_CA, TUG_CERT, TUG_KEY, TUG_INSECURE, TUG_SPIN_US,
// TUG_WAIT_SECONDS, TUG_DEAD_SECONDS likewise. The strings need not outlive the call of
// tug_node_start.
struct tug_node_options {
    int role; // one of enum tug_group
    uint32_t servers, workers;
    const char *scheduler;       // "HOST:PORT"
    const char *cluster;         // name; nodes of other clusters are refused
    const char *host, *network;  // the listening address or interface
    uint16_t port;               // 0: any
    const char *ca, *cert, *key; // PEM files; none: no TLS
    bool insecure;               // allows links off loopback without TLS
    double wait_seconds;         // limit of every wait; by default 600
    double
        dead_seconds; // a node without a sign of life for this long is dead; by default 5
    double spin_us;   // spins for so long before it sleeps; by default 300
    bool async; // does not wait until all have joined (ps::StartAsync): see tug_node_wait
    // This server also runs the scheduler, at `scheduler`, as the first server of a
    // Paddle list does.
    bool hosts_scheduler;
    // A server's directories, with commas between them, from which tables may be loaded,
    // besides those of TUG_LOAD_ROOT.
    const char *load_root;
};

// Joins the cluster and waits until all servers and workers have joined (ps::Start). The
// process of the scheduler also runs it. `o` may be NULL. TUG_EUSAGE names all missing
// variables, or says that the cluster was started for other numbers of servers and
// workers, or has all its workers already (found after three times dead_seconds plus
// five, since one of them may be dead); TUG_EIO if it cannot be reached in time.
TUG_API int tug_node_start(struct tug_node **ret, const struct tug_node_options *o);

// Does what tug_node_start with `async` leaves out: waits until all servers and workers
// have joined. TUG_EUSAGE in a callback.
TUG_API int tug_node_wait(struct tug_node *n);

// Ends what tug_node_start began and frees the node and its apps (ps::Finalize). With
// `barrier` it waits for all other nodes first. Servers and the scheduler stay until the
// last worker has left. It returns when the last callback has, however long that takes:
// until then callbacks may use the node and its apps. NULL is fine. The node is freed
// even if an error, the first one, is returned. Only in a callback (TUG_EUSAGE) nothing
// is done.
TUG_API int tug_node_finalize(struct tug_node *n, bool barrier);
// Registers a function that tug_node_finalize calls after the node has left the cluster
// and before it is freed, in the order of registration (ps::RegisterExitCallback). It may
// close customers.
TUG_API int tug_node_at_exit(struct tug_node *n, void (*fn)(void *ctx), void *ctx);

// Roles, ids and ranks (ps::IsWorker, MyRank, NumServers and so on). Ids are ps-lite's:
// scheduler 1, server of rank r 8 + 2 r, worker 9 + 2 r. Ranks are from 0, by role. The
// numbers of servers and workers are those that the cluster was started for; before all
// have joined, those that this process was told.
TUG_API int tug_node_role(const struct tug_node *n); // one of enum tug_group
TUG_API uint32_t tug_node_id(struct tug_node *n);    // 0: has not joined yet
TUG_API uint32_t tug_node_rank(struct tug_node *n);
TUG_API uint32_t tug_node_servers(const struct tug_node *n);
TUG_API uint32_t tug_node_workers(const struct tug_node *n);

// Gets the ids of a group's living nodes, ascending, or of one node, dead or alive
// (ps::Postoffice::GetNodeIDs). Returns their number; at most `room` are written.
TUG_API size_t tug_node_ids(struct tug_node *n, uint32_t group_or_id, uint32_t *ret,
                            size_t room);
// Likewise the ids of nodes that the scheduler has given up, or that have left
// (ps::Postoffice::GetDeadNodes).
TUG_API size_t tug_node_dead(struct tug_node *n, uint32_t *ret, size_t room);

// Facts about a node, also about one that has died (ps::Node). TUG_EUSAGE if no node ever
// had this id.
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

// Opens the link to a node now instead of with the first request (ps::Van::Connect). Does
// not wait. TUG_EUSAGE if no node ever had this id.
TUG_API int tug_node_reach(struct tug_node *n, uint32_t id);

// Gets the keys of a server, by its rank: from *ret_first to *ret_last, both included
// (ps::Postoffice::GetServerKeyRanges). TUG_EUSAGE if there is no such server, or not all
// have joined yet.
TUG_API int tug_node_range(struct tug_node *n, uint32_t server_rank, uint64_t *ret_first,
                           uint64_t *ret_last);

// Waits until all living nodes of the group (a sum of enum tug_group) have called it as
// often as this one (ps::Postoffice::Barrier). TUG_EUSAGE in a callback, or if this node
// is not in the group. A barrier counts as reached even if the wait for it ended in an
// error.
TUG_API int tug_node_barrier(struct tug_node *n, uint32_t group);

// Likewise for the customers of one id; other ids have separate barriers. All nodes of
// the group must have such a customer and call it. 0 is tug_node_barrier.
TUG_API int tug_node_barrier_of(struct tug_node *n, uint32_t customer, uint32_t group);

// Runs fn like a callback: on a thread of the library or on one that waits in it, after
// earlier events (ps::Customer::Accept).
TUG_API int tug_node_call(struct tug_node *n, void (*fn)(void *ctx), void *ctx);

// Requests of a simple app, and answers to them: a number and some bytes (ps::SimpleData).
// An answer has the head and timestamp of what it answers.
struct tug_simple {
    int32_t head;
    const void *body; // not terminated
    size_t body_bytes;
    uint32_t sender;              // node id of the sender
    uint32_t timestamp, customer; // of the asker
    uint64_t ticket;              // for the answer: tug_app_answer
};

// Keys and their values (ps::KVPairs). Keys ascend strictly. Values are stored one after
// the other: lengths[i] for key i, or, without lengths, n_values / n_keys for each. They
// are floats, or, with value_bytes, any data of that size (`values` is cast, pulled
// values likewise), which the library does not interpret.
struct tug_kv_data {
    const uint64_t *keys;
    size_t n_keys;
    const float *values;
    size_t n_values;
    const int32_t *lengths; // n_keys, none negative; NULL: all the same
    uint32_t value_bytes;   // 1, 2, 4 or 8; 0: floats
};

// About a push or pull of another node (ps::KVMeta). If a push-and-pull comes again
// because its answer was lost, `push` is false: its push was handled already.
struct tug_kv_meta {
    int32_t cmd;
    bool push, pull;
    // The asker's node id, request number and customer.
    uint32_t sender, timestamp, customer;
    uint64_t ticket; // for the answer: tug_kv_answer
};

// A raw message (ps::Message with its ps::Meta), for customers with a `message` handler
// and for tug_message_send. `data` are keys, values and lengths as in struct tug_kv_data,
// or absent.
enum { TUG_MESSAGE_DATA = 3 };
struct tug_message {
    int32_t head, priority;
    bool request;           // else it answers one
    bool simple;            // has a body, else data
    bool push, pull;        // of one with data
    uint32_t app, customer; // the asker's customer
    uint32_t timestamp;     // of the asker
    uint32_t sender, receiver;
    const void *body;
    size_t body_bytes;
    const void *data[TUG_MESSAGE_DATA];
    size_t data_bytes[TUG_MESSAGE_DATA];
    uint32_t value_bytes; // see struct tug_kv_data
    uint64_t ticket;      // of a received request; else 0
};

// An app id whose customer gets requests for apps that this process does not have,
// instead of letting them wait for one.
#define TUG_APP_ANY ((uint32_t)-2)

// A customer (ps::Customer with ps::SimpleApp, ps::KVWorker and ps::KVServer around it).
// Requests go to the customers of the same app: on servers the one whose customer id is
// the app id, on others the one with the asker's customer id, else the first.
struct tug_app;

// All may be NULL. The memory of arguments is valid until the handler returns, or until
// tug_app_release of a kept request. Each request must be answered once, now or later,
// from any thread, by tug_app_answer, tug_kv_answer or tug_app_refuse. Counted from its
// first request without an answer, a node sends this one at most 4,096.
struct tug_app_handlers {
    // A simple request of another node. NULL: it is answered at once, without a body.
    void (*request)(void *ctx, struct tug_app *a, const struct tug_simple *q);
    // Each answer to a simple request of this customer.
    void (*response)(void *ctx, struct tug_app *a, const struct tug_simple *r);
    // A push or pull of another node. NULL: it is refused.
    void (*kv)(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
               const struct tug_kv_data *d);
    // Instead of all of these: requests of any kind, which tug_message_send answers, too,
    // and answers to requests of tug_app_new_request.
    void (*message)(void *ctx, struct tug_app *a, const struct tug_message *m);
    void *ctx;
};

// Opens a customer (ps::SimpleApp, ps::KVWorker, ps::KVServer); its handlers may run
// before this returns. Earlier requests wait for it for ten seconds, and are then
// refused. `h` may be NULL. TUG_EUSAGE if the node has a customer with these ids, or the
// app is the library's own (UINT32_MAX).
TUG_API int tug_app_open(struct tug_app **ret, struct tug_node *n, uint32_t app,
                         uint32_t customer, const struct tug_app_handlers *h);
// Closes a customer: waits for its requests, at most wait_seconds; gives up those without
// an answer, whose memory is the caller's again; refuses other customers' requests that
// it has not answered yet. NULL is fine. tug_node_finalize closes customers that are
// still open. The customer stays open on TUG_EUSAGE (called in a callback or handler) and
// on TUG_EIO (a callback or handler of it, or a thread that waits for one of its
// requests, has not returned within wait_seconds).
TUG_API int tug_app_close(struct tug_app *a);
TUG_API struct tug_node *tug_app_node(const struct tug_app *a);
// Returns the customer with these ids; waits up to `seconds` for it to be opened, but not
// in a callback. NULL if there is none (ps::Postoffice::GetCustomer).
TUG_API struct tug_app *tug_app_find(struct tug_node *n, uint32_t app, uint32_t customer,
                                     double seconds);

// Asks a node, or all living nodes of a group; it is done when all have answered
// (ps::SimpleApp::Request). TUG_EUSAGE if there is no such node, or none in the group.
TUG_API int tug_app_request(struct tug_app *a, int32_t head, const void *body,
                            size_t body_bytes, uint32_t group_or_id,
                            uint32_t *ret_timestamp);
// Answers a simple request (ps::SimpleApp::Response). TUG_EUSAGE if it was answered
// before; TUG_EIO if the asker has left.
TUG_API int tug_app_answer(struct tug_app *a, uint64_t ticket, const void *body,
                           size_t body_bytes);
// Refuses a request of any kind: it fails with this code (TUG_EUSAGE if the code is
// invalid) and this sentence. TUG_EUSAGE if it was answered before.
TUG_API int tug_app_refuse(struct tug_app *a, uint64_t ticket, int code, const char *why);

// In the handler of a request of any kind: keeps the memory of its arguments until
// tug_app_release, which is called once, from any thread, even after the node was freed.
// NULL if there is no such request, it was kept before, or memory is out.
TUG_API void *tug_app_keep(struct tug_app *a, uint64_t ticket);
TUG_API void tug_app_release(void *kept); // NULL is fine

// Waits until a request of this customer, of any kind, is done and its callback has run
// (ps::Customer::WaitRequest). Returns 0 or its error: a node died or refused; the error
// is returned once, and further calls return 0. After a timeout or an interrupt it can be
// waited for again. TUG_EUSAGE in a callback, or for a timestamp that was never given.
TUG_API int tug_app_wait(struct tug_app *a, uint32_t timestamp);

// Makes a request by hand (ps::Customer::NewRequest): a timestamp that is done when each
// node of the group has answered its message of tug_message_send, or was counted as if it
// had.
TUG_API int tug_app_new_request(struct tug_app *a, uint32_t group_or_id,
                                uint32_t *ret_timestamp);
// Counts n of the nodes without a message as if they had answered
// (ps::Customer::AddResponse). TUG_EUSAGE if there are fewer, or the request is done.
TUG_API int tug_app_add_responses(struct tug_app *a, uint32_t timestamp, uint32_t n);
// Gets the number of answers to a request of this customer, of any kind, open or among
// the last 256 done; servers without a part of a push or pull count as if they had
// answered (ps::Customer::NumResponse). TUG_EUSAGE if it is long done, or was never made.
TUG_API int tug_app_responses(struct tug_app *a, uint32_t timestamp, uint32_t *ret_n);

// Sends a message (ps::Van::Send); all of it is copied, and `sender` and `ticket` are
// ignored. A request goes from this node's customer with its ids to `receiver`, for a
// timestamp of tug_app_new_request whose group has that node. An answer goes to the
// request of `receiver` with its app, customer and timestamp. TUG_EUSAGE if there is no
// such customer or request, it was sent or answered before, or the data are not keys,
// values and lengths.
TUG_API int tug_message_send(struct tug_node *n, const struct tug_message *m);

// A push, a pull, or both: a push that is answered with the values after it.
struct tug_kv_request {
    bool push, pull;
    int32_t cmd;
    // Higher ones go first, among requests that wait here for one server, and among those
    // that wait there for their handler; equal ones go in order. After 64 others have
    // overtaken it, the oldest goes, whatever its priority.
    int32_t priority;
    // Keys, for a push also values and maybe lengths. The request uses the memory until
    // it is done.
    struct tug_kv_data data;
    // The array for pulled values, in the order of the keys, and its size, which must be
    // right. NULL: `room` is called for memory when the answers have arrived and their
    // number of values is known; if it returns NULL, the request fails with TUG_ENOMEM.
    float *pulled;
    size_t n_pulled;
    float *(*room)(void *ctx, size_t n_values);
    int32_t *pulled_lengths; // n_keys; NULL: not wanted
    // Chooses each server's part (ps::KVWorker::set_slicer) instead of its range: fills
    // ret[server], whose n_keys is initially 0; last_keys[server] ends its range. The
    // request uses the slices like its data. The slices of a pull must be runs of its
    // keys and cover all of them; a push may send a key to several servers. If it does
    // not return 0, nothing is sent.
    int (*slice)(void *ctx, const struct tug_kv_data *d, uint32_t servers,
                 const uint64_t *last_keys, struct tug_kv_data *ret);
    // Called once when it is done, maybe before tug_kv_send returns, with rc 0 or the
    // error (tug_last_error). The memory is the caller's again. Not called if tug_kv_send
    // fails.
    void (*done)(void *ctx, uint32_t timestamp, int rc);
    void *ctx; // of room, slice and done
};

// Sends each server the part in its range (ps::KVWorker::ZPush, ZPull, ZPushPull). Keys
// that do not ascend strictly, lengths or counts that do not fit, pushed values that are
// not finite (NaN, infinities), and a request before all servers and workers have joined
// give TUG_EUSAGE, and nothing is sent. Each server handles its part by itself: if one
// refuses its part of a push, the others may have applied theirs.
TUG_API int tug_kv_send(struct tug_app *a, const struct tug_kv_request *q,
                        uint32_t *ret_timestamp);

// For a handler that reads `each` values of every key: returns 0 if a push has that many
// for each, or if the request is not a push; else TUG_EUSAGE, and tug_last_error() is the
// sentence to refuse it with.
TUG_API int tug_kv_check_values(const struct tug_kv_meta *m, const struct tug_kv_data *d,
                                size_t each);

// Answers a push or pull (ps::KVServer::Response). For a pull `d` has the values of all
// requested keys (its keys are ignored), and lengths if they differ; for a push it may be
// NULL. `release` is called once, when the values are no longer needed or this has
// failed, maybe before it returns and from any thread; it must not call the library.
// NULL: the values are copied. TUG_EUSAGE if the request was answered before, or `d` does
// not fit it (it can still be answered); TUG_EIO if the asker has left.
TUG_API int tug_kv_answer(struct tug_app *a, uint64_t ticket, const struct tug_kv_data *d,
                          void (*release)(void *ctx), void *ctx);

// The default store (ps::KVServerDefaultHandle): pushed values are added to a table of
// this process; keys that were never pushed have zeros. The first push of a key decides
// its number of values. Values that are not finite are refused, as in tug_kv_send. A push
// that would make a sum infinite is refused, too, and this server applies nothing of its
// part. A store belongs to the callbacks of one node: call tug_kv_default_keys (the
// number of its keys) and tug_kv_default_find in one of them, or when none runs.
struct tug_kv_default;
TUG_API int tug_kv_default_open(struct tug_kv_default **ret);
TUG_API void tug_kv_default_close(struct tug_kv_default *s); // NULL is fine
TUG_API size_t tug_kv_default_keys(const struct tug_kv_default *s);
// Returns the values of a key, and their number in *ret_n, valid until the store changes;
// NULL if the key was never pushed.
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
