// The inside of a store, for store*.c, cut.c and cold.c.
//
//   store.c        opening and closing, lists
//   store_rows.c   making, removing and changing rows and extra rows
//   store_batch.c  from keys to rows, a batch at a time
//   store_push.c   pushes and pulls
//   store_steps.c  threads that step on rows in place
//   store_load.c   saved rows and partitions
//   store_life.c   admin operations, budgets, days
//   store_stats.c  statistics
//   store_check.c  invariants, for builds with assertions
//   cut.c          reading out the rows of one moment
//   cold.c         promotes and demotes rows; with cold_walk.c, cold_delta.c
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_STORE_INTERNAL_H
#define TUG_STORE_STORE_INTERNAL_H

#include "base/buf.h"
#include "base/hash.h"
#include "store/store.h"
#include "table/slabs.h"
#include "table/table_internal.h"

// Growing lists.
struct handle_list {
    uint32_t *at;
    uint32_t n, cap;
};
struct key_list {
    uint64_t *at;
    uint32_t n, cap;
};

// One bit for each handle; grows with the table, bits beyond are 0.
struct handle_bits {
    uint64_t *words;
    size_t n_words;
};

struct store_part { // of one partition
    // Handles of its rows in the order of making. Some are stale: their rows were
    // removed, or the handle has another key's row now (of another partition, or of this
    // one again). A walk has to check keys and duplicates. Packed when half of it is
    // stale, unless a cut is in progress.
    struct handle_list rows;
    uint32_t live; // rows in memory
    uint32_t cold; // rows on disk
    uint32_t day;
    uint32_t order;      // number of the last order done here
    struct entry *entry; // NULL: the policy has no state, or no key came yet
    // Rows changed since the last base or delta (config.deltas). A row that was changed,
    // removed and made again is listed twice, and the handle of a removed one may have
    // another row now: an entry counts if its row is live, of this partition, and
    // store.changed has its bit, which a walk clears.
    struct handle_list changed;
    // Keys whose rows were removed; some may have one again. If a delta is never made,
    // the list would grow: once it is far longer than there are rows it is dropped, and
    // the next save must be a base.
    struct key_list gone;
    bool gone_lost;
    // Rows that a cut has published. The cut fills the list and STORE_PUBLISHED empties
    // it, skipping rows that have changed meanwhile.
    struct handle_list published;
};

// Keys [begin, end) of a batch, which are of one partition.
struct store_run {
    uint32_t partition, begin, end;
};

enum { STORE_BATCH = 1024 }; // keys; more if one partition has more

// Arrays beside the keys of a batch; grow to the largest batch.
struct store_scratch {
    size_t max;
    void *memory; // holds all of these
    float **rows, **extras;
    uint64_t *keys; // of some keys, like some[] and which[]
    uint32_t *handles, *some, *which;
    uint32_t *found; // handles before rows were made
    float *divisors;
    float *kept; // rows before a push changed them, each with its extra row behind it
    size_t kept_max;
    struct store_run runs[STORE_BATCH];
};

struct cut;  // cut.c
struct cold; // cold.c

struct store {
    struct table_config config;
    struct store_options o; // o.config points at `config`
    struct accessor accessor;
    struct accessor_scratch scratch;
    uint32_t n_parts;
    struct store_part *parts;

    struct table *rows;
    struct table_slabs view;
    struct handle_bits changed; // rows noted in store_part.changed
    struct handle_bits marks;   // scratch, all 0 between calls
    struct handle_bits turned;  // rows that got their turn before their partition
    struct handle_list walk;    // scratch of store_life.c
    struct store_scratch batch; // of store_push.c

    const struct life_class *life; // of the accessor; never NULL
    bool lives;                    // pushes carry statistics, or there are extra rows
    bool begins_whole;             // new rows have their extra row at once
    struct entry_options entry;    // with the table's seed
    bool admits;                   // the policy may refuse keys
    uint64_t entry_bytes;          // of all partitions' states
    float *first;                  // a row and an extra row, scratch

