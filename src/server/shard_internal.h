// What the files of a shard share. shard.h says what a shard is; a file each says how:
//
//   shard.c    its life, links, dispatch
//   place.c    whose partitions a request asks for
//   pending.c     requests that wait
//   room.c     when there is room for an answer
//   tables.c   TABLE, TABLE_DO, TABLE_WANTED
//   push.c     gradients and values into rows
//   pull.c     rows into answers
//   sync.c     batches of sync tables
//   sync_sum.c  what their contributions add up to, pushed to a store
//   background.c    admin operations that take time: a slice at a time between requests
//   save.c     saves: rows as they are at one moment, written while training goes on
//   save_requests.c  what is asked of them
//   loads.c    rows from saves
//   rows.c     walks over the rows of a partition
//   move.c     a partition goes to another shard
//   told.c     admin operations, for the scheduler's log
//   status.c   for people
//   profiling.c  what is noted of each request, when wanted
//   request_fields.h  what requests say of themselves
//   shard_check.c  what must hold between two events, for builds with assertions
//
// Pure, and tested apart: admin, keys, marks, pool, previous, profile, retries, spec,
// ssp_clock, step_clock, sync_clock.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SHARD_INTERNAL_H
#define TUG_SERVER_SHARD_INTERNAL_H

#include <assert.h>

#include "base/clock.h"
#include "cluster/refusals.h"
#include "protocol/keys.h"
#include "server/admin.h"
#include "server/pool.h"
#include "server/previous.h"
#include "server/profile.h"
#include "server/retries.h"
#include "server/save.h"
#include "server/shard.h"
#include "server/ssp_clock.h"
#include "server/step_clock.h"
#include "server/sync_clock.h"
#include "store/store.h"

enum {
    BATCH = 1024,        // keys that are looked up together
    STRIP_FLOATS = 8192, // that are converted together, unless a row is longer
    PEER_BUCKETS = 1024,
};

// An order that goes on in a store.
struct turn {
    bool on;
    uint64_t session, number; // whose; 0: nobody asks
    uint64_t before;          // rows gone when it began
    uint64_t rows;            // that a clear removes
};

struct shard_table {
    struct table_spec spec;
    struct store *store;
    struct turn turn;       // an order that takes time
    bool work;              // store_work has something to do
    struct err stuck;       // why the next batch could not be applied; code 0: nothing
    uint32_t n_applied;     // partitions below were, of that batch
    bool again;             // batches are to be tried again
    uint64_t version;       // counts applied pushes and admin operations
    uint64_t *changed_at;   // the version at which each partition changed last
    uint64_t bytes;         // of rows and index, when last looked at
    struct ssp_clock ssp;   // WIRE_SSP
    struct sync_clock sync; // WIRE_SYNC
    struct previous before; // likewise
    struct msg_table_is figures; // those that are counted
};

// Who is at the other end of a link.
struct peer {
    struct peer *next;
    van_link link;
    bool greeted;
    enum wire_role role; // as what it was let in
    uint32_t node;       // 0: a tool's, that has not joined
    uint64_t session;
    bool ended; // the session
    uint64_t greet_by;
    uint64_t heard; // when the last message came
    struct key_lists lists;
    uint32_t n_pending;         // its requests that wait,
    uint32_t n_draining;        // those of them that wait for room,
    uint32_t n_draining_pushes; // and the pushes among them
    uint64_t blocked; // the try of waiting requests at which one of its found none
};

struct request {
    struct peer *peer;
    uint16_t type;
    uint64_t id;
    const union wire_any *m;
    struct van_message *fresh; // NULL: it was held, its body is kept
    void *kept;                // the body, if it was held
    bool silent;               // it was answered before (acknowledge_before_apply)
    uint64_t room;             // that it waits for: WANTS_DRAIN
};

// What became of a request. Of those that wait nothing has happened yet.
enum outcome {
    ANSWERED,
    WANTS_ROSTER, // a newer one
    WANTS_BATCH,  // sync: batches to be complete
    WANTS_TICK,   // ssp: workers to come further
    WANTS_LATER,  // acknowledge_before_apply: the next moment
    WANTS_TURN,   // an order or a save of the table to be over
    WANTS_CUT,    // the moment of a save that is marked
    WANTS_ROOM,   // a save to come further
    WANTS_SAVED,  // the save to be written, or over
    WANTS_DRAIN,  // answers to be read
};

struct pending {
    struct pending *next;
    struct peer *peer;
    uint64_t id;
    uint16_t type;
    enum outcome wants;
    union wire_any m;
    void *kept;
    uint64_t bytes, deadline, since;
    uint64_t room; // see struct request
    char texts[];
};

