// The client: pushes and pulls of keys, sliced by placement, many in flight, each done
// exactly once whatever happens to links and placement in between.
//
// A state machine behind a van handler, with its member inside: the node of a worker (or
// driver) is one client. Only client_wait (wait.c) waits: it polls the van until a
// request is done. A client has no thread and no lock: one thread uses it.
//
// Keys and order. A request's keys must be distinct. They are sent grouped by the loop
// that owns them, by ascending partition; client_arrange gives that order. Keys in that
// order are sent from, and answered into, the caller's arrays without a copy; the client
// gathers and scatters others. client_merge (merge.h) makes keys distinct.
//
// Memory. Arrays of a request belong to it until it is done (client_done, or the
// callback) or client_cancel has returned.
//
// Retries. A slice whose link broke, or that a loop refused because of the placement or a
// momentary lack of room, is sent again under the newest placement: a push with the same
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
                                  // `view` and `forget` stay the caller's (view_ctx)
    void (*view)(void *ctx, const struct msg_view *m);
    void *view_ctx;
    uint64_t connect_timeout_ns; // to a server loop; 0: 10 s
    uint64_t request_timeout_ns; // 0: 60 s
    uint64_t admin_timeout_ns;   // of admin operations, saves and loads; 0: 1 hour
    uint64_t resend_ns;          // 0: never, for reliable links such as tcp's
    bool bf16;                   // values travel as bf16
    bool pack_keys;              // keys travel packed where that pays
    bool cache_keys;             // a key list is sent once, then its signature
    bool without_turns;          // tests: saves go to all loops at once
    bool without_silence_watch;  // tests: keeps silent links to servers
};

int client_open(struct client **ret, const struct client_options *o, struct err *e);
void client_close(struct client *c);
struct van_handler client_handler(struct client *c);
void client_serve(struct client *c, struct van *v, uint64_t now);
struct member *client_member(struct client *c);

// Makes a table of that number on every loop, or finds the same one there. Ends like
// other requests.
typedef uint64_t client_ts; // 0: none
client_ts client_table(struct client *c, uint32_t id, const struct table_config *t,
                       struct err *e);
// Finds a table that another client made, by its name (NULL: by its number); this client
// can use it from then on.
client_ts client_info(struct client *c, const char *name, uint32_t table,
                      uint32_t *ret_number, struct err *e);
// Returns the table's spec once this client knows it; else NULL.
const struct table_spec *client_spec(const struct client *c, uint32_t table);

// Gets the order in which keys are sent: ret_order[i] is the position of the i-th key.
// Stable inside a partition. Valid for the current placement.
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
    float rate, pass; // see msg_push
    bool again;       // a later pass over the same examples: see WIRE_AGAIN
    // sync tables: part and batch; the push goes to all loops, also to those without its
    // keys, unless `fixed_keys`: every part of every batch has the same keys.
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
    uint8_t *found; // 1 for keys with a row; may be NULL
    uint64_t clock;
    bool all_loops; // waits for the clock on loops without keys, too
    bool arranged;
    client_done_fn done;
    void *ctx;
};

// Both return the request's timestamp, or 0 with e set (usage, memory, the cluster has
// ended). Beyond SHARD_WINDOW pushes in flight, further ones queue inside the client.
client_ts client_push(struct client *c, const struct client_push *p, struct err *e);
client_ts client_pull(struct client *c, const struct client_pull *p, struct err *e);

// Other requests. ssp: this worker's clock for a table (UINT64_MAX: finished). Admin
// operations. Statistics, added over all loops (clock: the least).
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
// Decays rows and removes those below the threshold (NAN: the table's); ends a day. Each
// is done once, however long it takes. *ret_removed (may be NULL): the rows removed on
// all loops.
client_ts client_shrink(struct client *c, uint32_t table, float threshold,
                        uint64_t *ret_removed, struct err *e);
client_ts client_day(struct client *c, uint32_t table, struct err *e);
// Adds to this client's steps; *ret_global (may be NULL): the steps of all clients.
client_ts client_step(struct client *c, uint64_t steps, uint64_t *ret_global,
                      struct err *e);