    // Extra rows: [key][floats], as in a table, without an index.
    struct slabs extras;
    struct table_slabs extra_view;
    struct handle_list extra_free;
    struct limbo extra_limbo; // freed while threads step on rows (store_steps.h)
    uint64_t n_extras;

    uint64_t step;
    uint64_t published_by; // see store_published_by

    // The current order; parts with .order != order_number have not done it.
    uint32_t order_number; // of the last order
    enum store_admin order;
    float admin_threshold;
    uint32_t order_at; // partitions before it are done; n_parts: all
    // An admin operation counts from when it was given: partitions that do it later use
    // that time.
    uint32_t admin_days; // ended since then
    uint64_t order_step;
    uint32_t demote_at; // partitions before it were checked today

    struct cut *cut;   // NULL: no cut in progress
    struct cold *cold; // NULL: no tier

    // Some row may be too large for a push to stay finite for sure (accessor_row_tame):
    // pushes keep copies of rows.
    bool wild;
    bool
        foreign; // rows were set whole: their states may be ones that gradients never produce
    bool told;     // that an update was left out
    bool left_out; // one was, since store_take_left_out: the first of them of this key
    uint64_t left_out_key;
    bool watch;   // checks whether the rows of this push are still tame
    double grown; // how much numbers in rows may have grown by unwatched pushes
    bool steps;   // threads step on rows
    void (*removed)(void *ctx, const uint64_t *keys, size_t n); // store_steps.h; or NULL
    void *removed_ctx;

    struct store_stats stats; // counted as things happen
};

// store_partition inline, for loops over keys.
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

// store.c

int handle_list_reserve(struct handle_list *l, size_t more);
int handle_list_add(struct handle_list *l, uint32_t handle);
int key_list_reserve(struct key_list *l, size_t more);
int key_list_add(struct key_list *l, uint64_t key);
int handle_bits_reserve(struct handle_bits *b,
                        uint32_t handles); // room for handles below it
static inline void handle_bit_set(struct handle_bits *b, uint32_t h)
{
    b->words[h / 64] |= (uint64_t)1 << (h % 64);
}
static inline void handle_bit_clear(struct handle_bits *b, uint32_t h)
{
    if (h / 64 < b->n_words)
        b->words[h / 64] &= ~((uint64_t)1 << (h % 64));
}

// store_rows.c

// Adds rows for n keys of partition p that were just looked up and have none in memory:
// they are in the partition's list, known to the cut, have no extra row, and undefined
// values, all of which the caller must write. All or none; TUG_ENOMEM.
int store_add_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                   uint32_t *ret_handles, struct err *e);
// Likewise for keys without a row anywhere: deltas note them.
int store_add_new_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                       uint32_t *ret_handles, struct err *e);
// Likewise, with first values.
int store_make_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                    uint32_t *ret_handles, struct err *e);
// Drops rows of partition p from memory, with their extra rows. A current cut must have
// been told (store_touch).
void store_drop_rows(struct store *s, uint32_t p, const uint32_t *handles, size_t n);
// Removes rows for good: deltas note it. TUG_ENOMEM: unchanged.
int store_remove_rows(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                      struct err *e);
// Drops the list of removed keys if it is too long; called after adding to it.
void store_trim_gone(struct store *s, uint32_t p);
// Makes the row's extra row with first values, or (add) with undefined ones; NULL if
// memory is out. Cannot fail for the next n rows after store_reserve_extras.
int store_reserve_extras(struct store *s, size_t n);
float *store_add_extra(struct store *s, float *row);
float *store_make_extra(struct store *s, float *row);
void store_free_extra(struct store *s, float *row); // if the row has one

// Call before rows of partition p change: the cut copies them, deltas note them, the cold
// tier counts their use. Cheap without all these. TUG_ENOMEM.
int store_touch(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                struct err *e);

