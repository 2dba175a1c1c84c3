// A store is one owner's part of a table (the owner is a loop of a server, or a process
// alone): the rows of its partitions with their extra rows, entry policies, budgets, a
// cold tier, and notes of the changes since the last delta.
//
// The partition is the unit of everything. The value of a row depends only on its
// partition's history of pushes and admin operations, so that one store with all
// partitions and three with a third each hold the same bits.
//
// Admin operations for the whole table (shrink, clear, published) walk over the
// partitions, a few at a time between requests, so that no request waits for more than
// one partition. A push or pull to a partition that has not had its turn does its turn
// first, and so sees the operation done.
//
// Cuts (store/cut.h) copy rows before their first change. Admin operations and cuts
// exclude each other: an order during the other fails, and the caller tries again.
//
// Threads: a store has one owner at a time.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_STORE_H
#define TUG_STORE_STORE_H

#include "accessor/accessor.h"
#include "accessor/entry.h"
#include "base/clock.h"
#include "store/config.h"
#include "table/table.h"

struct store_options {
    const struct table_config *config; // copied
    uint32_t id;                       // of the table: enters its random numbers
    uint32_t partition_bits;
    uint64_t
        max_bytes; // limit of rows, sketches and index; a push beyond it fails; 0: none
    const char
        *cold_dir; // this owner's directory; NULL: no tier, whatever the config says
};

struct store;
int store_open(struct store **ret, const struct store_options *o, struct err *e);
void store_close(struct store *s); // NULL is fine

const struct accessor *store_accessor(const struct store *s);
const struct table_config *store_config(const struct store *s);
uint32_t store_id(const struct store *s); // the id of its table
uint32_t store_partition_bits(const struct store *s);
uint32_t store_partition(const struct store *s, uint64_t key); // the partition of a key

enum store_op {
    STORE_GRADIENT, // n x push_width: rules apply them
    STORE_ASSIGN,   // n x (weights of both groups): sets them; makes rows whatever the
                    // entry policy says, and extra rows unless all their values are 0
    STORE_ROW,      // n x width: sets whole rows. Only for rows without a lifecycle
    STORE_DELTA,    // n x width: adds to whole rows; the sender has applied the rules of
                    // their weights. Likewise
};

// Keys are distinct and come by ascending partition; values are finite. Each partition
// gets all of its keys or none: on failure the first *ret_keys keys (may be NULL) are
// done and the others unchanged, except for the counts of entry policies.
struct store_push {
    enum store_op op;
    const uint64_t *keys;
    size_t n;
    const float *values;
    float rate;  // factor of the rules' rates, besides the table's schedule
    float pass;  // 1, 2, ...: see rule_params.prior
    float scale; // factor of gradients
    bool again;  // a later pass over the same examples: shows, clicks, changes of
                 // score and the entry policy do not count them again (unless
                 // config.count_all)
};
int store_push(struct store *s, const struct store_push *p, size_t *ret_keys,
               struct err *e);
// Returns whether whole rows can be set, pulled and walked: rows without a lifecycle.
bool store_has_whole_rows(const struct store *s);

// Pulls n x pull_width values, by keys in the order of store_push: of the row, or the
// first values that it would get. Makes no row. `found` (may be NULL): 1 for keys with a
// row.
int store_pull(struct store *s, const uint64_t *keys, size_t n, float *values,
               uint8_t *found, struct err *e);
// Likewise for whole rows: n x width.
int store_pull_rows(struct store *s, const uint64_t *keys, size_t n, float *rows,
                    uint8_t *found, struct err *e);

// Replaces max_bytes by what other tables leave.
void store_set_limit(struct store *s, uint64_t max_bytes);

// The table's global step (of all workers together), for schedules and time to live.
void store_set_step(struct store *s, uint64_t step);
uint64_t store_step_of(const struct store *s);
// Ends a day: rows are unseen for one day more.
void store_day(struct store *s);

