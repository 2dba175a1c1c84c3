// Internals of a store, for store*.c, cut.c and cold.c.
//
//   store.c        opening and closing, lists
//   store_rows.c   making, removing and changing rows and extra rows
//   store_batch.c  finds and makes the rows of keys, in batches
//   store_push.c   pushes and pulls
//   store_steps.c  threads that update rows in place
//   store_load.c   puts saved rows and partitions, walks over rows
//   store_copy.c   copies and means of tables
//   gather.c       gathers rows to copy them together
//   parcel.c       moves a partition, as bytes
//   parcel_slices.c  the same in slices, while the partition is used; with parcel_cold.c
//   store_life.c   admin operations, budgets, days
//   store_stats.c  statistics
//   store_check.c  invariants, for builds with assertions
//   cut.c          reads out the rows as they were at one moment
//   cold.c         promotes and demotes rows; with cold_walk.c, cold_delta.c
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_STORE_INTERNAL_H
#define TUG_STORE_STORE_INTERNAL_H

#include "base/buf.h"
#include "base/hash.h"
#include "store/store.h"
#include "table/reclaim.h"
#include "table/slabs.h"
#include "table/table.h"

struct handle_list {
    uint32_t *at;
    uint32_t n, cap;
};
struct key_list {
    uint64_t *at;
    uint32_t n, cap;
};

// A bit for each handle. It grows with the table; bits beyond its end count as 0.
struct handle_bits {
    uint64_t *words;
    size_t n_words;
};

struct store_part { // the state of one partition
    // Handles of its rows in the order in which these were made. Some handles are stale:
    // their rows were removed, or the handle now has the row of another key, of this or
    // another partition. So a walk must check keys and skip repeated handles. The list is
    // packed when half of it is stale, unless a cut is under way.
    struct handle_list rows;
    uint32_t live; // number of rows in memory
    uint32_t cold; // number of rows on disk only
    bool overdue;  // rows beyond the budget could not be removed: store_take_overdue
    uint32_t day;
    // The global step when the partition was loaded or moved here; see store_time.
    uint64_t step;
    // Number of the last admin operation that was done in this partition.
    uint32_t admin;
    uint32_t shrunk;     // number of rows that the last STORE_SHRINK has removed
    struct entry *entry; // NULL if the policy has no state, or no key was pushed yet
    // Rows that have changed since the last base or delta (config.deltas). A row that was
    // changed, removed and made again is listed twice, and the handle of a removed row
    // may have another row now. So an entry counts only if its row is live, belongs to
    // this partition, and has its bit in store.changed. A walk over the list clears the
    // bit, so that a row counts once.
    struct handle_list changed;
    // Keys whose rows were removed; some of these keys may have a row again. If no delta
    // is ever made, the list would grow for ever. So it is dropped when it is much longer
    // than the number of rows; gone_lost is then true, and the next save must be a base.
    struct key_list gone;
    bool gone_lost;
    // The base, delta or loaded save that published these rows last (store_published_by).
    uint64_t published_by;
    bool backup; // another store leads the partition: see store_set_backup
    // Rows that a cut has published. The cut fills the list. STORE_PUBLISHED marks these
    // rows as published, except rows that have changed meanwhile, and empties the list.
    struct handle_list published;
};

// Keys [begin, end) of a batch, which belong to one partition.
struct store_run {
    uint32_t partition, begin, end;
};

enum { STORE_BATCH = 1024 }; // most keys in a batch, unless one partition has more

// Arrays with an element for each key of a batch. They grow to the largest batch.
struct store_scratch {
    size_t max;
    void *memory; // one block of memory for all these arrays
    float **rows, **extras;
    // Scratch for a selection of the keys; some[] and which[] are also scratch.
    uint64_t *keys;
    uint32_t *handles, *some, *which;
    // Handles of the batch's keys, from the lookup before missing rows are made.
    uint32_t *found;
    float *divisors;
    float *kept; // copies of rows before a push, each followed by its extra row
    size_t kept_max;
    struct store_run runs[STORE_BATCH];
};

struct cut;         // declared in cut_internal.h
struct parcel_copy; // declared in parcel_slices.c
struct cold;        // declared in cold.h

