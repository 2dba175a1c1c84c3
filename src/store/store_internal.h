// What a store is made of, for store*.c, cut.c and cold.c.
//
//   store.c        making and ending one, lists
//   store_rows.c   rows and extra rows: made, removed, changed
//   store_batch.c  keys to rows, a batch at a time
//   store_push.c   pushes and pulls
//   store_steps.c  threads that step on rows in place
//   store_load.c   rows and partitions as they are saved
//   store_life.c   admin operations, budgets, days
//   store_stats.c  what there is, in numbers
//   store_check.c  what must hold, for builds with assertions
//   cut.c          rows as they were at one moment
//   cold.c         rows on disk: what comes in and goes out; cold_walk.c, cold_delta.c
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
    // Handles of rows made in it, in the order of making. Some may be gone, or be rows of
    // other keys by now (of another partition, or of this one again): who walks it looks
    // at the key, and at duplicates. Packed when half of it is stale and no cut goes on.
    struct handle_list rows;
    uint32_t live; // rows in memory
    uint32_t cold; // rows on disk
    uint32_t day;
    uint32_t order;      // number of the last order that it has been through
    struct entry *entry; // NULL: the policy remembers nothing, or no key came yet
    // Since the last base or delta (config.deltas). A row that was changed, removed and
    // made again stands in `changed` twice, and a removed one's handle may be another's
    // by now: a row counts if it is live, of this partition, and store.changed has its
    // bit, which who walks the list clears.
    struct handle_list changed;
    // Keys whose rows went; some may have one again. Nobody may ever ask for a
    // delta: when there are far more of them than rows, they are forgotten, and a
    // base must come first.
    struct key_list gone;
    bool gone_lost;
    // What STORE_PUBLISHED is about: rows that the cut has published. The cut fills it
    // and the operation empties it; rows changed meanwhile are passed over.
    struct handle_list published;
};

// Keys [begin, end) of a batch are of one partition.
struct store_run {
    uint32_t partition, begin, end;
};

enum { STORE_BATCH = 1024 }; // keys; more where one partition has more

// What lies beside the keys of a batch; grows to the largest.
struct store_scratch {
    size_t max;
    void *memory; // all of these are in it
    float **rows, **extras;
    uint64_t *keys; // of some of them, as some[] and which[] are
    uint32_t *handles, *some, *which;
    uint32_t *found; // the handles before rows were made
    float *divisors;
    float *kept; // rows before a push changed them, each with its extra row behind it
    size_t kept_max;
    struct store_run runs[STORE_BATCH];
};

struct cut;  // cut.c
struct cold; // cold.c

struct store {
    struct table_config config;
    struct store_options o; // o.config points at the above
    struct accessor accessor;
    struct accessor_scratch scratch;
    uint32_t n_parts;
    struct store_part *parts;

    struct table *rows;
    struct table_slabs view;
    struct handle_bits changed; // rows noted in store_part.changed
    struct handle_bits marks;   // scratch, all 0 between calls
    struct handle_bits turned;  // rows that had their turn before their partition
    struct handle_list walk;    // scratch of store_life.c
    struct store_scratch batch; // of store_push.c

    const struct life_class *life; // of the accessor; never NULL
    bool lives;                    // pushes carry statistics, or there are extra rows
    bool begins_whole;             // rows are made with their extra row
    struct entry_options entry;    // with the table's seed
    bool admits;                   // there is a policy
    uint64_t entry_bytes;          // of all partitions
    float *first;                  // a row and an extra row, scratch

    // Extra rows: [key][floats] as in a table, without an index.
    struct slabs extras;
    struct table_slabs extra_view;
    struct handle_list extra_free;
    struct limbo extra_limbo; // freed while threads step on rows (store_steps.h)
    uint64_t n_extras;

    uint64_t step;
    uint64_t published_by; // see store_published_by

    // The order that goes on: parts with .order != order_number have it before them.
    uint32_t order_number; // of the last one given
    enum store_admin order;
    float admin_threshold;
    uint32_t order_at; // partitions before it are done; n_parts: all are
    // An admin operation happens when it is given: partitions that come to it later do it
    // as of then.
    uint32_t admin_days; // that ended since
    uint64_t order_step;
    uint32_t demote_at; // partitions before it have been looked at today

    struct cut *cut;   // NULL: none goes on
    struct cold *cold; // NULL: no tier

    // A row may be beyond what rules make something finite of for sure (accessor_row_tame): pushes
    // keep copies of rows.
    bool wild;
    bool foreign;  // rows were set whole: states may be such as gradients do not make
    bool told;     // that an update was left out
    bool left_out; // one was, since store_take_left_out: the first of them of this key
    uint64_t left_out_key;
    bool watch; // this push's rows are looked at, whether they are tame still
    double
        grown; // by how much numbers of rows may have grown by pushes that were not watched
    bool steps;                                                 // threads step on rows
    void (*removed)(void *ctx, const uint64_t *keys, size_t n); // store_steps.h; or NULL
    void *removed_ctx;

