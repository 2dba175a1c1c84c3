// Internals that the files of a shard share. shard.h describes a shard; each file has a part of it:
//
//   shard.c          opening and closing, links, dispatch of messages
//   answers.c        acknowledgements and refusals
//   place.c          checks the owner of a request's partitions
//   pending.c        requests that wait
//   room.c           checks for room for answers
//   tables.c         TABLE, TABLE_DO, TABLE_WANTED
//   push.c           gradients and values into rows
//   pull.c           rows into answers
//   sync.c           batches of sync tables
//   sync_sum.c       adds up their contributions and pushes the sums to a store
//   background.c     admin operations that take time, in slices between requests
//   save.c           saves: rows as they are at one moment, written while training goes on
//   save_requests.c  the requests about saves
//   loads.c          rows from saves
//   rows.c           walks over the rows of a partition
//   moves/moves.h    partitions on their way: source.c, target.c
//   moves/roles.c    which partitions are here
//   moves/parcel.c   all that a shard has of a partition, as bytes
//   chain/chain.h    replicas: records for other loops, answers that wait for them
//   told.c           reports admin operations to the scheduler's log
//   status.c         the answer to tug status
//   profiling.c      records of requests, while profiling is on
//   shard_check.c    invariants between two events, in builds with assertions
//
// Files that do not include this header do not depend on a shard, and have tests of their own.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SHARD_INTERNAL_H
#define TUG_SERVER_SHARD_INTERNAL_H

#include <assert.h>

#include "base/histogram.h"
#include "base/json_out.h"
#include "cluster/scheduler/refusals.h"
#include "protocol/spec.h"
#include "server/admin.h"
#include "server/chain/chain.h"
#include "server/clocks/step_clock.h"
#include "server/moves/moves.h"
#include "server/moves/roles.h"
#include "server/pool.h"
#include "server/profile/profile.h"
#include "server/request.h"
#include "server/retries.h"
#include "server/saves/save.h"
#include "server/shard.h"

enum {
    BATCH = 1024,        // number of keys that are looked up together
    STRIP_FLOATS = 8192, // number of floats that are converted together, unless one row
                         // is longer
    PEER_BUCKETS = 1024,
};

enum shard_kind { SHARD_PUSHES, SHARD_PULLS, SHARD_OTHERS, SHARD_KINDS };

// The text of the answer to STATUS, which is written part by part (status.c).
struct status_text {
    struct buf json;
    struct json_out out; // writes into `json`
    uint32_t at;         // number of the next table
    bool on;             // the text is not complete
    bool done; // the text is complete; the requests that wait for it are answered with it
};

struct shard {
    struct shard_options o;
    struct member *member;
    struct van *van;
    uint64_t now;
    struct refusals refusals, refused_operations;
    bool ready; // whether a roster has told the number of partitions
    uint32_t bits;
    struct shard_peer *peers[PEER_BUCKETS];
    uint32_t n_strangers;                // the number of peers that have not sent HELLO
    struct pending *held, **pending_end; // list of waiting requests, in the order of
                                         // arrival
    uint64_t pending_bytes;
    uint32_t n_pending;
    uint64_t pending_due; // no waiting request has an earlier deadline
    uint64_t idle_look;   // time of the next check for silent tools
    uint32_t n_draining;  // the number of requests that wait for room
    uint64_t drain_look;  // time at which requests that wait for room are tried again
    uint64_t retries;     // number of rounds in which waiting requests were tried
    uint32_t woken;       // a bit for each enum outcome that pending_wake was called with
    struct shard_table *tables[SPEC_MAX_TABLES];
    uint32_t n_tables;                 // all tables have numbers below this one
    uint32_t held_of[SPEC_MAX_TABLES]; // number of waiting pulls and pushes of each table
    uint64_t bytes;                    // bytes of all tables' rows

    struct roles roles;
    struct moves moves;
    struct chain *chain; // NULL: partitions have no replicas
    struct retries *applied;
    struct admin admin;
    struct step_clock steps;
    struct saves saves;
    uint64_t work_due;   // time of the next slice of admin operations and saves
    uint64_t rest_until; // no slice begins before this time
    uint64_t served_at;  // time of the last request
    struct keys_scratch keys;
    struct pool *pool;
    float *strip;
    size_t max_strip;
    float *floats; // scratch memory that grows as needed: see shard_floats
    size_t max_floats;
    struct sync_scratch *sync;

    bool profiling; // whether requests are recorded
    struct profile profile;
    // Times from the receipt of requests to their answers, by kind.
    struct histogram requests[SHARD_KINDS];
    struct status_text status;
};

// Adds the time from the arrival of a request at `since` until now, when it is answered,
// to the histogram of its kind. It reads the clock once.
static inline void shard_answered(struct shard *s, uint16_t type, uint64_t since)
{
    enum shard_kind kind = type == MSG_PUSH   ? SHARD_PUSHES
                           : type == MSG_PULL ? SHARD_PULLS
                                              : SHARD_OTHERS;
    uint64_t now = van_now(s->van);
    histogram_add(&s->requests[kind], now > since ? now - since : 0);
}

// Sends an answer, or keeps it until the replicas have all that it depends on. Its spans
// have `bytes` bytes, whose memory belongs to `release`; without spans, release is NULL.
// An error of van_send is ignored: if the answer gets lost, the sender repeats its request.
static inline void shard_send(struct shard *s, const struct shard_request *q,
                              uint16_t type, const void *msg,
                              const struct van_release *release, uint64_t bytes)
{
    if (__builtin_expect(s->chain != NULL, false) &&
        chain_holds(s, q, type, msg, release, bytes))
        return;
    van_send(s->van, q->peer->link, type, q->id, msg, release);
}

void shard_ok(struct shard *s, const struct shard_request *q, uint64_t value);
void shard_refuse(struct shard *s, const struct shard_request *q, const struct err *e);
// Writes "worker 1 (host:pid)" to `to` and returns it.
const char *shard_peer_name(const struct shard *s, const struct shard_peer *p,
                            char to[ROSTER_NAME_MAX]);
const char *shard_session_name(const struct shard *s, uint64_t session,
                               char to[ROSTER_NAME_MAX]);
enum outcome shard_serve_request(struct shard *s, struct shard_request *q);
// Refuses a request. The error begins with "push of table 'x' by worker 1 (host:pid): ",
// where `what` is "push".
enum outcome shard_refuse_keys(struct shard *s, const struct shard_request *q,
                               const char *what, const struct shard_table *t,
                               struct err *e);

// Writes the next part of the status, if one is being written. Returns when to call it
// again.
uint64_t status_tick(struct shard *s);

// Returns scratch memory for n floats, valid until the next call; NULL if memory is out.
float *shard_floats(struct shard *s, size_t n);

// Functions that serve one type of message each. If the function returns that
// the request must wait, the request has had no effect, because the same
// function is called again later.
#define TO_SERVER(NAME, name)                                                            \
    enum outcome name##_serve(struct shard *s, struct shard_request *q);
#include "wire/messages.def"

// Checks invariants; does nothing in builds without assertions (shard_check.c).

#ifndef NDEBUG
void shard_check(const struct shard *s);
#else
static inline void shard_check(const struct shard *s)
{
    (void)s;
}
#endif

#endif
