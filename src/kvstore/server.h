// A server of a kvstore: what its files share.
//
//   server.c   its life; requests queued for the thread that runs it
//   serve.c    pushes and pulls, rounds of synchronous stores
//   admin.c    everything else
//
// All but the queue belongs to the thread in tug_kvstore_server_run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVSTORE_SERVER_H
#define TUG_KVSTORE_SERVER_H

#include <pthread.h>

#include "kvstore/value.h"
#include "kvstore/wire.h"

enum { KVS_WANTED_MAX = 64 }; // keys that a worker waits for at a time

// A worker's request, until it is answered.
struct kvs_job {
    struct kvs_job *next;
    bool simple;
    uint32_t rank, sender;
    uint64_t ticket;
    int32_t cmd;
    bool push, pull; // its flags
    uint64_t key;
    const char *bytes; // of `kept`
    size_t n_bytes;
    void *kept; // NULL: its bytes are needed no more
};

// A synchronous key's pushes until there is one of every rank. They are added up in the
// order of ranks; those of later ranks wait for the earlier ones.
struct kvs_round {
    struct kvs_rows sum;
    uint32_t arrived, added; // ranks; the first `added` are in the sum
    struct err beyond;       // the sum is beyond its dtype
    struct kvs_job **of;     // by rank; behind the first those of who came in its place
};

struct tug_kvstore_server {
    struct tug_kvstore_server_options o;
    struct tug_node *node;
    struct tug_app *app;
    bool schedules; // the role: there is nothing to serve
    uint32_t workers;

    pthread_mutex_t lock; // of what follows
    pthread_cond_t more;
    struct kvs_job *first, *last;

    bool stopped; // from here on the serving thread's
    bool greeted, async;
    bool *known; // ranks that have said hello
    struct kvs_values values;
    struct kvs_rule rule;
    struct kvs_job **barrier; // by rank
    struct kvs_job *wanted;   // who waits for a key to be made
    struct kvs_rows decoded;  // of a push that was coded
};

// For a server whose `node` and `workers` are known: opens its customer, and its records
// of workers.
int kvs_server_attach(struct tug_kvstore_server *s);
// No message comes any more, and no request waits.
void kvs_server_detach(struct tug_kvstore_server *s);
void kvs_server_free_memory(struct tug_kvstore_server *s); // when the node is gone
// Does the first queued job; returns false if none has come for so long.
bool kvs_serve_next(struct tug_kvstore_server *s, double seconds);

// Answers and frees.
void kvs_job_answer(struct tug_kvstore_server *s, struct kvs_job *j, const void *bytes,
                    size_t n);
// Answers with a block, which is released when it was sent.
void kvs_job_answer_block(struct tug_kvstore_server *s, struct kvs_job *j, void *block,
                          size_t n);
void kvs_job_refuse(struct tug_kvstore_server *s, struct kvs_job *j, const struct err *e);
void kvs_job_release(struct kvs_job *j); // its bytes
void kvs_job_free(struct kvs_job *j);

void kvs_serve_data(struct tug_kvstore_server *s, struct kvs_job *j);
void kvs_round_free(struct tug_kvstore_server *s, struct kvs_value *v);
void kvs_serve_admin(struct tug_kvstore_server *s, struct kvs_job *j);
// A key was made: answers the requests that wait for it.
void kvs_serve_wanted(struct tug_kvstore_server *s, const struct kvs_value *made);

#endif