    struct store_stats stats; // those that are counted
};

// store_partition, for loops over keys.
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
int handle_bits_reserve(struct handle_bits *b, uint32_t handles); // room for those below
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

// Rows for n keys of partition p that were just looked for and have none in memory: in
// the partition's list, known to the cut, and without an extra row, but with anything in
// them. Who asks writes all of them. All or none: TUG_ENOMEM.
int store_add_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                   uint32_t *ret_handles, struct err *e);
// The same of keys that have none at all: deltas note them.
int store_add_new_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                       uint32_t *ret_handles, struct err *e);
// The same, with first values: their life begins.
int store_make_rows(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                    uint32_t *ret_handles, struct err *e);
// Rows of partition p leave memory, with their extra rows. A cut that goes on must have
// been told (store_touch).
void store_drop_rows(struct store *s, uint32_t p, const uint32_t *handles, size_t n);
// The same for good: deltas note that they are gone. TUG_ENOMEM: nothing happened.
int store_remove_rows(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                      struct err *e);
// Forgets what is gone if it has become too much; after keys were added to the list.
void store_trim_gone(struct store *s, uint32_t p);
// The row's extra row, made with first values; NULL: no memory. It doesn't fail for the
// next n rows after store_reserve_extras. Or with anything in it (add).
int store_reserve_extras(struct store *s, size_t n);
float *store_add_extra(struct store *s, float *row);
float *store_make_extra(struct store *s, float *row);
void store_free_extra(struct store *s, float *row); // if it has one

// Before rows of partition p change: the cut copies them, deltas note them, the cold tier
// hears that they are in use. Cheap where none of this goes on. TUG_ENOMEM.
int store_touch(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                struct err *e);

// Whether n more rows fit max_bytes (0: whether there is less than that). TUG_ENOMEM.
int store_check_room(const struct store *s, size_t n, struct err *e);

// Deltas note rows of partition p as changed; part of store_touch.
int store_note(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
               struct err *e);

// Whether a handle of one of the partition's lists is a row of it now.
bool store_is_live(const struct store *s, uint32_t p, uint32_t handle);
// Live rows of partition p, each once, in the order of making, into a scratch list.
int store_live_rows(struct store *s, uint32_t p, struct handle_list *ret);

static inline struct life_time store_time(const struct store *s, uint32_t p)
{
    return (struct life_time){.day = s->parts[p].day, .step = s->step};
}

// Whether a push counts nothing: its examples were counted before.
static inline bool store_comes_again(const struct store *s, const struct store_push *p)
{
    return p->again && !s->config.count_all;
}

// store_batch.c

// Keys of whole partitions that are worked on together, with s->batch beside them.
// Zeroed: before the first.
struct store_batch {
    const uint64_t *keys;
    size_t at; // keys before it
    uint32_t n, n_runs;
    uint32_t last; // partition
    bool unset;    // rows are made with anything in them: all of it is written at once
    bool quiet;    // begins as store_is_quiet: runs are only listed when rows are made
};
// Whether nothing depends on the partitions of rows that are there: no life, no budget,
// no order, no cut, no tier, no deltas.
bool store_is_quiet(const struct store *s);
// The next one of n keys in all. TUG_EUSAGE: partitions do not ascend.
int store_batch_take(struct store *s, const uint64_t *keys, size_t n,
                     struct store_batch *b, struct err *e);
// Its partitions have their turn, its keys their handles: fetched if they are cold,
// TABLE_NONE without a row. On failure *b ends before the partition that failed.
int store_batch_find(struct store *s, struct store_batch *b, struct err *e);
// Rows are touched, and made for keys without one, if the policy wants them or `push` is
// NULL. Likewise.
int store_batch_make(struct store *s, struct store_batch *b,
                     const struct store_push *push, struct err *e);

// Lists the runs of a quiet batch. TUG_EUSAGE: partitions do not ascend.
int store_batch_runs(struct store *s, struct store_batch *b, struct err *e);
// The batch ends before its run r.
void store_batch_cut(struct store_batch *b, const struct store_scratch *x, uint32_t r);

// store_undo.c

// What rows of a batch are before a push changes them, and whether what it makes of them is
// finite: then it is done; else TUG_EUSAGE names the key, the batch ends before its partition,
// and that and those behind it are as they were before the push.
int store_undo_keep(struct store *s, const struct store_batch *b, struct err *e);
int store_undo_check(struct store *s, struct store_batch *b, bool gradients,
                     struct err *e);
// Whether none of this is needed: what the push makes of the table's rows is finite for sure.
bool store_push_is_tame(const struct store *s, const struct store_push *p,
                        const struct rule_params *rules);
