// A store is one owner's part of a table (the owner is a loop of a server, or a process
// alone): the rows of its partitions with their extra rows, entry policies, budgets, a
// cold tier, and records of the changes since the last delta.
//
// All operations are done by partition. The value of a row depends only on the pushes and
// admin operations of its partition, so one store with all partitions and three stores
// with a third each have the same bits.
//
// Admin operations for the whole table (shrink, clear, published) walk over the
// partitions, a few at a time between requests, so that no request waits for more than
// one partition. A push or pull first does the operation on the partitions that it needs,
// if it is not done there yet: that is the partition's turn.
//
// Cuts (store/cut.h) copy rows before their first change. Admin operations
// and cuts exclude each other: each fails while the other is under way, and
// the caller tries again.
//
// Threads: only one thread at a time may use a store.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_STORE_H
#define TUG_STORE_STORE_H

#include "accessor/accessor.h"
#include "accessor/entry.h"
#include "os/clock.h"
#include "store/config.h"
#include "table/table.h"

struct store_options {
    const struct table_config *config; // copied by store_open
    uint32_t id; // id of the table, from which its random numbers are derived
    uint32_t partition_bits;
    // Limit of rows, sketches and index; a push beyond it fails; 0: none.
    uint64_t max_bytes;
    // The directory of this store's cold rows. NULL: the store has no cold tier, even if
    // the config asks for one.
    const char *cold_dir;
};

struct store;
int store_open(struct store **ret, const struct store_options *o, struct err *e);
void store_close(struct store *s); // NULL is fine

const struct accessor *store_accessor(const struct store *s);
const struct table_config *store_config(const struct store *s);
uint32_t store_id(const struct store *s); // returns the id of the table
uint32_t store_partition_bits(const struct store *s);
// Returns a key's partition.
uint32_t store_partition(const struct store *s, uint64_t key);
// Returns whether n keys are all in the partition.
bool store_all_in(const struct store *s, uint32_t partition, const uint64_t *keys,
                  size_t n);

enum store_op {
    STORE_GRADIENT, // n x push_width values, to which the rules are applied
    // N x (weights of both groups) values, which replace weights. Makes missing rows,
    // whatever the entry policy says. Makes a missing extra row unless all its values are
    // 0.
    STORE_ASSIGN,
    STORE_ROW,   // n x width values, which replace whole rows. Only for rows without a
                 // lifecycle
    STORE_DELTA, // n x width values, which are added to whole rows. The sender has
                 // applied the update rules. Only for rows without a lifecycle
};

// A push. Keys are distinct and sorted by partition; values are finite. In each
// partition, all keys or none are applied. On failure the first *ret_keys keys are
// applied (ret_keys may be NULL), and the rows of the other keys are unchanged, but entry
// policies may have counted these keys.
struct store_push {
    enum store_op op;
    const uint64_t *keys;
    size_t n;
    const float *values;
    float rate;  // factor of the rules' rates, in addition to the table's schedule
    float pass;  // number of the pass, from 1: see rule_params.prior
    float scale; // factor of the gradients
    bool again;  // the examples were seen in an earlier pass: they do not count again for
                 // shows, clicks, changes of score and the entry policy (unless
                 // config.count_all)
    // If not NULL, store_push sets for each applied key whether it has a row now. With
    // `follows`, these are the decisions of another store, which replace those of this
    // store's entry policy: a push that is refused counts for a policy, too, and counts may
    // get lost when memory is out.
    uint8_t *has_row;
    bool follows;
};
// Returns whether a push may leave keys without a row.
bool store_admits(const struct store *s, enum store_op op);
int store_push(struct store *s, const struct store_push *p, size_t *ret_keys,
               struct err *e);
// Returns whether whole rows can be set, pulled and walked over: whether
// rows have no lifecycle.
bool store_has_whole_rows(const struct store *s);

// Pulls n x pull_width values, for keys that are sorted as in store_push: the values of
// the row, or the initial values that a new row would get. A pull makes no row. `found`
// (may be NULL) is set to 1 for keys with a row.
int store_pull(struct store *s, const uint64_t *keys, size_t n, float *values,
               uint8_t *found, struct err *e);
// Pulls whole rows, n x width values, as store_pull does.
int store_pull_rows(struct store *s, const uint64_t *keys, size_t n, float *rows,
                    uint8_t *found, struct err *e);

// Returns true, and a partition in *ret_p, if rows of the partition beyond the budget could not
// be removed for lack of memory since the last such call. A later push removes rows, but these
// may be other ones.
bool store_take_overdue(struct store *s, uint32_t *ret_p);

