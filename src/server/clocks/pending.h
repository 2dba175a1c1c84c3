// Requests that wait until they can be answered.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CLOCKS_PENDING_H
#define TUG_SERVER_CLOCKS_PENDING_H

#include "server/request.h"

struct shard;
struct shard_table;

struct pending {
    struct pending *next;
    struct shard_peer *peer;
    uint64_t id;
    uint16_t type;
    enum outcome wants;
    union wire_any m;
    void *kept;
    uint64_t bytes, deadline, since;
    // The batch of this push was dropped, so pending_settle will refuse the push.
    bool dropped;
    uint64_t room; // as in struct shard_request
    char texts[];
};

// Keeps a request that waits. Returns 0, or the error if it cannot be kept.
int pending_add(struct shard *s, struct shard_request *q, enum outcome wants,
                struct err *e);
// Takes memory from the budget; returns false if the budget has no room. `early`: the
// memory is for a request that waits for a batch, or for a part of a batch after the next
// one. Such memory may take only half of the budget, so that the missing parts of the
// next batch find room.
bool pending_room(struct shard *s, uint64_t bytes, bool early);
// pending_wake marks the requests that wait for `wants`, because they may be ready;
// pending_settle tries the marked requests again after the current message.
void pending_wake(struct shard *s, enum outcome wants);
// Called when a batch of this table was applied: wakes the requests that wait for
// batches. Their time limits begin anew.
void pending_batch_applied(struct shard *s, const struct shard_table *t);
// Marks all pushes of gradients that wait for batches of a sync table; pending_settle
// later refuses them. They are not refused at once, because the caller may be iterating
// over the list of waiting requests.
void pending_drop_pushes(struct shard *s, const struct shard_table *t);
void pending_settle(struct shard *s);
void pending_drop_peer(struct shard *s, const struct shard_peer *p);
uint64_t pending_expire(struct shard *s); // returns when to call it again
// Returns what an earlier push of the same link to the same table waits for; q must then
// also wait for it. Returns GOES_ON if no earlier push waits.
enum outcome pending_before(const struct shard *s, const struct shard_request *q,
                            uint32_t table);
bool pending_wants(const struct shard *s,
                   enum outcome wants); // returns whether some request waits for `wants`
// Returns whether a waiting admin operation must be done before the table's next batch.
bool pending_order(const struct shard *s, const struct shard_table *t, uint64_t clock);

#endif
