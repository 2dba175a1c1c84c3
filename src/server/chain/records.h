// The content of the records that a shard sends to the next members of its chains.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CHAIN_RECORDS_H
#define TUG_SERVER_CHAIN_RECORDS_H

#include "server/admin.h"
#include "server/chain/channel.h"
#include "server/moves/record.h"

struct msg_push;
struct retries;
struct retries_push;
struct shard;
struct shard_request;
struct shard_table;
struct store_push;

// The session and the identity of a push, by which a repeat is found if another member
// serves the partition later.
struct record_notes {
    uint64_t session, number, pass, piece, table, group, low;
};

// Bytes of the common content of a push.
#define RECORDS_PUSH_COMMON (sizeof(struct record_notes) + PARTITION_PUSH_HEAD)

struct record_notes records_notes(const struct shard_table *t, const struct msg_push *m);
// Checks the notes, and begins to record the push as applied.
int records_begin_note(struct shard *s, struct retries *r, enum wire_space space,
                       const struct record_notes *x, struct retries_push *ret,
                       struct err *e);

// Writes the common content of the record of push m, which was applied.
void records_write_push(const struct shard_table *t, const struct msg_push *m,
                        const struct store_push *p, char *to);
// Appends the common content of the record of a table that was made. Returns 0 or
// TUG_ENOMEM.
int records_add_table(const struct shard_table *t, struct buf *to);
// Returns whether the record's place i is to be applied: a record may also have places that
// were applied before, or do not concern this shard.
bool records_applies(const struct shard *s, const struct channel_record *r, uint32_t i);
// Checks a record, and applies its places for which records_applies is true. If it fails,
// *ret_n of these places were applied, the first ones.
int records_apply(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                  struct err *e);

// Returns whether a record is applied to its other places later, without an error, because
// it reads rows on disk and has taken too long since `begun` (moves_slice_begin).
bool records_pause(const struct shard *s, const struct shard_table *t, uint64_t begun);

// Defined in operations.c:

// Does what chain_find_left does, for an operation of any kind with this number.
int records_find_left(struct shard *s, const struct shard_request *q, uint64_t table,
                      uint64_t number, uint64_t low, enum admin_state *state,
                      uint64_t *ret_value, struct err *e);
// Appends the record that a table's number was dropped so often. Returns 0 or TUG_ENOMEM.
int records_add_drop(struct shard *s, struct outlet *o, uint64_t table, uint64_t drops);
// Drops an older table with this number. Does nothing if this shard has partitions of its
// space. Returns TUG_EIO, without an error, if the table is busy.
int records_drop(struct shard *s, uint64_t table, uint64_t drops, struct err *e);
bool records_is_drop(const struct channel_record *r);

// Defined in clock_records.c and batches.c: apply records of their kinds, with *ret_n 0 at
// first.
int records_apply_clock(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                        struct err *e);
int records_apply_part(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                       struct err *e);
int records_apply_batch(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                        struct err *e);

#endif
