// Admin operations that take time: a slice at a time between requests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_BACKGROUND_H
#define TUG_SERVER_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

struct shard;
struct shard_table;

// Whether an admin operation can begin.
bool background_free(const struct shard_table *t);
// A cut has ended: notes the published rows, partition by partition.
void background_publish(struct shard *s, struct shard_table *t);
void background_wake(struct shard *s); // there is something to do
// Rows may be to be demoted: a push has come, or a day has ended.
void background_demote(struct shard *s, struct shard_table *t);
// Batches of the table that have waited are tried again, soon.
void background_again(struct shard *s, uint32_t table);
uint64_t background_tick(struct shard *s); // returns when to look again

#endif