// TUG_ENOMEM unless n more rows fit max_bytes (n = 0: unless the store is below it).
int store_check_room(const struct store *s, size_t n, struct err *e);

// Notes rows of partition p as changed, for deltas; part of store_touch.
int store_note(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
               struct err *e);

// Returns whether a handle in one of the partition's lists is a row of it now.
bool store_is_live(const struct store *s, uint32_t p, uint32_t handle);
// Puts the live rows of partition p, each once and in the order of making, into a scratch
// list.
int store_live_rows(struct store *s, uint32_t p, struct handle_list *ret);

static inline struct life_time store_time(const struct store *s, uint32_t p)
{
    return (struct life_time){.day = s->parts[p].day, .step = s->step};
}

// Returns whether a push counts nothing since its examples were counted before.
static inline bool store_comes_again(const struct store *s, const struct store_push *p)
{
    return p->again && !s->config.count_all;
}

// store_batch.c

// Keys of whole partitions that are processed together, with s->batch beside them. Begins
// zeroed.
struct store_batch {
    const uint64_t *keys;
    size_t at; // number of keys before it
    uint32_t n, n_runs;
    uint32_t last; // partition
    bool
        unset; // new rows may have undefined values: the caller writes all of them at once
    bool quiet; // begins as store_is_quiet: runs are listed only when rows are made
};
// Returns whether existing rows need no work by partition: no lifecycle, budget, order,
// cut, tier or deltas.
bool store_is_quiet(const struct store *s);
// Takes the next batch of n keys. TUG_EUSAGE if partitions do not ascend.
int store_batch_take(struct store *s, const uint64_t *keys, size_t n,
                     struct store_batch *b, struct err *e);
// Does the turns of its partitions and finds its keys' handles: cold rows are fetched,
// keys without a row get TABLE_NONE. On failure *b ends before the failed partition.
int store_batch_find(struct store *s, struct store_batch *b, struct err *e);
// Touches rows and makes missing ones, if the policy admits their keys or `push` is NULL.
// Fails likewise.
int store_batch_make(struct store *s, struct store_batch *b,
                     const struct store_push *push, struct err *e);

// Lists the runs of a quiet batch. TUG_EUSAGE if partitions do not ascend.
int store_batch_runs(struct store *s, struct store_batch *b, struct err *e);
// Ends the batch before its run r.
void store_batch_cut(struct store_batch *b, const struct store_scratch *x, uint32_t r);

// store_undo.c

// Keep copies a batch's rows before a push changes them; check looks whether the results
// are finite. If not, TUG_EUSAGE names the key, the batch ends before the key's
// partition, and that partition and those behind it are restored.
int store_undo_keep(struct store *s, const struct store_batch *b, struct err *e);
int store_undo_check(struct store *s, struct store_batch *b, bool gradients,
                     struct err *e);
// Returns whether none of this is needed, since the push's results are finite for sure.
bool store_push_is_tame(const struct store *s, const struct store_push *p,
                        const struct rule_params *rules);
// Returns whether the push is known to let rows grow by little, and counts that growth.
bool store_grows_slowly(struct store *s, const struct store_push *p,
                        const struct rule_params *rules);
// Checks whether rows [i, i + n) of the batch, or rows that were set, are still tame; if
// not, sets s->wild.
void store_watch_rows(struct store *s, size_t i, size_t n);
void store_look_at_rows(struct store *s, const struct store_batch *b);

// store_load.c

// Gets the content of ROWS_PARTITION as of `t`; store_put_partition reads it. Equal
// histories give equal bytes.
int store_get_partition(const struct store *s, uint32_t p, struct life_time t,
                        struct buf *ret);

