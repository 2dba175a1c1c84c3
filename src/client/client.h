// The client: pushes and pulls of keys. Requests are cut into slices, one or more for
// each server loop that owns some of the keys. Many requests are in flight at a time, and
// each push is applied exactly once, even if links break or the placement changes.
//
// A client is a state machine behind a van handler, with its member inside: the node of a
// worker (or driver) is one client. Only client_wait (wait.c) waits: it polls the van until a
// request is done. A client has no thread and no lock: one thread uses it.
//
// Keys and order. A request's keys must be distinct. Keys are sent in groups, one for
// each loop that owns some of them, by ascending partition; client_arrange computes this
// order. Keys in that order are sent from, and answered into, the caller's arrays without
// a copy; the client gathers and scatters others. client_merge (merge.h) makes keys
// distinct.
//
// Memory. Arrays of a request belong to it until it is done (client_done, or the
// callback) or client_cancel has returned.
//
// Retries. A slice is sent again, under the newest placement, if its link broke, or if a
// loop refused it because of the placement or a momentary lack of room. A push keeps its
// number, so that it is applied once. Without an answer for `resend_ns` it is sent again,
// too. At its deadline a request ends with TUG_EIO, naming the nodes that did not answer;
// a push may then have happened in some partitions.
//
// Order. Slices of one client to one loop arrive in the order of the requests: a pull
// sees the client's own pushes that came before it, unless a link broke in between or a
// loop had no room for a push at first.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLIENT_CLIENT_H
#define TUG_CLIENT_CLIENT_H

#include <stdatomic.h>

#include "base/err.h"
#include "cluster/member.h"
#include "protocol/spec.h"
#include "save/save.h"

struct client;

struct client_options {
    struct member_options member; // the client sets its callbacks and their ctx;
                                  // except `view` and `forget`, which get view_ctx
    void (*view)(void *ctx, const struct msg_view *m);
    void *view_ctx;
    uint64_t connect_timeout_ns; // time limit for connecting to a server loop; 0: 10 s
    uint64_t request_timeout_ns; // time limit of a request; 0: 60 s
    // Time limit of admin operations, saves and loads; 0: 1 hour.
    uint64_t admin_timeout_ns;
    // Time after which a slice without an answer is sent again; 0: never.
    uint64_t resend_ns;
    bool bf16;      // values are sent as bf16
    bool pack_keys; // keys are sent packed if that takes fewer bytes
    // A list of keys is sent only once; later requests send its signature.
    bool cache_keys;
};

int client_open(struct client **ret, const struct client_options *o, struct err *e);
void client_close(struct client *c);
struct van_handler client_handler(struct client *c);
void client_serve(struct client *c, struct van *v, uint64_t now);
struct member *client_member(struct client *c);

typedef uint64_t client_ts; // timestamp of a request; 0: no request
// Makes the table with this number on every loop, or finds one with the same settings there.
client_ts client_table(struct client *c, uint32_t id, const struct table_config *t,
                       struct err *e);
// Finds a table that another client made, by its name (NULL: by its number); this client
// can use it from then on.
client_ts client_info(struct client *c, const char *name, uint32_t table,
                      uint32_t *ret_number, struct err *e);
// Returns the table's spec once this client knows it; else NULL.
const struct table_spec *client_spec(const struct client *c, uint32_t table);

// Gets the order in which keys are sent: ret_order[i] is the position in `keys` of the
// i-th key to send. Keys of a partition keep their order. The result is valid for the
// current placement.
int client_arrange(struct client *c, uint32_t table, const uint64_t *keys, size_t n,
                   uint32_t *ret_order);

// Called inside van_poll when a request ends: rc is 0 or a code; client_done, called
// inside the callback, gives the sentence.
typedef void (*client_done_fn)(void *ctx, client_ts ts, int rc);