struct store {
    struct table_config config;
    struct store_options o; // o.config points to `config`
    struct accessor accessor;
    struct accessor_scratch scratch;
    uint32_t n_parts;
    struct store_part *parts;
    // For each partition, whether it belongs to another store, which has its rows. The owner
    // changes only when the partition moves (parcel.h). The array is short, so that a look
    // at all partitions of a push stays in the cache.
    bool *not_owned;

    struct table *rows;
    struct table_slabs view;
    struct handle_bits changed; // a bit for each row that is listed in store_part.changed
    struct handle_bits marks;   // scratch; all 0 between calls
    // A bit for each row that has done the current admin operation before its partition.
    struct handle_bits turned;
    struct handle_list walk;    // scratch of store_life.c
    struct store_scratch batch; // scratch of store_batch.c and store_push.c

    // The accessor's functions of the lifecycle; never NULL.
    const struct life_class *life;
    bool overdue;               // a partition is overdue
    bool lives;                 // pushes have statistics, or rows have extra rows
    bool begins_whole;          // new rows get their extra row when they are made
    struct entry_options entry; // options of the entry policy, with the table's seed
    bool admits;                // whether the entry policy may refuse keys
    uint64_t entry_bytes;       // bytes of the policies' states in all partitions
    float *first;               // scratch for a row and an extra row

    // Extra rows: each is a key and floats, as rows in a table are, but without an index.
    struct slabs extras;
    struct table_slabs extra_view;
    struct handle_list extra_free;
    struct limbo extra_limbo; // extra rows that were freed while threads may still use
                              // them (store_steps.h)
    uint64_t n_extras;

    uint64_t step;

    // The current admin operation. Partitions whose `admin` is not admin_number have not
    // done it.
    uint32_t admin_number; // number of the last operation
    enum store_admin admin;
    float admin_threshold;
    // Partitions before this one have done the operation; n_parts: all have done it.
    uint32_t admin_at;
    // In all partitions, an operation uses the day and step at which it began, even
    // where it is done later.
    uint32_t admin_days; // number of days that have ended since the operation began
    uint64_t order_step;
    // Partitions before this one were checked for rows to demote today.
    uint32_t demote_at;

    // The mode and the step of the last committed cut of a base or delta.
    enum save_mode published_mode;
    uint64_t published_step;
    struct cut *cut;            // NULL: no cut is under way
    struct parcel_copy *copies; // partitions that are being copied in slices
    struct cold *cold;          // NULL: no tier

    // Some row may be so large that a push could make it infinite (accessor_row_tame), so
    // pushes keep copies of rows.
    bool wild;
    // Some rows were set whole, so their states may be ones that gradients never produce.
    bool foreign;
    bool told;     // the log has a line that an update was left out
    bool left_out; // an update was left out since the last store_take_left_out;
                   // left_out_key is the key of the first such update
    uint64_t left_out_key;
    bool watch; // whether to check that the rows of this push are still tame
    // The most by which numbers in rows may have grown in pushes after which
    // rows were not checked.
    double grown;
    bool steps; // threads update rows in place
    // Called before rows are removed: see store_steps.h. NULL: not needed.
    void (*removed)(void *ctx, const uint64_t *keys, size_t n);
    void *removed_ctx;

    struct store_stats stats; // the figures that are counted as they change
};

// Returns whether the store leads the partition (store_set_backup).
static inline bool store_leads(const struct store *s, uint32_t p)
{
    return !s->not_owned[p] && !s->parts[p].backup;
}

// Returns what store_partition returns; inline, for loops over keys.
static inline uint32_t store_partition_of(const struct store *s, uint64_t key)
{
    uint64_t spread = s->config.place == CONFIG_RANGE ? key : mix64(key);
    return table_partition(spread, s->o.partition_bits);
}
static inline float *store_row_at(const struct store *s, uint32_t handle)
{
    return table_row(s->view, handle);
}
static inline uint64_t store_key_at(const struct store *s, uint32_t handle)
{
    return table_row_key(table_row(s->view, handle));
}
static inline float *store_extra_of(const struct store *s, const float *row)
{
    uint32_t h = s->accessor.extra_width > 0 ? accessor_extra(&s->accessor, row)
                                             : TABLE_NONE;
    return h == TABLE_NONE ? NULL : table_row(s->extra_view, h);
}
static inline bool handle_bit(const struct handle_bits *b, uint32_t h)
{
    return h / 64 < b->n_words && (b->words[h / 64] >> (h % 64) & 1) != 0;
}

// Defined in store.c:

