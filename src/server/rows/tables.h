// The tables of a shard, and operations on a whole table.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROWS_TABLES_H
#define TUG_SERVER_ROWS_TABLES_H

#include "base/buf.h"
#include "protocol/spec.h"
#include "server/clocks/ssp_clock.h"
#include "server/clocks/sync_group.h"
#include "store/store.h"

struct retries;
struct shard;

// An admin operation that is under way in a store.
struct turn {
    bool on;
    uint64_t session, number; // the session and number of the operation; 0 if no client
                              // waits for it
    // clear: the number of rows that the store had removed before the operation began.
    uint64_t before;
    uint64_t rows; // clear: the number of rows that the operation removes
};

struct shard_table {
    struct table_spec spec;
    struct buf config; // the settings as spec_encode writes them
    struct store *store;
    struct turn turn; // the admin operation that is under way
    bool work;        // whether store_work has more to do
    // Why the next batch could not be applied; code 0: it was not tried, or was applied.
    struct err stuck;
    bool full;          // memory has no room for the rows of the next batch or for
                        // one of its parts, so that a retry alone does not help
    uint32_t n_applied; // the common group's next batch was applied in its partitions
                        // below this one
    // Whether background_tick must try again to apply the waiting batches.
    bool again;
    uint64_t version;     // the number of applied pushes and admin operations
    uint64_t *changed_at; // for each partition: the version at which it last changed
    uint64_t bytes;       // bytes of rows and index, when last measured
    // The version and the time at which t->bytes was measured.
    uint64_t measured, measured_at;
    struct ssp_clock ssp; // used in mode WIRE_SSP
    // Used in mode WIRE_SYNC: the common group of partitions, and groups of single
    // partitions. groups[p] is the group of partition p alone; NULL: p is in the common
    // group.
    struct sync_group sync, **groups;
    bool sync_empty;         // no partition belongs to the common group
    bool sync_moved;         // some partition has moved to this shard or away
    bool sync_split;         // memory was out for a group: see sync_own
    bool fixed_keys;         // pushes have the flag WIRE_KEYS_ONLY
    struct retries *applied; // used in mode WIRE_SYNC: records of the table's gradients,
                             // which have numbers of their own
    struct msg_table_is figures; // the figures that are counted as they change
    // The number of drops of the table's number before this table was made (chain.drops).
    uint64_t drops;
    // Only the primary of a partition has the table's rows (server/chain/unbacked.c).
    bool unbacked;
};

static inline struct sync_group *sync_group_of(const struct shard_table *t,
                                               uint32_t partition)
{
    struct sync_group *g = t->groups != NULL ? t->groups[partition] : NULL;
    return g != NULL ? g : (struct sync_group *)&t->sync;
}
// Returns whether the partition is here and in the common group.
static inline bool sync_is_common(const struct shard_table *t, uint32_t partition)
{
    return sync_group_of(t, partition) == &t->sync && store_owns(t->store, partition);
}
// Returns the first group of the table's list; the member `next` of each
// group leads to the next.
static inline struct sync_group *sync_first(const struct shard_table *t)
{
    return t->sync_empty ? t->sync.next : (struct sync_group *)&t->sync;
}

// Says in all tables of the space whether this shard leads a partition that has replicas.
void tables_lead(const struct shard *s, enum wire_space space, uint32_t partition,
                 bool leads);
// Called when the roster has changed, because this shard may own new partitions.
void tables_own(struct shard *s);
// Returns whether these n bytes are what spec_encode writes for the table. If so, the
// caller need not parse them, which would take longer than most requests.
bool tables_has_config(const struct shard_table *t, const char *config, size_t n);
int tables_obey(struct shard *s, const struct msg_table_do *m, struct err *e);
// An admin operation drops the open batches of the partitions that it concerns. *next becomes the
// number of their next batch; if next is NULL, the number stays.
void tables_restart(struct shard *s, struct shard_table *t, const uint64_t *next);
// Makes a table, or finds it with the same settings.
int tables_make(struct shard *s, const struct msg_table *m, struct err *e);
// Returns TUG_EUSAGE if a table with the wanted number has other settings.
int tables_differ(const struct table_spec *is, const struct table_spec *wanted,
                  struct err *e);
// Checks that a table, whose number is free, can be made now. Changes nothing.
int tables_try(struct shard *s, const struct table_spec *spec, struct err *e);
// Makes a table, whose number is free, also at the backups. On failure nothing has changed.
int tables_make_new(struct shard *s, const struct table_spec *spec,
                    struct shard_table **ret, struct err *e);
// Returns the table with this number, or NULL with an error.
struct shard_table *tables_find(const struct shard *s, uint32_t id, struct err *e);
void tables_close(struct shard *s);
// Makes a table, whose number is free, on this shard only. On failure nothing has changed.
int tables_add(struct shard *s, const struct table_spec *spec, struct shard_table **ret,
               struct err *e);
// Opens a new store of the table. It has rows only if they are durable on disk.
int tables_open_store(const struct shard *s, const struct shard_table *t,
                      struct store **ret, struct err *e);
// Removes a table. No save and no admin operation may be under way in it.
void tables_remove(struct shard *s, struct shard_table *t);
// Called when the roster shows that workers have come or gone.
void tables_living(struct shard *s);
void tables_measure(struct shard *s, struct shard_table *t); // updates t->bytes
// Limits the bytes of this table's rows to what the other tables leave of max_bytes.
void tables_limit(struct shard *s, struct shard_table *t);
struct msg_table_is tables_count(const struct shard *s, const struct shard_table *t);
// Returns the figures of tables_count, except that `bytes` is the value that was last
// measured, and `changed` and `day` are missing.
struct msg_table_is tables_count_cheaply(const struct shard *s,
                                         const struct shard_table *t);
// Records that all partitions of the table have changed.
void tables_touch_all(struct shard *s, struct shard_table *t);

void tables_set_step(struct shard *s); // tells the stores the global step

#endif