struct client_push {
    uint32_t table;
    const uint64_t *keys;
    size_t n;
    const float *values; // n x spec_value_width of op
    enum wire_op op;
    float rate, pass; // the factor of the learning rate, and the pass, as in msg_push
    bool again;       // the examples were pushed in an earlier pass (WIRE_AGAIN)
    // For tables of mode sync: the batch and the part of it. The push is sent to all
    // loops, also to those without its keys, unless the table's option `fixed_keys` says
    // that every part of every batch has the same keys.
    uint64_t clock;
    uint8_t micro, micros;
    bool fixed_keys;
    uint64_t id_pass, id_piece; // identity of the push across sessions; id_pass 0: none
    // The group of the push and the low-water mark, as in msg_push.
    uint32_t id_group, id_low;
    // Number of examples. In async and ssp only the loop that has the first key counts
    // them; in sync every loop does.
    uint64_t examples;
    float *pulled; // gets the rows after the push, n x pull width; NULL: only pushes
    bool arranged; // keys are in the order of client_arrange
    client_done_fn done; // called when the request ends; may be NULL
    void *ctx;
};

struct client_pull {
    uint32_t table;
    const uint64_t *keys;
    size_t n;
    float *values; // gets n x pull width floats; with whole_rows n x width
    bool whole_rows;
    uint8_t *found; // gets 1 for each key with a row, else 0; may be NULL
    uint64_t clock;
    // Also waits until the loops without keys of the pull have reached the clock.
    bool all_loops;
    bool arranged;
    client_done_fn done;
    void *ctx;
};

// Push and pull. Both return the request's timestamp, or 0 with e set (wrong usage, no
// memory, the cluster has ended). If SHARD_WINDOW pushes are in flight, further ones are
// queued in the client. The gradients of each sync table are counted and queued
// separately.
client_ts client_push(struct client *c, const struct client_push *p, struct err *e);
client_ts client_pull(struct client *c, const struct client_pull *p, struct err *e);

// A request to all loops, or, if the message has a field `table`, to the loops that have
// partitions of this table. The message's fields `session` and `epoch` are filled in.
// Texts of the message must live until the request ends.
struct client_question {
    const char *says; // the request in errors, such as "a tick of"
    uint16_t type;
    union wire_any m;
    // Gets the answer of each loop; if the message has the field `epoch`, a loop may answer
    // again after a move of partitions. May be NULL.
    void (*take)(void *ctx, const union wire_any *answer);
    void *ctx;
};
client_ts client_ask_loops(struct client *c, const struct client_question *q,
                           struct err *e);

// These functions make other requests. client_tick sets this worker's clock for a table
// of mode ssp (UINT64_MAX: it has finished). client_admin does an admin operation.
// client_stat adds up statistics over all loops, and returns the smallest of their
// clocks.
client_ts client_tick(struct client *c, uint32_t table, uint64_t clock, struct err *e);
client_ts client_admin(struct client *c, uint32_t table, enum wire_admin what,
                       uint32_t other, struct err *e);
// client_mean keeps in table `other` a running mean of the table's rows: it moves the
// rows of `other` by `share` of the distance towards the table's (WIRE_MEAN).
// client_clock sets the number of the next batch of a table of mode sync.
client_ts client_mean(struct client *c, uint32_t table, uint32_t other, float share,
                      struct err *e);
client_ts client_clock(struct client *c, uint32_t table, uint64_t clock, struct err *e);
client_ts client_stat(struct client *c, uint32_t table, struct msg_table_is *ret,
                      struct err *e);
// client_shrink decays rows and removes those below the threshold (NAN: the table's own);
// client_day ends a day. Each is done once on every loop. *ret_removed (may be NULL)
// becomes the number of rows removed on all loops.
client_ts client_shrink(struct client *c, uint32_t table, float threshold,
                        uint64_t *ret_removed, struct err *e);
client_ts client_day(struct client *c, uint32_t table, struct err *e);
// Adds `steps` to the number of training steps that this client has made. *ret_global
// (may be NULL) becomes the sum of the numbers of all clients.
client_ts client_step(struct client *c, uint64_t steps, uint64_t *ret_global,
                      struct err *e);