int handle_list_reserve(struct handle_list *l, size_t more);
int handle_list_add(struct handle_list *l, uint32_t handle);
int key_list_reserve(struct key_list *l, size_t more);
int key_list_add(struct key_list *l, uint64_t key);
int handle_bits_reserve(struct handle_bits *b,
                        uint32_t handles); // makes room for the handles below `handles`
static inline void handle_bit_set(struct handle_bits *b, uint32_t h)
{
    b->words[h / 64] |= (uint64_t)1 << (h % 64);
}
static inline void handle_bit_clear(struct handle_bits *b, uint32_t h)
{
    if (h / 64 < b->n_words)
        b->words[h / 64] &= ~((uint64_t)1 << (h % 64));
}

// Defined in store_rows.c:

// Adds rows for n keys of partition p that were just looked up and have no row in memory.
// Puts the rows into the partition's list, and notifies the current cut. The rows have no
// extra row; their values are undefined, and the caller must write all of them. Adds all
// or none. Returns 0 or TUG_ENOMEM.
int store_add_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                   uint32_t *ret_handles, struct err *e);
// Adds rows as store_add_rows does, for keys that have no row on disk either.
// Records the keys for deltas.
int store_add_new_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                       uint32_t *ret_handles, struct err *e);
// Adds rows as store_add_new_rows does, with initial values.
int store_make_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                    uint32_t *ret_handles, struct err *e);
// Drops rows of partition p from memory, with their extra rows. The caller must have
// called store_touch, which notifies a current cut.
void store_drop_rows(struct store *s, uint32_t p, const uint32_t *handles, size_t n);
// Removes rows for good, and records that for deltas. On TUG_ENOMEM nothing has changed.
int store_remove_rows(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                      struct err *e);
// Drops the list of removed keys if it is too long. Call it after adding to the list.
void store_trim_gone(struct store *s, uint32_t p);
// Give a row its extra row, with initial values (make) or undefined ones
// (add). They return NULL if memory is out. After store_reserve_extras(n) they
// cannot fail for n rows.
int store_reserve_extras(struct store *s, size_t n);
float *store_add_extra(struct store *s, float *row);
float *store_make_extra(struct store *s, float *row);
void store_free_extra(struct store *s, float *row); // does nothing if the row has no
                                                    // extra row

// Must be called before rows of partition p change: the current cut copies the
// rows, they are recorded as changed for deltas, and the cold tier counts a use.
// Returns 0 or TUG_ENOMEM.
int store_touch(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                struct err *e);

// Returns TUG_ENOMEM if the store with n more rows would exceed max_bytes; n may be 0.
int store_check_room(const struct store *s, size_t n, struct err *e);

// Records rows of partition p as changed, for deltas. store_touch calls it.
int store_note(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
               struct err *e);

// Returns whether a handle in one of the partition's lists now has a row of this
// partition.
bool store_is_live(const struct store *s, uint32_t p, uint32_t handle);
// Puts the live rows of partition p into a scratch list, each once and in the order in
// which they were made.
int store_live_rows(struct store *s, uint32_t p, struct handle_list *ret);

static inline struct life_time store_time(const struct store *s, uint32_t p)
{
    // The partition's step may be ahead of the store's, because an earlier owner
    // may know of more steps.
    uint64_t step = s->parts[p].step > s->step ? s->parts[p].step : s->step;
    return (struct life_time){.day = s->parts[p].day, .step = step};
}

// Returns whether the examples of a push were counted in an earlier push. Their
// statistics then do not count again.
static inline bool store_comes_again(const struct store *s, const struct store_push *p)
{
    return p->again && !s->config.count_all;
}

// Defined in store_batch.c:

// Keys of whole partitions that are processed together, with the arrays in s->batch. It
// is zeroed at first.
struct store_batch {
    const uint64_t *keys;
    size_t at; // the number of keys before this batch
    uint32_t n, n_runs;
    uint32_t last; // the last partition of the batch
    // New rows may have undefined values: the caller writes all their values at once.
    bool unset;
    // Initially store_is_quiet; if true, s->batch.runs is filled only when rows are made.
    bool quiet;
};
// Returns whether existing rows need no work by partition: the store has no lifecycle,
// budget, operation, tier or deltas. (During a cut, store_batch_make looks for rows that
// must be copied.)
bool store_is_quiet(const struct store *s);
// Takes the next batch of n keys. Returns TUG_EUSAGE if partitions do not ascend.
int store_batch_take(struct store *s, const uint64_t *keys, size_t n,
                     struct store_batch *b, struct err *e);
