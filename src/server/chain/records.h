// The content of the records that a shard sends to the next members of its chains.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CHAIN_RECORDS_H
#define TUG_SERVER_CHAIN_RECORDS_H

#include "server/chain/channel.h"
#include "server/moves/record.h"

struct msg_push;
struct shard;
struct shard_table;
struct store_push;

// Returns the bytes of the record of a push of n keys with `width` values each.
size_t records_push_bytes(size_t n, size_t width);
// These functions append the content of a record: of keys [first, first + n) of push m,
// which were applied; or of a table that was made. They return 0 or TUG_ENOMEM.
int records_add_push(const struct shard_table *t, const struct msg_push *m,
                     const struct store_push *p, size_t first, size_t n, struct buf *to);
int records_add_table(const struct shard_table *t, struct buf *to);
// Applies a record, which is checked first. After an error nothing has changed.
int records_apply(struct shard *s, const struct channel_record *r, struct err *e);

#endif