// Raises the sum of all clients' steps to `least` on each loop where it is smaller. A
// repeat changes nothing.
client_ts client_step_to(struct client *c, uint64_t least, struct err *e);
// A save: each loop writes its rows as they were at one point in time, while training
// continues (server/saves/save.h). The client that saves makes the directory and calls
// client_save. When all loops have written their rows, it writes the manifest
// (save/save.h) and calls client_save_end. Loops keep the data that they need to undo the
// save until client_save_end.
struct client_save {
    uint64_t id; // a number that no other save has
    enum save_mode mode;
    int zstd;         // the level of zstd compression; 0: not compressed
    const char *path; // the save's directory, relative to the servers' save root
    const uint32_t *tables;
    size_t n; // 0: all tables
    // Whether each loop saves its rows as they were after the marks of all living workers.
    bool marked;
    // Tables of mode sync: saves the rows before this batch; 0: the current rows.
    uint64_t clock;
    // The roster of the save, as in msg_save. 0: the client's roster, and all living
    // workers.
    uint64_t roster, newest;
};
// Waits until the first loop lets this save begin, after earlier saves have ended;
// client_save continues from there. If workers mark the save, the caller must call this
// before they mark, because pushes after a mark wait while another save is in progress.
client_ts client_save_turn(struct client *c, uint64_t id, struct err *e);
// With replicas, a save fails with REASON_SAVE_AGAIN if other loops lead partitions than when
// it began. The caller ends it, empties its directory (save_empty), and makes the save again
// with another id; it tries so at most CLIENT_SAVE_TRIES times. A save with a
// mark or one that ends a day cannot be made again.
enum { CLIENT_SAVE_TRIES = 8 };
// Makes a save. The request first waits for its turn at the first loop, so that of two
// saves at the same time one is done after the other. *into gets the step, the tables and
// the contents of their files.
client_ts client_save(struct client *c, const struct client_save *s,
                      struct save_manifest *into, struct err *e);
// Ends a save on all loops. If it was committed, `checksum` is that of its manifest.
client_ts client_save_end(struct client *c, uint64_t id, bool committed,
                          uint64_t checksum, struct err *e);
// Marks a save: it will contain this worker's earlier pushes and not its later ones. The
// mark waits until the earlier pushes are acknowledged, and later pushes wait for the
// mark. With tables of mode ssp or sync all workers must mark at the same clock.
// Otherwise a worker that has not marked yet could wait for another worker's pushes,
// which wait for that mark.
// `saver` is the session of the client that saves, or 0. If that session ends before
// the save has begun, servers drop the mark, because the save will never begin.
client_ts client_mark(struct client *c, uint64_t id, uint64_t saver, struct err *e);
// Loads rows into a table from the table `name` of a save, which any number of loops may
// have written. `path` is the save, relative to a root of the servers; `checksum` is that
// of its manifest. With `clear` the rows replace the table's; else the table must be
// empty.
client_ts client_load(struct client *c, uint32_t table, const char *path,
                      uint64_t checksum, const char *name, bool clear, uint64_t *ret_rows,
                      struct err *e);
// Turns an absolute path into one relative to the roots of all servers (server/saves/roots.h),
// as the calls above need it. TUG_EUSAGE if a server has no such root. `path` and `ret`
// must live until the request ends.
client_ts client_below(struct client *c, enum wire_root kind, const char *path,
                       char ret[FILE_PATH_MAX], struct err *e);

