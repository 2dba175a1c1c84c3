// A server of a kvstore: what its files share.
//
//   server.c opening and closing; the queue of requests
//   serve.c    pushes and pulls, rounds of synchronous stores
//   admin.c    everything else
//
// Everything except the queue is used by the thread in tug_kvstore_server_run only.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVSTORE_SERVER_H
#define TUG_DOORS_KVSTORE_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "doors/kvstore/value.h"
#include "doors/kvstore/wire.h"

enum { KVS_WANTED_MAX = 64 }; // the most keys for which a worker may wait at a time

// A worker's request, until it is answered.
struct kvs_job {
    struct kvs_job *next;
    bool simple;
    uint32_t rank, sender;
    uint64_t ticket;
    int32_t cmd;
    bool push, pull; // whether a key-value request pushes, and whether it pulls
    uint64_t key;
    const char *bytes; // the request's bytes, in the memory `kept`
    size_t n_bytes;
    void *kept; // the memory that tug_app_keep returned; NULL once it was released
};

// The pushes to a synchronous key in the open round, which ends when every rank has
// pushed. They are added up in the order of ranks; pushes of later ranks wait for
// those of earlier ranks.
struct kvs_round {
    struct kvs_rows sum;
    // `arrived`: ranks that have pushed; `added`: ranks whose pushes are in the sum.
    uint32_t arrived, added;
    struct err beyond; // the error if the sum is out of the dtype's range
    // Pushes by rank, each followed by those of processes that replaced the rank's worker.
    struct kvs_job **of;
};

struct tug_kvstore_server {
    struct tug_kvstore_server_options o;
    struct tug_node *node;
    struct tug_app *app;
    bool schedules; // the process is the scheduler, which serves no requests
    uint32_t workers;

    pthread_mutex_t lock; // guards the members up to `stopped`
    pthread_cond_t more;
    struct kvs_job *first, *last;

    bool stopped;     // this member and the following ones are used by the serving thread
    bool interrupted; // the program has interrupted a run
    uint64_t ask_at;  // time at which to ask again whether the program interrupts
    bool greeted, async;
    bool *known; // for each rank: whether the worker has sent KVS_HELLO
    struct kvs_values values;
    struct kvs_rule rule;
    // Numbers of keys, and of pushes that were applied. Another thread reads these, and
    // the optimizer's name, for the status.
    _Atomic uint64_t n_keys, merged;
    const char *_Atomic optimizer_name; // NULL: none was set
    // For each rank: the request that waits at the barrier; NULL: none.
    struct kvs_job **barrier;
    struct kvs_job *wanted;  // requests that wait for a key to be made
    struct kvs_rows decoded; // the values of a compressed push
};

// Opens the customer of a server whose `node` and `workers` are set, and allocates its
// records of workers.
int kvs_server_attach(struct tug_kvstore_server *s);
// Closes the customer and drops all waiting requests; no message arrives any more.
void kvs_server_detach(struct tug_kvstore_server *s);
// Frees the server's memory, after its node was closed.
void kvs_server_free_memory(struct tug_kvstore_server *s);
// Serves the first queued job; returns false if none arrived within `seconds`.
bool kvs_serve_next(struct tug_kvstore_server *s, double seconds);

// Answers and frees a job.
void kvs_job_answer(struct tug_kvstore_server *s, struct kvs_job *j, const void *bytes,
                    size_t n);
// Answers with the contents of a block, and frees the job. Releases the block after it was
// sent.
void kvs_job_answer_block(struct tug_kvstore_server *s, struct kvs_job *j, void *block,
                          size_t n);
void kvs_job_refuse(struct tug_kvstore_server *s, struct kvs_job *j, const struct err *e);
void kvs_job_release(struct kvs_job *j); // releases the request's bytes
void kvs_job_free(struct kvs_job *j);

void kvs_serve_data(struct tug_kvstore_server *s, struct kvs_job *j);
void kvs_round_free(struct tug_kvstore_server *s, struct kvs_value *v);
void kvs_serve_admin(struct tug_kvstore_server *s, struct kvs_job *j);
// Answers the requests that wait for a key, after the key was made.
void kvs_serve_wanted(struct tug_kvstore_server *s, const struct kvs_value *made);

#endif