// Saves: each loop writes its rows as of one moment, while training continues
// (server/save.h). The saver makes the directory before and the manifest afterwards
// (save/save.h), and then says how it ended: until then loops keep what they need to undo
// it.
struct client_save {
    uint64_t id; // never used again
    enum save_mode mode;
    int zstd;         // level; 0: not compressed
    const char *path; // of the save's directory, below the servers' save root
    const uint32_t *tables;
    size_t n;       // 0: all tables
    bool marked;    // the moment is after the marks of all living workers
    uint64_t clock; // sync tables: the moment is when this batch is the next; 0: now
    // The roster of the save, see msg_save. 0: the client's, and all living workers.
    uint64_t roster, newest;
};
// Waits for the save's turn; client_save continues with it. A caller whose workers mark
// must wait for the turn first: pushes behind marks are held as long as another save is
// in progress.
client_ts client_save_turn(struct client *c, uint64_t id, struct err *e);
// Asks the first loop for a turn before the others, so that two saves at once come one
// after the other. *into gets the step, the tables and the contents of their files.
client_ts client_save(struct client *c, const struct client_save *s,
                      struct save_manifest *into, struct err *e);
// `checksum`: of its manifest, if committed.
client_ts client_save_end(struct client *c, uint64_t id, bool committed,
                          uint64_t checksum, struct err *e);
// Marks a save: it holds this worker's earlier pushes and not its later ones. The mark
// waits until the earlier ones are acknowledged, and later ones wait for the mark. With
// tables of mode ssp or sync all workers must mark at the same clock: else a worker that
// has not marked could wait for one whose pushes are held.
client_ts client_mark(struct client *c, uint64_t id, struct err *e);
// Loads a table's rows from a save, by its name there, whatever number of loops wrote it.
// `path`: of the save whose manifest has that checksum, below a root that servers read.
// `clear`: replaces the table's rows; else the table must be empty.
client_ts client_load(struct client *c, uint32_t table, const char *path,
                      uint64_t checksum, const char *name, bool clear, uint64_t *ret_rows,
                      struct err *e);
// Turns an absolute path into one relative to the roots of all servers (server/roots.h),
// as the calls above need it. TUG_EUSAGE if a server has no such root. `path` and `ret`
// must live until the request ends.
client_ts client_below(struct client *c, enum wire_root kind, const char *path,
                       char ret[FILE_PATH_MAX], struct err *e);

// A walk over the rows of a table, partition by partition and page by page. It ends
// whatever servers answer: keys must ascend, a page that is not the last must be full,
// and all rows together may take no more memory than was free when the walk began.
struct client_walk {
    uint32_t table, partition;
    uint64_t from;       // the lowest key that may still come
    bool over;           // the partition has no more rows
    uint32_t n;          // rows of the last page
    uint64_t rows, room; // received so far; bytes left for more
};
struct client_walk client_walk_begin(uint32_t table);
void client_walk_partition(struct client_walk *w, uint32_t partition);
// Gets the next page until the walk is over: w->n rows, at most max, of spec_page_width
// floats each, by ascending key.
client_ts client_walk_next(struct client *c, struct client_walk *w, uint32_t max,
                           uint64_t *ret_keys, float *ret_values, struct err *e);

// Returns whether the request has ended; *ret_rc is its result, with a sentence in *e if
// it failed. A timestamp is forgotten after one such call, or when its callback has run.
bool client_done(struct client *c, client_ts ts, int *ret_rc, struct err *e);
// Not inside a callback: polls until the van no longer uses the request's arrays.
void client_cancel(struct client *c, client_ts ts);
size_t client_in_flight(const struct client *c);
// Ends all requests with this reason, and makes no new ones. The caller owns their arrays
// again as each ends (client_done, callbacks): poll the van until then.
void client_abandon(struct client *c, const struct err *why);

// wait.c: polls until the request ends. TUG_EINTERRUPTED if *interrupted was set.
int client_wait(struct client *c, client_ts ts, struct err *e);
int client_wait_ready(struct client *c, uint64_t timeout_ns, struct err *e);
// Asks the scheduler and waits; `answer` gets the message.
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
    uint64_t silent;    // silent links that were replaced
    uint64_t no_room;   // refusals of loops without room at that moment
    uint64_t waited_ns; // in client_wait
    // Pushes of whose answers an update was left out, because a state of its rule would have
    // become infinite; of the first one the table and the key.
    uint64_t left_out, left_out_key;
    uint32_t left_out_table;
};
struct client_stats client_stats(const struct client *c);

#endif