// A walk over the rows of a table, partition by partition and page by page. The walk ends
// even if servers answer wrongly: it requires that keys ascend, that each page but the
// last is full, and that all rows together fit the memory that was free when the walk
// began.
struct client_walk {
    uint32_t table, partition;
    uint64_t from;       // the lowest key of the next page
    bool over;           // the partition has no more rows
    uint32_t n;          // number of rows of the last page
    uint64_t rows, room; // number of rows received; bytes left for further rows
};
struct client_walk client_walk_begin(uint32_t table);
void client_walk_partition(struct client_walk *w, uint32_t partition);
// Gets the next page of a walk that is not over: w->n rows, at most max, of
// spec_page_width floats each, by ascending key.
client_ts client_walk_next(struct client *c, struct client_walk *w, uint32_t max,
                           uint64_t *ret_keys, float *ret_values, struct err *e);

// Returns whether the request has ended; *ret_rc is its result, with a sentence in *e if
// it failed. A timestamp is forgotten after one such call, or when the request's callback
// has run.
bool client_done(struct client *c, client_ts ts, int *ret_rc, struct err *e);
// Cancels a request: polls until the van no longer uses its arrays. Not to be called in a
// callback.
void client_cancel(struct client *c, client_ts ts);
size_t client_in_flight(const struct client *c);
// Ends all requests with the error *why; new ones are refused. The caller owns the arrays
// of a request again when it has ended (client_done, its callback), and must poll the van
// until then.
void client_abandon(struct client *c, const struct err *why);
// Returns 0 while requests and waits may continue. Else returns, with the reason, the
// status with which the cluster has ended for this client, or the status of
// client_abandon.
int client_over(const struct client *c, struct err *e);

// Polls until the request ends and returns its result; TUG_EINTERRUPTED if *interrupted
// of client_set_interrupt is true. If the request could not begin (`ts` is 0), it returns
// the code of the error in *e, so that beginning and waiting can be one expression. This
// function and the following ones are in wait.c.
int client_wait(struct client *c, client_ts ts, struct err *e);
// Polls until all requests have ended. Their callbacks get the results.
int client_wait_all(struct client *c, struct err *e);
int client_wait_ready(struct client *c, uint64_t timeout_ns, struct err *e);
// Sends a message to the scheduler, waits for the answer, and passes it to `answer`.
int client_ask(struct client *c, uint16_t type, const void *msg,
               void (*answer)(void *ctx, const union wire_any *m), void *ctx,
               struct err *e);
// Sends a message to the scheduler and returns before the answer, which must be OK. If
// CLIENT_TELLS messages have no answer yet, it first waits for one. A refusal is returned
// by a later client_tell or client_ask.
enum { CLIENT_TELLS = 16 };
int client_tell(struct client *c, uint16_t type, const void *msg, struct err *e);
uint64_t client_told(const struct client *c); // how many messages client_tell has sent
// Waits for the barrier that the client's member has entered. `stops` (or NULL) is called
// repeatedly with the names of the missing workers; if it returns true, the wait ends
// with TUG_EINTERRUPTED. client_barrier first enters the next barrier, and then waits for
// it.
int client_meet(struct client *c, uint8_t group, uint64_t timeout_ns,
                bool (*stops)(void *ctx, const char *missing), void *ctx, struct err *e);
int client_barrier(struct client *c, uint8_t group, uint64_t timeout_ns, struct err *e);
// Leaves the cluster, as member_leave does, and waits until the scheduler knows that the
// client has left.
int client_leave(struct client *c, const struct err *why, struct err *e);
// Lets the van handle the events that are there now, without waiting for others.
int client_poll(struct client *c, struct err *e);
void client_set_interrupt(struct client *c, const atomic_bool *interrupted);
void client_set_timeout(struct client *c, uint64_t request_timeout_ns); // 0: 60 s

struct client_stats {
    uint64_t pushes, pulls, keys, bytes_sent, bytes_received, resent, refused;
    uint64_t silent;    // number of silent links that were replaced
    uint64_t no_room;   // number of requests refused by loops that had no room for them
    uint64_t waited_ns; // time spent in client_wait
    // Number of pushes with an update that a server left out, because its rule's state
    // would have become infinite; the table and key of the first one.
    uint64_t left_out, left_out_key;
    uint32_t left_out_table;
};
struct client_stats client_stats(const struct client *c);

#endif
