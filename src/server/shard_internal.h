// What the files of a shard share. shard.h says what a shard is; a file each says how:
//
//   shard.c          its life, links, dispatch
//   place.c          whose partitions a request asks for
//   pending.c        requests that wait
//   room.c           when there is room for an answer
//   tables.c         TABLE, TABLE_DO, TABLE_WANTED
//   push.c           gradients and values into rows
//   pull.c           rows into answers
//   sync.c           batches of sync tables
//   sync_sum.c       what their contributions add up to, pushed to a store
//   background.c     admin operations that take time: a slice at a time between requests
//   save.c           saves: rows as they are at one moment, written while training goes on
//   save_requests.c  what is asked of them
//   loads.c          rows from saves
//   rows.c           walks over the rows of a partition
//   move.c           a partition goes to another shard
//   told.c           admin operations, for the scheduler's log
//   status.c         for people
//   profiling.c      what is noted of each request, when wanted
//   shard_check.c    what must hold between two events, for builds with assertions
//
// Files without this header know nothing of what is in a shard, and are tested apart.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SHARD_INTERNAL_H
#define TUG_SERVER_SHARD_INTERNAL_H

#include <assert.h>

#include "cluster/refusals.h"
#include "protocol/spec.h"
#include "server/admin.h"
#include "server/pool.h"
#include "server/profile.h"
#include "server/request.h"
#include "server/retries.h"
#include "server/save.h"
#include "server/shard.h"
#include "server/step_clock.h"

enum {
    BATCH = 1024,        // keys that are looked up together
    STRIP_FLOATS = 8192, // that are converted together, unless a row is longer
    PEER_BUCKETS = 1024,
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

// The functions that serve each message to a server's loop. A message that has to wait
// must not have had an effect yet: the same function is called again.
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

#endif