// store_owns returns whether the store owns the partition, and store_set_owned sets it. A
// new store owns all partitions. store_move sets the owner in both stores.
bool store_owns(const struct store *s, uint32_t partition);
// Returns the number of rows of a partition, in memory and on disk.
uint64_t store_rows_of(const struct store *s, uint32_t partition);
void store_set_owned(struct store *s, uint32_t partition, bool owned);
// Says that another store leads the partition, and that this one has a copy of it, now or
// later. Pushes change the copy as they change other rows. But cuts, admin operations, days
// and published saves (store_published_by) leave it out; the store that leads the
// partition says when to do them here.
void store_set_backup(struct store *s, uint32_t partition, bool backup);
// Returns whether it is such a partition, and neither the cut nor the admin operation that
// is under way concerns it: it may be put and dropped meanwhile (parcel.h).
bool store_is_apart(const struct store *s, uint32_t partition);

// Replaces max_bytes. Called when the memory of other tables has changed.
void store_set_limit(struct store *s, uint64_t max_bytes);

// Set and return the table's global step (of all workers together), which is used for
// schedules and time to live.
void store_set_step(struct store *s, uint64_t step);
uint64_t store_step_of(const struct store *s);
// Ends a day: rows that are not pushed count as unseen for one day more.
void store_day(struct store *s);
void store_day_in(struct store *s, uint32_t partition); // in one partition
// Returns the number of days that have ended. Partitions differ in this number only after
// a load or a move; then it is the largest number of the partitions that the store owns.
uint32_t store_day_of(const struct store *s);

// store_published_by and store_set_published_by return and set the checksum of a
// manifest: of the base or delta that published the table last, or of the save from which
// the table was loaded; 0: none. This value moves with a partition, so partitions may
// have different values: then store_published_by returns 0 and sets *ret_mixed (may be
// NULL). A delta can only follow that save (save/save.h): store_follows returns whether
// each partition that is here was published by `save` or by `other`.
uint64_t store_published_by(const struct store *s, bool *ret_mixed);
bool store_follows(const struct store *s, uint64_t save, uint64_t other);
void store_set_published_by(struct store *s, uint64_t checksum);
// Does the same for one partition, which another store leads.
void store_set_backup_published_by(struct store *s, uint32_t partition,
                                   uint64_t checksum);

enum store_admin {
    STORE_SHRINK, // decays rows and removes those below the threshold
    // Removes all rows, also those on disk, and the states of entry policies.
    STORE_CLEAR,
    // Marks the rows that a base or delta has written as published (cut.h).
    STORE_PUBLISHED,
};
// Begins an admin operation. Returns TUG_EUSAGE if a cut or another operation is in
// progress. `threshold` replaces shrink's delete_threshold unless it is NAN.
int store_admin(struct store *s, enum store_admin o, float threshold, struct err *e);
// The operation that has just begun is not done in this partition.
void store_leave_out(struct store *s, uint32_t partition);
// Returns the number of rows that the last STORE_SHRINK has removed in a partition.
uint64_t store_shrunk(const struct store *s, uint32_t partition);
// Does the operation STORE_SHRINK or STORE_CLEAR at once in one partition, which another
// store leads (store_set_backup), as that store began it at this global step. On failure
// nothing has changed.
int store_backup_admin(struct store *s, uint32_t partition, enum store_admin o,
                       float threshold, uint64_t step, struct err *e);
// Continues an admin operation, or the demotion of rows, for about `ns` nanoseconds.
// Returns true if work is left. It also returns true if memory is out or the disk fails;
// store_finish then returns the error.
bool store_work(struct store *s, uint64_t ns);
int store_finish(struct store *s, struct err *e); // does all that is left of an operation

struct store_stats {
    uint64_t rows, extra_rows, cold_rows;
    uint64_t backup_rows; // rows in memory of partitions that another store leads; `rows`
                          // and `extra_rows` include them
    uint64_t backup_cold_rows; // the same on disk; `cold_rows` includes them
    uint64_t bytes; // bytes of rows, extra rows, index, sketches, lists, and the cold
                    // tier's memory limit
    uint64_t made, refused; // number of rows made; number of pushed keys that the entry
                            // policy refused
    // Numbers of removed rows, by reason.
    uint64_t evicted_score, evicted_age, evicted_ttl, evicted_budget;
    // Only with a cold tier: the number of uses of rows in memory, and the numbers of
    // rows promoted and demoted.
    uint64_t hot_hits, promoted, demoted;
    uint64_t changed;  // rows that have changed since the last delta
    uint64_t left_out; // updates that were left out because a state of their rule would
                       // have become infinite
    uint32_t day;
    uint64_t step;
};
struct store_stats store_stats(const struct store *s);
// store_counts returns the same figures without `bytes`, `changed` and `day`, so
// it takes less time. store_bytes returns `bytes` only; its time does not depend
// on the number of rows.
struct store_stats store_counts(const struct store *s);
uint64_t store_bytes(const struct store *s);
// Gets the key of the first update that was left out since the last call. Returns false
// if no update was left out.
bool store_take_left_out(struct store *s, uint64_t *ret_key);

