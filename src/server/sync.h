// Batches of sync tables: keeps contributions until all are in.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SYNC_H
#define TUG_SERVER_SYNC_H

#include "server/push.h"
#include "server/request.h"

struct shard;
struct shard_table;

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

#endif