// Whether it is known without a look how much rows grow by the push: little. Counts it.
bool store_grows_slowly(struct store *s, const struct store_push *p,
                        const struct rule_params *rules);
// Whether rows [i, i + n) of the batch, or rows that were set, are tame still: else s->wild.
void store_watch_rows(struct store *s, size_t i, size_t n);
void store_look_at_rows(struct store *s, const struct store_batch *b);

// store_load.c

// What ROWS_PARTITION holds of a partition, were it `t` now; store_put_partition reads
// it. The same bytes wherever it has the same history.
int store_get_partition(const struct store *s, uint32_t p, struct life_time t,
                        struct buf *ret);

// store_life.c: the partition's turn in the order that goes on, if it has not had it; and
// evictions beyond its budget.
int store_turn(struct store *s, uint32_t p, struct err *e);
// Whether rows that are asked for may have their turn in it alone: nobody waits for all
// rows of a partition then.
bool store_turns_rows(const struct store *s, uint32_t p);
// Their turn, of n handles of p, as far as they have not had it: TABLE_NONE for those
// that go. Scratch: s->batch.some, .which.
int store_turn_rows(struct store *s, uint32_t p, uint32_t *handles, uint32_t n,
                    struct err *e);
// Rows that are made meanwhile are not of the operation.
int store_turn_made(struct store *s, const uint32_t *handles, size_t n);
// When the order that goes on was given, as partition p counts.
static inline struct life_time store_admin_time(const struct store *s, uint32_t p)
{
    return (struct life_time){.day = s->parts[p].day - s->admin_days,
                              .step = s->order_step};
}
// Counts a row that shrink has removed, by why.
void store_count_evicted(struct store *s, const float *row, struct life_time t);
int store_keep_budget(struct store *s, uint32_t p, struct err *e);
// How many of a partition's rows go when it has so many.
uint32_t store_over_budget(const struct store *s, uint32_t live);

// cut.c. Called by store*.c and cold.c when s->cut != NULL.
//
// Before rows of p change or go: copies them.
int cut_before_change(struct store *s, uint32_t p, const uint32_t *handles, size_t n,
                      struct err *e);
// Before p's entry policy learns of a push: once for each push to p that it is asked
// about.
int cut_before_admit(struct store *s, uint32_t p, struct err *e);
// Once its handle is known, before it is anything more. ENOMEM: it must not be made.
int cut_row_made(struct store *s, uint32_t p, uint32_t handle);
// A cold row that came into memory, complete: it is no new one (after cut_row_made, if
// that was called for it).
int cut_row_promoted(struct store *s, uint32_t p, uint32_t handle);
// Of a base or delta.
bool cut_publishing(const struct store *s);
// A row that must not be demoted now.
bool cut_keeps(const struct store *s, uint32_t p, uint32_t handle);
void cut_close(struct store *s);

// cold.c. Called by store*.c and others when s->cold != NULL.
int cold_open(struct store *s, struct err *e);
void cold_close(struct store *s);
// Rows of those keys of a batch that have none in memory (handles TABLE_NONE)
// and are cold come into memory: their handles are filled in. *ret_runs: so many
// of the runs are done.
int cold_fetch_runs(struct store *s, const struct store_run *runs, uint32_t n_runs,
                    const uint64_t *keys, uint32_t *handles, uint32_t *ret_runs,
                    struct err *e);
void cold_used(struct store *s, const uint32_t *handles, size_t n); // rows are in use
// Rows of partition p are about to leave memory for good: so do their copies on disk.
void cold_forget(struct store *s, uint32_t p, const uint32_t *handles, size_t n);
int cold_demote(struct store *s, uint32_t p, struct err *e); // beyond the hot rows' share
int cold_admin(struct store *s, uint32_t p, struct err *e);  // on its cold rows
// The cold rows of a partition by ascending key, as store_each gives rows.
int cold_each(struct store *s, uint32_t p, store_row_fn fn, void *ctx, struct err *e);
int cold_remove(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                struct err *e);
void cold_stats(const struct store *s, struct store_stats *x);

// cold_delta.c. Cuts of bases and deltas, of tables with config.deltas; see there.
void cold_cut_begin(struct store *s);
void cold_cut_open(struct store *s, uint32_t p); // it is read out
// Of a delta: rows on disk that had changed when the cut began.
int cold_each_changed(struct store *s, uint32_t p, store_row_fn fn, void *ctx,
                      struct err *e);
int cold_cut_published(struct store *s, uint32_t p, uint64_t key); // it is written
int cold_cut_kept(struct store *s, uint32_t p, uint64_t key);      // for the next delta
int cold_cut_end(struct store *s, bool committed);                 // ENOMEM: try again
void cold_loaded(struct store *s);                                 // nothing has changed

#endif
