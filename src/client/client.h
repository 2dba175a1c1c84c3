// The client: pushes and pulls of keys, sliced by placement, many in flight, each done
// exactly once whatever happens to links and placement in between.
//
// A state machine behind a van handler, with its member inside: a worker's (or driver's)
// node is one client. client_wait (wait.c) is the only function that waits: it polls the
// van until a request is done. No thread of its own, no lock: one thread uses a client.
//
// Keys and order. A request's keys must be distinct. They travel grouped by the loop that
// owns them, by ascending partition; client_arrange gives that order. Keys that are given
// in it are sent from, and answered into, the caller's arrays without a copy; others are
// gathered and scattered by the client. client_merge (merge.h) makes keys distinct.
//
// Memory. Arrays of a request belong to it until it is done (client_done, or the
// callback) or client_cancel has returned.
//
// Retries. A slice whose link broke, or that was refused because of the placement or for
// want of room at that moment, is sent again under the newest placement: a push with the
// same number, so that it happens once. Without an answer for `resend_ns` it is sent
// again too. At its deadline a request ends with TUG_EIO, naming the nodes that did not
// answer; a push may then have happened in some partitions.
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
    struct member_options member; // its callbacks and their ctx are the client's own;
                                  // `view` and `forget` stay the caller's (view_ctx)
    void (*view)(void *ctx, const struct msg_view *m);
    void *view_ctx;
    uint64_t connect_timeout_ns; // to a server loop; 0: 10 s
    uint64_t request_timeout_ns; // 0: 60 s
    uint64_t admin_timeout_ns;   // of admin operations, saves and loads; 0: 1 hour
    uint64_t resend_ns;          // 0: never, links are reliable, as tcp
    bool bf16;                   // values travel as bf16
    bool pack_keys;              // keys travel packed where that pays
    bool cache_keys;             // a key list is sent once, then its signature
    bool without_turns;          // tests: saves go to all loops at once
    bool without_silence_watch;  // tests: links to servers are kept while they are silent
};

int client_open(struct client **ret, const struct client_options *o, struct err *e);
void client_close(struct client *c);
struct van_handler client_handler(struct client *c);
void client_serve(struct client *c, struct van *v, uint64_t now);
struct member *client_member(struct client *c);

// Makes a table of that number on every loop, or finds the same one there. A request like
// others.
typedef uint64_t client_ts; // 0: none
client_ts client_table(struct client *c, uint32_t id, const struct table_config *t,
                       struct err *e);
// A table that others made, by its name (NULL: by its number), which is
// known to this client from then on.
client_ts client_info(struct client *c, const char *name, uint32_t table,
                      uint32_t *ret_number, struct err *e);
// The table's spec, once made by this client; else NULL.
const struct table_spec *client_spec(const struct client *c, uint32_t table);

// The order in which keys travel: ret_order[i] is the number of the key that is i-th.
// Stable inside a partition. It holds for the current placement.
int client_arrange(struct client *c, uint32_t table, const uint64_t *keys, size_t n,
                   uint32_t *ret_order);

// What ends a request: rc 0, or a code; client_done, called inside the callback, gives
// the sentence. Called inside van_poll.
typedef void (*client_done_fn)(void *ctx, client_ts ts, int rc);

struct client_push {
    uint32_t table;
    const uint64_t *keys;
    size_t n;
    const float *values; // n x spec_value_width of op
    enum wire_op op;
    float rate, pass; // see msg_push
    bool again;       // of examples that were pushed before in the run: see WIRE_AGAIN
    // sync tables: which part of which batch; the push goes to all loops, with or without
    // keys there, unless `fixed_keys`: every part of every batch has the same keys.
    uint64_t clock;
    uint8_t micro, micros;
    bool fixed_keys;
    uint64_t id_pass, id_piece; // identity across sessions; id_pass 0: none
    uint32_t id_group, id_low;  // see msg_push
    uint64_t
        examples; // async, ssp: counted by the loop of the first key; sync: told to each loop
    float *pulled; // not NULL: the rows after the push, n x pull width (tug_push_pull)
    bool arranged; // keys are in the order of client_arrange
    client_done_fn done; // may be NULL
    void *ctx;
};

struct client_pull {
    uint32_t table;
    const uint64_t *keys;
    size_t n;
    float *values; // n x pull width; with whole_rows n x width
    bool whole_rows;
    uint8_t *found; // 1 where there is a row; may be NULL
    uint64_t clock;
    bool all_loops; // waits for the clock on loops without keys, too
    bool arranged;
    client_done_fn done;
    void *ctx;
};

// Both return the request's timestamp, or 0 with e set (usage, memory, the cluster is
// over). More than SHARD_WINDOW pushes in flight queue inside the client.
client_ts client_push(struct client *c, const struct client_push *p, struct err *e);
client_ts client_pull(struct client *c, const struct client_pull *p, struct err *e);

// Other requests. ssp: this worker's clock for a table (UINT64_MAX: finished). Admin
// operations. Figures, added over all loops (clock: the least).
client_ts client_tick(struct client *c, uint32_t table, uint64_t clock, struct err *e);
client_ts client_admin(struct client *c, uint32_t table, enum wire_order what,
                       uint32_t other, struct err *e);
// sync: the clock of the table's next batch.
// The table's rows go into their mean in another one, by this share (WIRE_MEAN).
client_ts client_mean(struct client *c, uint32_t table, uint32_t other, float share,
                      struct err *e);
client_ts client_clock(struct client *c, uint32_t table, uint64_t clock, struct err *e);
client_ts client_stat(struct client *c, uint32_t table, struct msg_table_is *ret,
                      struct err *e);
