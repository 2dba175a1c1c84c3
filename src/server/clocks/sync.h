// Batches of sync tables: keeps contributions until a batch is complete.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CLOCKS_SYNC_H
#define TUG_SERVER_CLOCKS_SYNC_H

#include "server/request.h"
#include "server/rows/push.h"

struct shard;
struct shard_table;
struct sync_group;

// A push that waits for its batch to be complete.
struct contribution {
    uint32_t n, n_runs, longest;
    uint64_t *keys;
    struct key_run *runs; // n_runs + 1 runs; the last one marks the end
    const float *values;  // the values in the message body, or converted from bf16
    float *converted;
    void *kept;       // the message body
    uint64_t counted; // bytes that the contribution takes from the budget
    uint64_t examples;
    float rate, pass;
    bool again;    // the flag WIRE_AGAIN
    uint32_t refs; // the number of groups of partitions that use the contribution
};

// Drops a reference; the last one frees the contribution.
void contribution_drop(struct shard *s, struct contribution *c);
// Returns the index of the partition's run; n_runs if the contribution has no keys there.
uint32_t contribution_run(const struct contribution *c, uint32_t partition);
// Makes a contribution to one partition, with one reference: copies the like->n keys with
// their values, and the other members of `like` that come from the push.
int contribution_make(struct shard *s, const struct contribution *like,
                      uint32_t partition, size_t width, struct contribution **ret,
                      struct err *e);

// Applies the batches that are complete, unless a save must come first.
void sync_apply(struct shard *s, struct shard_table *t);
// Returns whether the next batch cannot be applied even by a retry: its sum would make a
// row infinite, or --memory has no room for its rows or for one of its parts.
bool sync_in_vain(const struct shard_table *t);
// Drops the parts of the group's next batch, which was applied.
void sync_end_batch(struct shard *s, struct sync_group *g);
enum outcome sync_push(struct shard *s, struct shard_request *q, struct shard_table *t,
                       const struct keys *k, const struct push_values *v);
void sync_close(struct shard *s, struct shard_table *t);
// Drops all data that belongs to rows that were removed: the open batches, the pushes
// that wait for them, and the copies of rows. Leaves out partitions of which this shard is
// a backup. sync_drop_group drops the batches and copies of one group.
void sync_drop_group(struct shard *s, struct sync_group *g);
void sync_restart(struct shard *s, struct shard_table *t);
// Does the same for the groups of these partitions that this shard leads. *next becomes
// the number of their next batch; if next is NULL, the number stays. After a failover an
// operation that removes rows may be done here for promoted partitions only. If such a
// partition has joined the common group, the open batches of the whole group are dropped.
// These drops are allowed: workers have sent all parts of these batches before the operation
// was answered, and the operation may drop such parts without replicas, too.
void sync_restart_in(struct shard *s, struct shard_table *t, const uint32_t *partitions,
                     uint32_t n, const uint64_t *next);

#endif