struct shard {
    struct shard_options o;
    struct member *member;
    struct van *van;
    uint64_t now;
    struct refusals refusals, refused_orders;
    bool ready; // the roster's number of partitions is known
    uint32_t bits;
    struct peer *peers[PEER_BUCKETS];
    uint32_t n_strangers;                // that have not said hello
    struct pending *held, **pending_end; // in the order in which they came
    uint64_t pending_bytes;
    uint32_t n_pending;
    uint64_t pending_due; // no deadline of theirs is before
    uint64_t idle_look;   // when tools that are silent are looked for
    uint32_t n_draining;  // of them that wait for room
    uint64_t drain_look;  // when they look for it
    uint64_t retries;     // times that waiting requests were tried
    uint32_t woken;       // a bit for each enum outcome: see pending_wake
    struct shard_table *tables[SPEC_MAX_TABLES];
    uint32_t n_tables; // numbers below it may be taken
    uint64_t bytes;    // of all tables

    struct retries *applied;
    struct admin admin;
    struct step_clock steps;
    struct saves saves;
    uint64_t work_due;   // the next slice of admin operations and saves
    uint64_t rest_until; // not before
    uint64_t served_at;  // when the last request came
    struct keys_scratch keys;
    struct pool *pool;
    float *strip;
    size_t max_strip;
    float *floats; // as large as it has to be: see shard_floats
    size_t max_floats;
    struct sync_scratch *sync;

    bool profiling; // requests are noted
    struct profile profile;
};

// shard.c

void shard_ok(struct shard *s, const struct request *q, uint64_t value);
void shard_refuse(struct shard *s, const struct request *q, const struct err *e);
// "worker 1 (host:pid)".
const char *shard_peer_name(const struct shard *s, const struct peer *p,
                            char to[ROSTER_NAME_MAX]);
const char *shard_session_name(const struct shard *s, uint64_t session,
                               char to[ROSTER_NAME_MAX]);
enum outcome shard_serve_request(struct shard *s, struct request *q);
// Refuses with "push of table 'x' by worker 1 (host:pid): " in front.
enum outcome shard_refuse_keys(struct shard *s, const struct request *q, const char *what,
                               const struct shard_table *t, struct err *e);

// Scratch memory of n floats, until the next call. NULL: out of memory.
float *shard_floats(struct shard *s, size_t n);

// What serves each message to a server's loop. Of one that has to wait nothing may have
// happened yet: the same is called again.
#define TO_SERVER(NAME, name)                                                            \
    enum outcome name##_serve(struct shard *s, struct request *q);
#include "wire/messages.def"

// shard_check.c: nothing without assertions

#ifndef NDEBUG
void shard_check(const struct shard *s);
#else
static inline void shard_check(const struct shard *s)
{
    (void)s;
}
#endif

// place.c

// ANSWERED: it is not for this shard, and the asker was told so; *ret_mine: go on.
enum outcome place_check(struct shard *s, const struct request *q, uint64_t epoch,
                         const struct shard_table *t, const struct keys *k,
                         bool *ret_mine, struct err *e);

// pending.c

// Keeps a request that waits. TUG_ENOMEM: it can't be kept.
int pending_add(struct shard *s, struct request *q, enum outcome wants, struct err *e);
// What requests wait for may have come: they are tried again once the message at hand is
// done with (pending_settle).
static inline void pending_wake(struct shard *s, enum outcome wants)
{
    s->woken |= 1u << wants;
}
void pending_settle(struct shard *s);
void pending_drop_peer(struct shard *s, const struct peer *p);
uint64_t pending_expire(struct shard *s); // returns when to look again
uint32_t pending_count(const struct shard *s, uint32_t table);
// What a push of the same link to the same table waits for that came before q: who comes
// behind it waits, too. ANSWERED: there is none.
enum outcome pending_before(const struct shard *s, const struct request *q,
                            uint32_t table);
bool pending_wants(const struct shard *s,
                   enum outcome wants); // some request waits for it
// Whether an order waits that is to be obeyed before the table's next batch.
bool pending_order(const struct shard *s, const struct shard_table *t);

// room.c

// Whether an answer of so many bytes can be sent, or has to wait: WANTS_DRAIN. *e is set
// when it never can.
enum outcome room_for(struct shard *s, struct request *q, uint64_t bytes, struct err *e);
bool room_now(const struct shard *s, const struct peer *p, uint64_t bytes);
uint64_t room_look(struct shard *s); // returns when to look again

// tables.c

int tables_obey(struct shard *s, const struct msg_table_do *m, struct err *e);
// The table of that number, or NULL with a sentence.
struct shard_table *tables_find(const struct shard *s, uint32_t id, struct err *e);
void tables_close(struct shard *s);
void tables_living(struct shard *s);                         // workers have come or gone
void tables_measure(struct shard *s, struct shard_table *t); // the memory it takes
// The table's rows may have what other tables leave of max_bytes.
void tables_limit(struct shard *s, struct shard_table *t);
struct msg_table_is tables_count(const struct shard *s, const struct shard_table *t);
// Everything in it has changed.
void tables_touch_all(struct shard *s, struct shard_table *t);