// store_life.c: does the partition's turn of the current order, if it has not had it, and
// evicts rows beyond its budget.
int store_turn(struct store *s, uint32_t p, struct err *e);
// Returns whether requested rows may get their turn alone, so that no request waits for
// all rows of a partition.
bool store_turns_rows(const struct store *s, uint32_t p);
// Does the turn of n handles of p that have not had it; removed rows become TABLE_NONE.
// Uses s->batch.some and .which as scratch.
int store_turn_rows(struct store *s, uint32_t p, uint32_t *handles, uint32_t n,
                    struct err *e);
// Excludes rows that are made during the operation from it.
int store_turn_made(struct store *s, const uint32_t *handles, size_t n);
// Returns when the current order was given, in partition p's time.
static inline struct life_time store_admin_time(const struct store *s, uint32_t p)
{
    return (struct life_time){.day = s->parts[p].day - s->admin_days,
                              .step = s->order_step};
}
// Counts a row that shrink has removed, by the reason.
void store_count_evicted(struct store *s, const float *row, struct life_time t);
int store_keep_budget(struct store *s, uint32_t p, struct err *e);
// Returns how many rows a partition with `live` rows must remove.
uint32_t store_over_budget(const struct store *s, uint32_t live);

// cut.c. Called by store*.c and cold.c when s->cut != NULL.
//
// Copies rows of p before they change or are removed.
int cut_before_change(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                      struct err *e);
// Call before p's entry policy counts a push, once for each such push to p.
int cut_before_admit(struct store *s, uint32_t p, struct err *e);
// Call once a new row's handle is known, before anything else. ENOMEM: do not make the
// row.
int cut_row_made(struct store *s, uint32_t p, uint32_t handle);
// Says that a row in memory is a promoted one and not new (after cut_row_made, if that
// was called for it).
int cut_row_promoted(struct store *s, uint32_t p, uint32_t handle);
// Whether the cut is of a base or delta.
bool cut_publishing(const struct store *s);
// Returns whether the row must not be demoted now.
bool cut_keeps(const struct store *s, uint32_t p, uint32_t handle);
void cut_close(struct store *s);

// cold.c. Called by store*.c and others when s->cold != NULL.
int cold_open(struct store *s, struct err *e);
void cold_close(struct store *s);
// Promotes the cold rows of a batch's keys that have none in memory (handles TABLE_NONE)
// and fills in their handles. *ret_runs: how many runs are done.
int cold_fetch_runs(struct store *s, const struct store_run *runs, uint32_t n_runs,
                    const uint64_t *keys, uint32_t *handles, uint32_t *ret_runs,
                    struct err *e);
void cold_used(struct store *s, const uint32_t *handles,
               size_t n); // counts a use of these rows
// Call before rows of partition p are removed for good: removes their copies on disk.
void cold_forget(struct store *s, uint32_t p, const uint32_t *handles, size_t n);
int cold_demote(struct store *s, uint32_t p,
                struct err *e); // demotes rows beyond the hot share
int cold_admin(struct store *s, uint32_t p,
               struct err *e); // does the order on its cold rows
// Walks the cold rows of a partition by ascending key, as store_each does.
int cold_each(struct store *s, uint32_t p, store_row_fn fn, void *ctx, struct err *e);
int cold_remove(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                struct err *e);
void cold_stats(const struct store *s, struct store_stats *x);

// cold_delta.c. For cuts of bases and deltas, in tables with config.deltas.
void cold_cut_begin(struct store *s);
void cold_cut_open(struct store *s, uint32_t p); // before it is read out
// In a delta: walks the rows on disk that had changed when the cut began.
int cold_each_changed(struct store *s, uint32_t p, store_row_fn fn, void *ctx,
                      struct err *e);
int cold_cut_published(struct store *s, uint32_t p, uint64_t key); // the row was written
int cold_cut_kept(struct store *s, uint32_t p,
                  uint64_t key);                   // keeps it for the next delta
int cold_cut_end(struct store *s, bool committed); // ENOMEM: call again
void cold_loaded(struct store *s);                 // no row counts as changed

#endif
