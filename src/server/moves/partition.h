// The state of one partition of a space, as a stream of records. First come the settings
// of the space's tables with their rows (store/parcel.h) or slices of their rows
// (partition_copy.h), then the pushes that were applied later, in order, and last the
// facts: applied pushes of sessions and pieces, ticks, steps, and parts of batches. Another
// shard that applied them serves the partition as this one did.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_MOVES_PARTITION_H
#define TUG_SERVER_MOVES_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"
#include "wire/wire.h"

struct buf;
struct keys;
struct shard;
struct shard_table;

// Returns whether no admin operation and no save is under way in a table of this space.
// Only then may rows be copied, put or dropped.
bool partition_is_free(const struct shard *s, enum wire_space space);
// Returns whether none that concerns the partition is under way. Then it may be put or
// dropped. A loop that is filled must not wait for the end of a save, because the answers
// to the save may wait for the loop.
bool partition_is_apart(const struct shard *s, enum wire_space space, uint32_t partition);

// These functions append a record of a partition whose rows this shard has: of its
// rows; of keys [first, first + n) of a push, all of them in this partition; or of its
// facts. The length of *to must be a multiple of 8 and stays one. They return 0, or
// with *to unchanged TUG_ENOMEM, TUG_EIO (rows on disk could not be read) or TUG_EDATA
// (*to would exceed its maximum).
int partition_get_rows(struct shard *s, enum wire_space space, uint32_t partition,
                       struct buf *to, struct err *e);
int partition_get_push(const struct shard *s, const struct shard_table *t,
                       uint32_t partition, const struct store_push *p, size_t first,
                       size_t n, struct buf *to, struct err *e);
int partition_get_facts(struct shard *s, enum wire_space space, uint32_t partition,
                        struct buf *to, struct err *e);

// A push that another shard has applied consists of a head, keys and values.
// partition_add_push appends all of them (0 or TUG_ENOMEM), and partition_put_push checks
// and applies them. After an error nothing has changed.
int partition_add_push(const struct shard_table *t, const struct store_push *p,
                       size_t first, size_t n, struct buf *to);
int partition_put_push(struct shard *s, enum wire_space space, uint32_t partition,
                       const void *bytes, size_t n, struct err *e);

// The same in parts, for records of chains (server/chain), which have the keys and values
// of several partitions.
enum { PARTITION_PUSH_HEAD = 56 }; // bytes of a head
// Writes the head; n is the number in it.
void partition_write_head(const struct shard_table *t, const struct store_push *p,
                          uint64_t n, char *to);
struct partition_push {
    struct shard_table *t;
    uint32_t width;      // the number of values of each key
    uint64_t n, step;    // as in the head
    struct store_push p; // without keys and values
};
// partition_read_head checks a head. partition_put_keys checks keys and values, and applies
// them; *ret_keys is the number of applied keys, which are those of whole runs, even if it
// fails.
int partition_read_head(const struct shard *s, enum wire_space space, const void *bytes,
                        struct partition_push *ret, struct err *e);
int partition_put_keys(struct shard *s, struct partition_push *x, const struct keys *k,
                       const float *values, size_t *ret_keys, struct err *e);

// Returns the number of values of each key of a push.
uint32_t partition_push_width(const struct shard_table *t, const struct store_push *p);

// Checks that n more bytes of rows are within the shard's limit (--memory).
// Returns 0 or TUG_ENOMEM.
int partition_fits(const struct shard *s, uint64_t n, struct err *e);

// Makes room in a table's index for a partition of so many rows that arrives, and for
// those that will probably arrive after it.
void partition_reserve(const struct shard *s, const struct shard_table *t,
                       uint32_t partition, uint64_t rows);

// Applies the complete records at the start of n bytes, after checking them. `bytes` must
// be aligned to 8. *ret_used is the number of bytes of the applied records, which must
// not be applied again. *ret_settled is set after the facts; only then does this shard
// have the whole partition. Makes missing tables. If this shard had no partition of the
// space, it removes at the end the tables that the other shard does not have. After an
// error the caller must call partition_drop; tables that were made, and facts that are
// true anyway, such as marks of sessions, may stay.
int partition_put(struct shard *s, enum wire_space space, uint32_t partition,
                  const void *bytes, size_t n, size_t *ret_used, bool *ret_settled,
                  struct err *e);

// Does what partition_put does, for the first record only; *ret_used is 0 if the record
// is not complete. partition_has_record returns whether the first record is complete.
int partition_put_one(struct shard *s, enum wire_space space, uint32_t partition,
                      const void *bytes, size_t n, size_t *ret_used, bool *ret_settled,
                      struct err *e);
bool partition_has_record(const void *bytes, size_t n);

// Removes rows of a partition for at most MOVES_NS, unless a save still reads them.
// Returns when to call it again; VAN_NEVER if nothing is left.
uint64_t partition_drop_slice(struct shard *s, enum wire_space space, uint32_t partition);

// Removes all that this shard has of a partition, whether it is complete or not.
int partition_drop(struct shard *s, enum wire_space space, uint32_t partition,
                   struct err *e);

#endif