// Does the current admin operation in the batch's partitions, and finds the handles of
// its keys. Cold rows are fetched first; keys without a row get TABLE_NONE. On failure *b
// ends before the failed partition.
int store_batch_find(struct store *s, struct store_batch *b, struct err *e);
// Touches the rows of a batch, and makes missing ones if the policy admits their keys or
// `push` is NULL. On failure *b ends before the failed partition.
int store_batch_make(struct store *s, struct store_batch *b,
                     const struct store_push *push, struct err *e);

// Lists the runs of a quiet batch. Returns TUG_EUSAGE if partitions do not ascend.
int store_batch_runs(struct store *s, struct store_batch *b, struct err *e);
// Ends the batch before its run r.
void store_batch_cut(struct store_batch *b, const struct store_scratch *x, uint32_t r);

// Defined in store_undo.c:

// store_undo_keep copies a batch's rows before a push changes them, and store_undo_check
// tests whether the results are finite. If not, it returns TUG_EUSAGE with an error that
// names the key, ends the batch before the key's partition, and restores the rows of this
// and all later partitions.
int store_undo_keep(struct store *s, const struct store_batch *b, struct err *e);
int store_undo_check(struct store *s, struct store_batch *b, bool gradients,
                     struct err *e);
// Returns whether no copies are needed, because the push's results are finite for sure.
// `most` is the largest magnitude of the push's values.
bool store_push_is_tame(const struct store *s, const struct store_push *p,
                        const struct rule_params *rules, float most);
// Returns whether the numbers in rows can grow only little by this push, and adds
// the growth to s->grown.
bool store_grows_slowly(struct store *s, const struct store_push *p,
                        const struct rule_params *rules, float most);
// Set s->wild if a row is not tame any more: store_watch_rows looks at rows [i, i + n) of
// the batch, store_look_at_rows at rows that were assigned.
void store_watch_rows(struct store *s, size_t i, size_t n);
void store_look_at_rows(struct store *s, const struct store_batch *b);

// Defined in store_load.c:

// Gets the content of ROWS_PARTITION at the time `t`; store_put_partition reads it. Equal
// histories give equal bytes.
int store_get_partition(const struct store *s, uint32_t p, struct life_time t,
                        struct buf *ret);

// Defined in store_life.c:

// Does the current admin operation in the partition, unless it is already done there, and
// evicts rows beyond the partition's budget.
int store_turn(struct store *s, uint32_t p, struct err *e);
// Returns whether the admin operation may be done for single rows, before it is done in
// their partition, so that no request waits for a whole partition.
bool store_turns_rows(const struct store *s, uint32_t p);
// Does the admin operation for those of n handles of p for which it was not done yet.
// Handles of removed rows become TABLE_NONE. Uses s->batch.some and .which as scratch.
int store_turn_rows(struct store *s, uint32_t p, uint32_t *handles, uint32_t n,
                    struct err *e);
// Marks new rows, so that the current operation is not done for them.
int store_turn_made(struct store *s, const uint32_t *handles, size_t n);
// Returns when the current operation began, in partition p's time.
static inline struct life_time store_admin_time(const struct store *s, uint32_t p)
{
    return (struct life_time){.day = s->parts[p].day - s->admin_days,
                              .step = s->order_step};
}
// Counts a row that a shrink removes under the reason for its removal.
void store_count_evicted(struct store *s, const float *row, struct life_time t);
// Removes rows beyond the budget. Returns 0, or TUG_ENOMEM; then the partition is overdue.
int store_keep_budget(struct store *s, uint32_t p, struct err *e);
// Returns how many rows a partition with `live` rows must remove to keep its budget.
uint32_t store_over_budget(const struct store *s, uint32_t live);

// Defined in cut.c, and called by store*.c and cold.c when s->cut != NULL:

// Copies rows of p that are about to change or to be removed.
int cut_before_change(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                      struct err *e);
// Returns whether one of these rows must be copied before it changes.
bool cut_wants(const struct store *s, const uint64_t *keys, const uint32_t *handles,
               size_t n);
