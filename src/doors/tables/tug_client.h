// Declarations that the files of the public client (tug/tug.h) share: the client, which a
// pump lends to one thread at a time, and the calls of the program.
//
//   tug_client.c opening and closing, tables
//   tug_collect.c barriers and collective calls
//   tug_calls.c    pushes, pulls, waiting
//   tug_tables.c tables by settings: lifecycle, saves and loads
//   tug_own.c      a program's own accessors, rules and entry policies
//   tug_profile.c profiles, by questions from outside (runtime/tool.h)
//
// tug_communicator.c, tug_dense.c, tug_auc.c, tug_metric.c and tug_dump.c use the public
// calls only.
//
// Only the thread that has the van may use these structs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_TABLES_TUG_CLIENT_H
#define TUG_DOORS_TABLES_TUG_CLIENT_H

#include <stdatomic.h>

#include "client/client.h"
#include "client/merge.h"
#include "cluster/node.h"
#include "runtime/last_error.h"
#include "runtime/pump.h"
#include "runtime/role.h"
#include "server/embedded.h"
#include "tug/tug.h"

// A request of the program. It exists from tug_push or tug_pull until tug_wait has
// returned its result, or its callback `done` has returned.
struct call {
    struct pump_work work;
    struct call *next; // next call in the bucket, or in the list of unused calls
    struct tug_client *client;
    client_ts ts;
    bool ended;
    int rc;
    struct err why;
    tug_done_fn done;
    void *ctx;

    // Used if keys repeat: the distinct keys, with the sums of their values or with their
    // pulled rows.
    struct client_merge *merge;
    bool merged;
    float *rows;
    size_t cap_rows;
    float *pulled; // the pulled rows of the distinct keys
    float *target; // the program's array for pulled rows
    uint32_t width, push_width;
};

// The values that a program has set for its later requests to a table (tug_tick,
// tug_batch, tug_rate_factor).
struct call_terms {
    uint64_t clock; // the clock or batch of pulls, in modes ssp and sync
    // In mode sync: the first micro-batch of pushes, and the number of micro-batches.
    uint8_t micro, micros;
    float rate; // factor of the learning rates of pushes
};

struct tug_client {
    struct tug_client_options o;
    struct role environment;
    // The client's own cluster, within this process; NULL: the client has joined a cluster
    // of other processes.
    struct embedded *embedded;
    struct node node;
    struct van *van;
    struct pump *pump;
    struct client *client;
    struct van_handler beneath; // the client's handlers of the van's events
    uint32_t workers, servers;
    // A hash table of the open calls by timestamp, so that finding one takes the same
    // time however many are open.
    struct call **buckets; // `n_buckets` lists; their number is a power of two
    size_t n_buckets, n_calls;
    size_t unfinished; // calls that are in flight or whose `done` has not returned
    struct call *unused;
    uint64_t saves;     // number of saves that this client has begun
    uint32_t trainings; // number of tug_model_train calls that have used this client
    bool again;         // tug_again: pushes are of examples that were pushed before
    // The number of pushes of which a server has left out an update, and the key and table
    // of the first such update. The key and table are written before the number.
    atomic_uint_least64_t left_out, left_out_key;
    atomic_uint left_out_table;
    struct call_terms terms[SPEC_MAX_TABLES];
};

// Returns whether all calls have ended and all callbacks have returned.
bool calls_over(const struct tug_client *c);
void calls_free(struct tug_client *c);
// Does what tug_assign does.
int calls_assign(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
                 const float *values, tug_done_fn done, void *ctx,
                 uint64_t *ret_timestamp);
// Returns TUG_EUSAGE in a callback, which must not wait. Functions that wait call this
// function before they send anything.
int calls_may_wait(const struct tug_client *c);
// Checks what calls_may_wait checks, and takes the van.
int calls_enter(struct tug_client *c);
// Waits for a call whose arrays the caller is going to free. A call that takes too long
// is cancelled, so that nothing is written to the arrays later.
int calls_wait_or_cancel(struct tug_client *c, uint64_t ts);
// Waits for a request of the client that was sent while the van was lent to this thread,
// and gives the van back. Cancels the request if it takes too long. Returns its code.
int calls_wait_for(struct tug_client *c, client_ts ts, double seconds);
// Does what tug_barrier does, for a group of nodes (a sum of enum wire_group).
int calls_barrier(struct tug_client *c, uint8_t group);
// A collective call of all workers (cluster/member.h), for any number of bytes.
struct calls_collect {
    const char *call; // name, such as "all_gather"; the workers also compare n
    // This worker's index, and the number of workers. All workers must take part; if
    // `alive` is true, only the living ones.
    uint32_t index, workers;
    bool alive;
};
// Gathers n bytes of each worker into `ret`, in the order of their indexes. All workers
// must take part.
int calls_gather(struct tug_client *c, const struct calls_collect *k, const void *bytes,
                 size_t n, void *ret);
// Reduces n values of 8 bytes each into `ret`, which may not be `values`.
int calls_reduce(struct tug_client *c, const struct calls_collect *k,
                 enum wire_collect op, enum wire_number type, const void *values,
                 size_t n, void *ret);
// Returns the settings of a table that this client has made or found.
int calls_spec(struct tug_client *c, uint32_t table, struct table_spec *ret);

// Returns TUG_EUSAGE unless a push to the table still has `width` floats per key. The table
// may have been dropped and made again with another width than that of the caller's array.
int calls_check_push(struct tug_client *c, uint32_t table, uint32_t width);

#endif
