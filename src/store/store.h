// A store: what one owner (a loop of a server, or a process alone) holds of a table with
// all that its rows live by: the rows of its partitions, extra rows, entry policies,
// budgets, a cold tier, and what has changed since the last delta.
//
// The partition is the unit of everything. What happens to a row depends on its
// partition's own history of pushes and admin operations and on nothing else, so one
// store with all partitions and three with a third each hold the same bits.
//
// Admin operations for the whole table (shrink, clear, published) are walks over
// partitions, a few at a time between requests: nobody waits for more than a partition. A
// push or pull that comes to a partition that has not had its turn gives it the turn
// first, so it sees the operation done.
//
// Cuts (store/cut.h) copy rows before their first change. Admin operations and cuts
// exclude each other: who gives one while the other goes on is told to come again.
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
    uint32_t id;                       // of the table: part of its random numbers
    uint32_t partition_bits;
    uint64_t max_bytes;   // of rows, sketches and index; a push beyond it fails; 0: none
    const char *cold_dir; // this owner's; NULL: no tier, whatever the config says
};

struct store;
int store_open(struct store **ret, const struct store_options *o, struct err *e);
void store_close(struct store *s); // NULL is fine

const struct accessor *store_accessor(const struct store *s);
const struct table_config *store_config(const struct store *s);
uint32_t store_id(const struct store *s); // of its table
uint32_t store_partition_bits(const struct store *s);
uint32_t store_partition(const struct store *s, uint64_t key); // of a key

enum store_op {
    STORE_GRADIENT, // n x push_width: rules apply them
    STORE_ASSIGN, // n x (weights of both groups): set; makes rows whatever the entry policy
                  // says, and extra rows unless all their values are 0
    STORE_ROW,    // n x width: whole rows are set. Only of rows without a life
    STORE_DELTA, // n x width: added to whole rows, whose weights' rules were applied by
                 // who pushes. Likewise
};

// Keys are distinct and come by ascending partition. Each partition gets all of its keys
// or none: on failure the first *ret_keys (may be NULL) are done and the others are as
// they were, but for what an entry policy has counted. Values are finite.
struct store_push {
    enum store_op op;
    const uint64_t *keys;
    size_t n;
    const float *values;
    float rate;  // factor of the rules' rates, beside the table's schedule
    float pass;  // 1, 2, ...: see rule_params.prior
    float scale; // of gradients
    bool again;  // of examples that were pushed before in the run: shows, clicks, changes
                 // of score and the entry policy count them once
                 // (config.count_all: again)
};
int store_push(struct store *s, const struct store_push *p, size_t *ret_keys,
               struct err *e);
// Whether whole rows can be set, pulled and walked: those without a life.
bool store_has_whole_rows(const struct store *s);

// n x pull_width: rows as they are, or what they would begin with. Makes none. Same order
// of keys. `found` (may be NULL): 1 where there is a row.
int store_pull(struct store *s, const uint64_t *keys, size_t n, float *values,
               uint8_t *found, struct err *e);
// The same of whole rows: n x width.
int store_pull_rows(struct store *s, const uint64_t *keys, size_t n, float *rows,
                    uint8_t *found, struct err *e);

// Another limit than max_bytes: what other tables leave.
void store_set_limit(struct store *s, uint64_t max_bytes);

// The table's global step (of all workers together): schedules and time to live.
void store_set_step(struct store *s, uint64_t step);
uint64_t store_step_of(const struct store *s);
// A day has ended: rows are unseen for one day more.
void store_day(struct store *s);

// The base or delta by which it was published last, or the save that it was loaded from:
// the checksum of its manifest. 0: none. A delta builds on nothing else (save/save.h).
uint64_t store_published_by(const struct store *s);
void store_set_published_by(struct store *s, uint64_t checksum);

// Admin operations.
enum store_admin {
    STORE_SHRINK,    // decays rows, removes those that have faded
    STORE_CLEAR,     // removes all rows, sketches, and what is cold
    STORE_PUBLISHED, // cut.h's, after a base or delta was committed
};
// TUG_EUSAGE: another order or a cut goes on; finish it first. `threshold`: of shrink in
// place of delete_threshold; NAN: that one.
int store_admin(struct store *s, enum store_admin o, float threshold, struct err *e);
// Goes on with what goes on (an admin operation, demotions) for about so long; true:
// there is more. So it says when memory or disk are short, too: store_finish tells why.
bool store_work(struct store *s, uint64_t ns);
int store_finish(struct store *s, struct err *e); // all of it

struct store_stats {
    uint64_t rows, extra_rows, cold_rows;
    uint64_t bytes; // rows, extra rows, index, sketches, lists; what the cold tier
                    // may take of memory
    uint64_t made, refused; // rows; pushes of keys that the policy kept out
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

// That what must hold does, by assertions: in a moment, or row by row, which takes long.
// Nobody may be at the store. Without assertions they are nothing.
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

// The row of a key, for who looks at it where it lies (evaluation in the same process,
// tests); NULL: it is not in memory.
const float *store_row(const struct store *s, uint64_t key, const float **ret_extra);

// All rows of a partition by ascending key, cold ones too; `extra` NULL where not earned.
typedef int (*store_row_fn)(void *ctx, uint64_t key, const float *row, const float *extra,
                            struct err *e);
int store_each(struct store *s, uint32_t partition, store_row_fn fn, void *ctx,
               struct err *e);
// The same of keys from `from` on.
int store_each_from(struct store *s, uint32_t partition, uint64_t from, store_row_fn fn,
                    void *ctx, struct err *e);

// TUG_EDATA: what is loaded is looked at like what is pushed.
int store_not_finite(uint64_t key, const char *table, struct err *e);
// Rows as they were saved: replaced or made, whatever the entry policy says. For loads.
int store_put_rows(
    struct store *s, const uint64_t *keys, size_t n, const float *rows,
    struct err *e); // n x width; handles of extra rows in them are not looked at
int store_put_extras(struct store *s, const uint64_t *keys, size_t n, const float *extras,
                     struct err *e); // of keys that have a row
// All rows of a store of the same settings into an empty one. Or what there is of
// a partition, which the other has nothing of: rows, counters, sketches. No operation
// and no cut goes on in either. On failure what was copied stays; what was to be
// moved is where it was.
int store_copy(struct store *to, struct store *from, struct err *e);
int store_move(struct store *to, struct store *from, uint32_t partition, struct err *e);
// The weights of each row of `from` into those in `to`, of the same settings: mean +=
// share (weight - mean); the rest of a row, and a row that `to` lacks, become what they
// are in `from`. TUG_EUSAGE: rows have a life.
int store_mean(struct store *to, struct store *from, float share, struct err *e);
int store_remove(struct store *s, const uint64_t *keys, size_t n, struct err *e);
// Counters and sketches of a partition, as cut.h writes them.
int store_put_partition(struct store *s, uint32_t partition, const void *bytes, size_t n,
                        struct err *e);
// After a load: what there is now is what a save holds, so nothing has changed since.
void store_loaded(struct store *s);

#endif