void tables_set_step(struct shard *s); // stores hear of it

static inline uint32_t tables_partition(const struct shard *s,
                                        const struct shard_table *t, uint64_t key)
{
    return roster_partition(s->bits, t->spec.space, key);
}

// push.c

// Gradients or values of some keys, as they lie in a message.
struct push_values {
    enum wire_op op;
    bool bf16;
    const void *data;
    uint32_t width; // floats of a key
    float rate, pass;
    bool again; // WIRE_AGAIN
};
// Whether keys and values of a push can be applied.
int push_check(struct shard *s, const struct shard_table *t, const struct keys *k,
               const struct push_values *v, struct err *e);

// pull.c

// Of the answer with n keys, at most.
uint64_t pull_bytes(const struct shard *s, const struct shard_table *t, uint32_t n,
                    uint8_t flags);
// Answers with the rows of keys as they are now: of all, or (version != 0) of partitions
// that changed since.
void pull_answer(struct shard *s, struct request *q, struct shard_table *t,
                 const struct keys *k, uint8_t flags, uint64_t version, bool before);

// sync.c

// One push, as it waits for its batch to be complete.
struct contribution {
    uint32_t n, n_runs, longest;
    uint64_t *keys;
    struct key_run *runs; // and one more
    const float *values;  // in the body, or converted
    float *converted;
    void *kept;       // the body
    uint64_t counted; // in the account
    uint64_t examples;
    float rate, pass;
    bool again; // WIRE_AGAIN
};

// Applies batches that are complete, as far as saves let it.
void sync_apply(struct shard *s, struct shard_table *t);
enum outcome sync_push(struct shard *s, struct request *q, struct shard_table *t,
                       const struct keys *k, const struct push_values *v);
void sync_drop(struct shard *s, struct shard_table *t); // what is open

// sync_sum.c

// Applies the next batch, which is complete, to the store. On failure t->stuck says why,
// and calling again goes on.
int sync_apply_batch(struct shard *s, struct shard_table *t);
// Memory to add up the batch of that clock when keys k are in, too.
int sync_reserve(struct shard *s, const struct shard_table *t, uint64_t clock,
                 const struct keys *k);
uint64_t sync_examples(const struct sync_batch *b);
void sync_scratch_free(struct sync_scratch *x); // NULL is fine

// background.c

// Whether an order can begin.
bool background_free(const struct shard_table *t);
// A cut has ended: what was published is noted as that, partition by partition.
void background_publish(struct shard *s, struct shard_table *t);
void background_wake(struct shard *s); // there is something to do
// Rows may be to be demoted: a push has come, or a day has ended.
void background_demote(struct shard *s, struct shard_table *t);
// Batches of the table that have waited are tried again, soon.
void background_again(struct shard *s, uint32_t table);
uint64_t background_tick(struct shard *s); // returns when to look again

// save.c

void saves_look(struct shard *s); // what the save waits for may have come
// Whether pushes of the session to the table lie behind its mark.
bool saves_hold(const struct shard *s, const struct shard_table *t, uint64_t session);
// Whether the table's next batch must wait, for the save is to be before it.
bool saves_stop_batch(const struct shard *s, const struct shard_table *t);
bool saves_work(const struct shard *s);         // there is something to read out
void saves_slice(struct shard *s, uint64_t ns); // reads out for about so long
uint64_t saves_expire(struct shard *s);         // returns when to look again
void saves_close(struct shard *s);

// save.c, for save_requests.c

struct shard_table *save_table_at(const struct shard *s, const struct save_run *r,
                                  uint32_t i);
// A save's tables are looked up before anything indexes with their numbers.
int save_add_run_table(const struct shard *s, struct save_run *r, uint32_t id,
                       struct err *e);
uint64_t save_timeout(const struct shard *s);
void save_drop_marks(struct shard *s, uint64_t save);
// Ends the cuts that go on. On failure some still do: it can be called again.
int save_end_cuts(struct shard *s, struct save_run *r, bool committed, struct err *e);
void save_stop_writer(const struct shard *s, struct save_run *r);
void save_run_free(struct shard *s);
void save_wake_all(struct shard *s); // who waits for a save, or for its end

// save_requests.c

void save_remember(struct saves *x, uint64_t save, bool committed); // it has ended
bool save_has_ended(const struct saves *x, uint64_t save, bool *ret_committed);

// told.c: the scheduler's log hears of a request, if it is an order

void told_done(struct shard *s, const struct request *q); // or begun, if it takes time
void told_refused(struct shard *s, const struct request *q, const struct err *why);

// profiling.c: only while s->profiling

void profiling_begin(const struct shard *s, const struct request *q,
                     struct wire_event *ret);
void profiling_end(struct shard *s, struct wire_event *event);
void profiling_waited(struct shard *s, const struct pending *h);

#endif