// Rows decay, and the faded go (threshold: in place of the
// table's; NAN: that one). A day has ended. Both happen once, however long it takes.
// *ret_removed (may be NULL): rows, of all loops.
client_ts client_shrink(struct client *c, uint32_t table, float threshold,
                        uint64_t *ret_removed, struct err *e);
client_ts client_day(struct client *c, uint32_t table, struct err *e);
// This client has done so many more steps; *ret_global (may be NULL): those of all.
client_ts client_step(struct client *c, uint64_t steps, uint64_t *ret_global,
                      struct err *e);
// Saves: each loop writes its rows as they are at one moment,
// while training goes on (server/save.h). Who saves makes the directory before and the
// manifest behind it (save/save.h), and then says how it ended: until then loops hold
// what they need to take it back.
struct client_save {
    uint64_t id; // never given twice
    enum save_mode mode;
    int zstd;         // level; 0: not compressed
    const char *path; // of the save's directory, below the servers' save root
    const uint32_t *tables;
    size_t n;       // 0: all tables
    bool marked;    // the moment is behind the marks of all living workers
    uint64_t clock; // sync tables: the moment is when this batch is the next; 0: now
    // Of which roster it is, see msg_save. 0: the client's, and all living workers.
    uint64_t roster, newest;
};
// Waits for the save's turn; client_save goes on with it. Who has workers mark waits for
// it first: what they push behind their marks is held as long as another save goes on.
client_ts client_save_turn(struct client *c, uint64_t id, struct err *e);
// The first loop is asked for a turn before the others hear of it: so two that
// save at once come one after the other. *into gets the step, the tables and
// what is in their files.
client_ts client_save(struct client *c, const struct client_save *s,
                      struct save_manifest *into, struct err *e);
// `checksum`: of its manifest, when it is committed.
client_ts client_save_end(struct client *c, uint64_t id, bool committed,
                          uint64_t checksum, struct err *e);
// This worker's pushes so far are in the save; those behind it are not. It waits until
// they are acknowledged, and pushes behind it wait for it. With tables of mode ssp or
// sync all workers mark at the same clock: else one whose pushes are held is waited for
// by one that has not marked yet.
client_ts client_mark(struct client *c, uint64_t id, struct err *e);
// A table's rows from a save, by its name there; whatever number of loops wrote it.
// `path`: of the save whose manifest has that checksum, below a root that servers read.
// `clear`: in place of what the table has, which else must be nothing.
client_ts client_load(struct client *c, uint32_t table, const char *path,
                      uint64_t checksum, const char *name, bool clear, uint64_t *ret_rows,
                      struct err *e);
// What an absolute path is called below the roots of all servers (server/roots.h), which
// is what the calls above take. TUG_EUSAGE: a server has no such root. `path` and `ret`
// are borrowed until the end.
client_ts client_below(struct client *c, enum wire_root kind, const char *path,
                       char ret[FILE_PATH_MAX], struct err *e);

// A walk over the rows of a table, one partition after the other, page by page. It ends
// whatever servers answer: keys ascend, a page that others follow is full, and all rows
// together take no more memory than was free when the walk began.
struct client_walk {
    uint32_t table, partition;
    uint64_t from;       // the least key that may still come
    bool over;           // the partition has no more rows
    uint32_t n;          // rows of the last page
    uint64_t rows, room; // that have come, and bytes for those to come
};
struct client_walk client_walk_begin(uint32_t table);
void client_walk_partition(struct client_walk *w, uint32_t partition);
// The next page, until it is over: w->n rows, at most max, by ascending key. Of
// spec_page_width floats each.
client_ts client_walk_next(struct client *c, struct client_walk *w, uint32_t max,
                           uint64_t *ret_keys, float *ret_values, struct err *e);

// True when it is over; *ret_rc is how, with a sentence in *e when it failed. A timestamp
// is forgotten when it was asked for once after its end, or its callback has run.
bool client_done(struct client *c, client_ts ts, int *ret_rc, struct err *e);
// Not inside a callback: it polls until the van has let go of the request's arrays.
void client_cancel(struct client *c, client_ts ts);
size_t client_in_flight(const struct client *c);
// Ends all requests with this reason, and makes no new ones. Their arrays are the
// caller's as they are done (client_done, callbacks): the van is polled until then.
void client_abandon(struct client *c, const struct err *why);

// wait.c: polls until the request is over. TUG_EINTERRUPTED: *interrupted was set.
int client_wait(struct client *c, client_ts ts, struct err *e);
int client_wait_ready(struct client *c, uint64_t timeout_ns, struct err *e);
// Asks the scheduler and waits; `answer` is given the message.
int client_ask(struct client *c, uint16_t type, const void *msg,
               void (*answer)(void *ctx, const union wire_any *m), void *ctx,
               struct err *e);
int client_barrier(struct client *c, uint8_t group, uint64_t timeout_ns, struct err *e);
int client_leave(struct client *c, int code, const char *why, struct err *e);
// Lets the van work for a moment without waiting.
int client_poll(struct client *c, struct err *e);
void client_set_interrupt(struct client *c, const atomic_bool *interrupted);
void client_set_timeout(struct client *c, uint64_t request_timeout_ns); // 0: 60 s

struct client_stats {
    uint64_t pushes, pulls, keys, bytes_sent, bytes_received, resent, refused;
    uint64_t silent;    // links that were replaced for their silence
    uint64_t no_room;   // refusals of loops that had no room at that moment
    uint64_t waited_ns; // in client_wait
    // Pushes of whose answers an update was left out, because a state of its rule would have
    // become infinite; of the first one the table and the key.
    uint64_t left_out, left_out_key;
    uint32_t left_out_table;
};
struct client_stats client_stats(const struct client *c);

#endif
