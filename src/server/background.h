// Admin operations that take time: they are done in slices between requests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_BACKGROUND_H
#define TUG_SERVER_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

struct shard;
struct shard_table;

// Returns whether an admin operation can begin: the table has no other operation and no
// cut (a copy for a save) in progress.
bool background_free(const struct shard_table *t);
// Begins to record, partition by partition, which rows are published. Called when the
// cut of a save has ended.
void background_publish(struct shard *s, struct shard_table *t);
void background_wake(struct shard *s); // tells background_tick that there is work
// Makes background_tick look for rows to demote to disk; called after a push and at the
// end of a day.
void background_demote(struct shard *s, struct shard_table *t);
// Makes background_tick try again to apply the batches of a table that
// could not be applied.
void background_again(struct shard *s, uint32_t table);
// Does the work that is due. Returns the time of the next call.
uint64_t background_tick(struct shard *s);

#endif