// The checksum of the manifest of the base or delta that published the table last, or of
// the save that it was loaded from; 0: none. A delta builds on that save only
// (save/save.h).
uint64_t store_published_by(const struct store *s);
void store_set_published_by(struct store *s, uint64_t checksum);

// Admin operations.
enum store_admin {
    STORE_SHRINK,    // decays rows and removes those below the threshold
    STORE_CLEAR,     // removes all rows, cold ones too, and sketches
    STORE_PUBLISHED, // used by cut.h after a base or delta was committed
};
// Begins an operation. TUG_EUSAGE if another one or a cut is in progress: finish it
// first. `threshold` replaces shrink's delete_threshold; NAN: keeps that.
int store_admin(struct store *s, enum store_admin o, float threshold, struct err *e);
// Continues an admin operation, or demotions, for about so long. Returns true if there is
// more to do, also if memory or disk are out: store_finish says why.
bool store_work(struct store *s, uint64_t ns);
int store_finish(struct store *s, struct err *e); // does the rest

struct store_stats {
    uint64_t rows, extra_rows, cold_rows;
    uint64_t bytes; // rows, extra rows, index, sketches, lists, and the cold tier's
                    // memory limit
    uint64_t made, refused; // rows made; pushes of keys that the policy refused
    uint64_t evicted_score, evicted_age, evicted_ttl, evicted_budget; // removed, by why
    uint64_t hot_hits, promoted, demoted;                             // with a tier
    uint64_t changed;  // rows since the last delta
    uint64_t left_out; // updates, since a state of their rule would have become infinite
    uint32_t day;
    uint64_t step;
};
struct store_stats store_stats(const struct store *s);
// The key of the first update that was left out since the last call; false: none was.
bool store_take_left_out(struct store *s, uint64_t *ret_key);

// Assert the invariants: quickly, or row by row, which takes long. No thread may use the
// store meanwhile. Without assertions they do nothing.
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

// Returns the row of a key in place (for evaluation in the same process, and tests); NULL
// if it is not in memory.
const float *store_row(const struct store *s, uint64_t key, const float **ret_extra);

// Calls `fn` for all rows of a partition by ascending key, cold ones too; `extra` is NULL
// if not earned.
typedef int (*store_row_fn)(void *ctx, uint64_t key, const float *row, const float *extra,
                            struct err *e);
int store_each(struct store *s, uint32_t partition, store_row_fn fn, void *ctx,
               struct err *e);
// Likewise for keys from `from` on.
int store_each_from(struct store *s, uint32_t partition, uint64_t from, store_row_fn fn,
                    void *ctx, struct err *e);

// TUG_EDATA: loaded values are checked as pushed ones are.
int store_not_finite(uint64_t key, const char *table, struct err *e);
// Puts saved rows: replaces or makes them, whatever the entry policy says. For loads.
int store_put_rows(struct store *s, const uint64_t *keys, size_t n, const float *rows,
                   struct err *e); // n x width; handles of extra rows in them are ignored
int store_put_extras(struct store *s, const uint64_t *keys, size_t n, const float *extras,
                     struct err *e); // for keys with a row
// Copies all rows of a store into an empty one with the same settings; or moves a
// partition with its rows, counters and sketches to a store that has nothing of it.
// Neither store may have an operation or a cut in progress. On failure copied rows stay,
// and a partition to be moved stays where it was.
int store_copy(struct store *to, struct store *from, struct err *e);
int store_move(struct store *to, struct store *from, uint32_t partition, struct err *e);
// The weights of each row of `from` into those in `to`, of the same settings: mean +=
// share (weight - mean); the rest of a row, and a row that `to` lacks, become what they
// are in `from`. TUG_EUSAGE: rows have a life.
int store_mean(struct store *to, struct store *from, float share, struct err *e);
int store_remove(struct store *s, const uint64_t *keys, size_t n, struct err *e);
// Puts the counters and sketches of a partition, as cut.h writes them.
int store_put_partition(struct store *s, uint32_t partition, const void *bytes, size_t n,
                        struct err *e);
// After a load: the rows equal a save's, so that none counts as changed.
void store_loaded(struct store *s);

#endif