// Prefetches the first rows that cut_before_change will copy; a handle may be TABLE_NONE.
void cut_prefetch(const struct store *s, uint32_t p, const uint32_t *handles, size_t n);
// Must be called once before each push whose keys the entry policy of p counts.
int cut_before_admit(struct store *s, uint32_t p, struct err *e);
// Call it once a new row's handle is known, before anything else. On TUG_ENOMEM the row
// must not be made.
int cut_row_made(struct store *s, uint32_t p, uint32_t handle);
// Notifies the cut that a row in memory was promoted and is not new. Call it after
// cut_row_made, if that was called for the row.
int cut_row_promoted(struct store *s, uint32_t p, uint32_t handle);
// Returns whether a cut is under way that the partition belongs to.
bool cut_has(const struct store *s, uint32_t p);
// Returns whether the cut is a base or delta.
bool cut_publishing(const struct store *s);
// Returns whether the row must not be demoted now.
bool cut_keeps(const struct store *s, uint32_t p, uint32_t handle);
// Returns whether a base under way has written the row, which has not changed since, and
// the row must be marked as published when the base is committed.
bool cut_publishes_row(const struct store *s, uint32_t p, const float *row);
void cut_close(struct store *s);

// Defined in cold.c, and called by store*.c and others when s->cold != NULL:

int cold_open(struct store *s, struct err *e);
void cold_close(struct store *s);
// Promotes the rows of a batch's keys that are on disk (their handles are
// TABLE_NONE), and fills in the handles. *ret_runs is the number of runs whose rows
// are all in memory now.
int cold_fetch_runs(struct store *s, const struct store_run *runs, uint32_t n_runs,
                    const uint64_t *keys, uint32_t *handles, uint32_t *ret_runs,
                    struct err *e);
void cold_used(struct store *s, const uint32_t *handles,
               size_t n); // counts a use of these rows
// Returns whether a row of p must not be demoted, because it is copied later (parcel.h).
bool parcel_keeps(const struct store *s, uint32_t p, uint32_t handle);
// Removes the copies on disk of rows of partition p. Must be called before the rows
// are removed for good.
void cold_forget(struct store *s, uint32_t p, const uint32_t *handles, size_t n);
int cold_demote(struct store *s, uint32_t p,
                struct err *e); // demotes rows beyond the partition's share
// Does an admin operation on p's cold rows, as of the time t.
int cold_admin(struct store *s, uint32_t p, enum store_admin o, struct life_time t,
               struct err *e);
// Walks over the cold rows of a partition by ascending key, as store_each does.
int cold_each(struct store *s, uint32_t p, store_row_fn fn, void *ctx, struct err *e);
int cold_remove(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                struct err *e);
// Removes all rows of a partition from the disk, and records nothing for deltas. The
// partition must have no row in memory.
int cold_forget_partition(struct store *s, uint32_t p, struct err *e);
void cold_counts(const struct store *s, struct store_stats *x);
// Returns the bytes of memory that a tier with this number of rows takes.
uint64_t cold_bytes(const struct store *s, uint64_t rows);

// Defined in cold_delta.c, for cuts of bases and deltas in tables with config.deltas:

void cold_cut_begin(struct store *s);
void cold_cut_open(struct store *s, uint32_t p); // call it before p is read out
// Walks, for a delta, over the rows on disk that had changed when the cut began.
int cold_each_changed(struct store *s, uint32_t p, store_row_fn fn, void *ctx,
                      struct err *e);
// Records that the row with this key was written.
int cold_cut_published(struct store *s, uint32_t p, uint64_t key);
int cold_cut_kept(struct store *s, uint32_t p,
                  uint64_t key); // keeps the row for the next delta
// Ends the cut's part in the cold tier. On TUG_ENOMEM the function must be called again.
int cold_cut_end(struct store *s, bool committed);
// For cut_published.c: cold_get_out appends the keys of rows on disk that have changed since
// the save, and counts them; cold_out_most, called before the end of the cut, returns the
// most of them. cold_put_published does for the rows on disk of a copy of the partition what
// the save did for those of the leading store: rows count as published, all of them or
// (for a delta) those that had changed, except the `changed` ones, which it notes for the
// next delta.
size_t cold_out_most(const struct store *s, uint32_t p);
int cold_get_out(const struct store *s, uint32_t p, struct buf *to, uint64_t *n);
int cold_put_published(struct store *s, uint32_t p, bool all, const uint64_t *changed,
                       size_t n, struct life_time t, struct err *e);
void cold_loaded(struct store *s); // called after a load: no row counts as changed

#endif