// store_check asserts the invariants that are quick to check; store_check_rows also
// asserts those of each row, which takes long. No other thread may use the store
// meanwhile. Both do nothing in builds without assertions.
#ifndef NDEBUG
void store_check(const struct store *s);
void store_check_rows(struct store *s);
#else
static inline void store_check(const struct store *s)
{
    (void)s;
}
static inline void store_check_rows(struct store *s)
{
    (void)s;
}
#endif

// Returns the row of a key without copying it (for evaluation in the same process, and
// tests); NULL if the key has no row in memory.
const float *store_row(const struct store *s, uint64_t key, const float **ret_extra);

// Calls `fn` for all rows of a partition, also those on disk, by ascending key. `extra`
// is NULL if the row has no extra row.
typedef int (*store_row_fn)(void *ctx, uint64_t key, const float *row, const float *extra,
                            struct err *e);
int store_each(struct store *s, uint32_t partition, store_row_fn fn, void *ctx,
               struct err *e);
// Does what store_each does, only for keys of at least `from`.
int store_each_from(struct store *s, uint32_t partition, uint64_t from, store_row_fn fn,
                    void *ctx, struct err *e);

// Writes the values that a new row of `key`, made on that day, has to ret_row, and those
// of its extra row to ret_extra (may be NULL).
void store_first_row(const struct store *s, uint64_t key, uint32_t day, float *ret_row,
                     float *ret_extra);

// Makes room in the index of an empty store for `n` rows, or for rows[p] rows of each
// partition p if `rows` is not NULL. Loads call it before they put rows, to save time. A
// store with a cold tier ignores the call, because it demotes most rows again.
void store_reserve(struct store *s, uint64_t n, const uint64_t *rows);
// Makes room in the index for a partition of n rows that moves here, and for the others
// that will: about `mine` in `of` partitions.
void store_reserve_partition(struct store *s, uint32_t partition, uint64_t n,
                             uint32_t mine, uint32_t of);
// Sets the day of all partitions. Used by loads. If the state of a partition is put later
// (store_put_partition), its day replaces this one.
void store_set_day(struct store *s, uint32_t day);
void store_set_day_in(struct store *s, uint32_t partition, uint32_t day); // of one
// Sets the error for a loaded value that is not finite, and returns TUG_EDATA.
int store_not_finite(uint64_t key, const char *table, struct err *e);
// Put saved rows: they replace rows or make them, whatever the entry policy says. For
// loads.
int store_put_rows(struct store *s, const uint64_t *keys, size_t n, const float *rows,
                   struct err *e); // n x width values; handles of extra rows in them are
                                   // ignored
int store_put_extras(struct store *s, const uint64_t *keys, size_t n, const float *extras,
                     struct err *e); // each of the keys must have a row
// store_copy copies all rows of a store into an empty one with the same settings; on
// failure copied rows stay. store_move moves a partition, with its rows, counters,
// sketches and notes for deltas, to a store in which it is empty (store/parcel.h). No cut
// may be under way. On failure the partition does not move, except that after TUG_ENOMEM
// both stores may have it; then call store_drop.
int store_copy(struct store *to, struct store *from, struct err *e);
int store_move(struct store *to, struct store *from, uint32_t partition, struct err *e);
// Moves the weights of each row in `to` towards those in `from`, a table with the same
// settings: mean += share (weight - mean). The other floats of a row, and rows that `to`
// lacks, are copied. Returns TUG_EUSAGE if rows have a lifecycle.
int store_mean(struct store *to, struct store *from, float share, struct err *e);
// Do the same with one partition, for a table of which other stores lead some partitions.
// store_copy_partition first empties the partition of `to`; `step` is the leader's global
// step. On failure some of the partition's rows were copied, or have moved.
int store_copy_partition(struct store *to, struct store *from, uint32_t partition,
                         uint64_t step, struct err *e);
int store_mean_partition(struct store *to, struct store *from, uint32_t partition,
                         float share, struct err *e);
int store_remove(struct store *s, const uint64_t *keys, size_t n, struct err *e);
// Puts the counters and sketches of a partition, in the format of the blocks
// ROWS_PARTITION of cuts.
int store_put_partition(struct store *s, uint32_t partition, const void *bytes, size_t n,
                        struct err *e);
// For loads: records that the rows equal those of a save, so that no row counts as
// changed.
void store_loaded(struct store *s);
// Does the same in one partition, and sets the checksum of the save (store_published_by).
int store_loaded_in(struct store *s, uint32_t partition, uint64_t published_by,
                    struct err *e);
// Removes all rows and notes for deltas of a partition, which this store still owns.
int store_empty(struct store *s, uint32_t partition, struct err *e);

#endif
