// Accessors: what the columns of a row mean, and how gradients change them.
//
// A table sees a row as a number of floats. An accessor defines which floats are weights,
// which are a rule's state, and which one counts the row's updates. That suffices to
// apply gradients, so the owner of rows (a trainer or a server) need not know the model.
//
// A row has one or two groups of weights, each with its rule's state, and maybe a count:
//
//   [group 0: n weights | state][count][group 1: n weights | state]
//
// Packed, as values are sent:
//
//   a pull   [weights of group 0][weights of group 1]
//   a push   [gradients of group 0][gradients of group 1][occurrences][squares]
//
// An accessor without a count has no occurrences and squares (plain: an array of floats
// under one rule).
//
// Or a row has a lifecycle (accessor/life.h): statistics instead of a count, and maybe a
// second group in its own row, the extra row, which is made when it is earned:
//
//   [group 0: weights | state][statistics][handle of the extra row]     [group 1: weights | state]
//
//   a pull   [pulled statistics][weights of group 0][weights of group 1, or zeros]
//   a push   [gradients of group 0][gradients of group 1][pushed statistics]
//
// Rows are shared (base/relaxed.h); all other memory belongs to the caller.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_ACCESSOR_ACCESSOR_H
#define TUG_ACCESSOR_ACCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accessor/life.h"
#include "base/err.h"
#include "kernels/kernels.h"
#include "table/table.h"

enum { ACCESSOR_MAX_GROUPS = 2, ACCESSOR_MAX_STATS = 256 };

#define ACCESSOR_NO_COUNT UINT32_MAX

struct accessor_group {
    uint32_t weights; // column of the first weight
    uint32_t n;
    // Number of weights, from the first, with random initial values; all further weights
    // begin with 0.
    uint32_t random;
    uint32_t state; // the first column of the rule's state
    uint32_t n_state;
    struct rule_params rule;
    // Whether weight decay in an update is multiplied by the mean square of the feature's
    // values in the batch. This is for weights of ffm, whose products with other weights
    // are multiplied by these values.
    bool decays_by_squares;
};

struct accessor {
    uint32_t n_groups;
    struct accessor_group groups[ACCESSOR_MAX_GROUPS];
    uint32_t count;      // the column of the count of updates, or ACCESSOR_NO_COUNT
    uint32_t width;      // floats in a row
    uint32_t pull_width; // floats that a pull returns for a key
    uint32_t push_width; // floats that a push carries for a key

    // The following members are for rows with a lifecycle.
    // NULL: rows do not have a lifecycle (plain, merge).
    const struct accessor_class *class;
    struct life life;
    uint32_t stats, n_stats; // the first column of the statistics, and their number
    // Numbers of statistics: those that a pull returns, and those that a push carries.
    uint32_t pulled_stats, pushed_stats;
    uint32_t extra;       // the column with the extra row's handle + 1, as bits; 0: none
    uint32_t extra_width; // floats of the extra row; 0: no extra rows
};

// Layouts have names: those of ACCESSORS (accessor_internal.h), Paddle's names for them
// (CtrCommonAccessor, SparseAccessor, ...), and names of a program's own layouts.
enum { ACCESSOR_NAME_MAX = 32 };
struct accessor_options {
    char name[ACCESSOR_NAME_MAX];
    // Accessors plain and merge: floats of a row; other accessors: floats of embedx, may be 0.
    uint32_t dim;
    struct rule_params rule;  // the rule of group 0
    struct rule_params extra; // the rule of embedx
    uint32_t embed;           // for features: floats of group 0
    uint32_t random; // for features: number of floats of embedx that begin with random
                     // values; 0: all
    bool by_squares; // for features: decays_by_squares of embedx
    struct life life;
};
// A row stores a statistic in one of these forms: a float, a double in two floats, the
// bits of a uint32_t, or a day of the table.
enum accessor_number { NUMBER_FLOAT, NUMBER_DOUBLE, NUMBER_BITS, NUMBER_DAY };
struct accessor_class {
    const char *name, *about;
    int (*layout)(const struct accessor_options *o, struct accessor *ret, struct err *e);
    // Returns the form of a statistic, a column counted from accessor.stats. NULL if all
    // statistics are floats.
    enum accessor_number (*number)(const struct accessor *a, uint32_t column);
    bool clicks; // the statistics are those of life.h: a slot, a day, shows and clicks
    // The number of pushed statistics, counted from the last, that are not added up when
    // pushes of a key are merged; the value of the last push is kept (slots).
    uint32_t kept_stats;
    // Blocks of rules that share state among a block of weights (rule_info.per_block).
    // The extra group is one block, unless `rules_give_blocks` is true: then the rule
    // says how many weights a block has, because the group may be several vectors. If
    // `weights_are_block` is true, group 0 is one block, too.
    bool rules_give_blocks, weights_are_block;
    struct life_class life;
};
const struct accessor_class *accessor_find(const char *name, struct err *e);
// Returns the accessors one by one, a program's own last; NULL after the last.
const struct accessor_class *accessor_class_at(size_t i);
enum {
    ACCESSOR_MAX_CLASSES = 32,
    ACCESSOR_NAMES_MAX = ACCESSOR_MAX_CLASSES * (ACCESSOR_NAME_MAX + 2)
};
// Lists the names of all accessors, or of those with shows and clicks: "a, b, c".
void accessor_names(bool clicks, char ret[ACCESSOR_NAMES_MAX]);
// Returns the form in which rows store the column.
enum accessor_number accessor_number(const struct accessor *a, uint32_t column);
// Returns whether rows have the statistics of life.h: shows and clicks.
bool accessor_has_clicks(const struct accessor *a);
// Sets the class by its name, and the further options that some of Paddle's names imply.
int accessor_choose(struct accessor_options *o, const char *name, struct err *e);
bool accessor_class_is_own(
    const struct accessor_class *c); // returns whether the class comes with tug
int accessor_register(const struct accessor_class *c, struct err *e);
bool accessor_has_life(const struct accessor_class *c);
// Makes the layout for these options and checks it. TUG_EUSAGE if an option is wrong; the
// sentence names it. `*ret` does not point into `*o`.
int accessor_make(struct accessor *ret, const struct accessor_options *o, struct err *e);

// Layouts are made by adding columns to an empty one.
#define ACCESSOR_EMPTY ((struct accessor){.count = ACCESSOR_NO_COUNT})
struct accessor_group *accessor_add_group(struct accessor *a,
                                          const struct rule_params *rule, uint32_t n);
void accessor_add_count(struct accessor *a);

// Makes the layout of accessor plain: n floats under one rule.
void accessor_plain(struct accessor *ret, struct rule_params rule, uint32_t n);

// Makes a layout in which the values that a pull of `a` returns are a row. Such rows can
// only be read.
void accessor_packed(struct accessor *ret, const struct accessor *a);

// Checks a layout that comes from a message, file or program. TUG_EDATA if it is wrong;
// the error has the reason.
int accessor_check(const struct accessor *a, struct err *e);

// Gets the rules of all groups, with their learning rates multiplied by `factor`.
void accessor_rules(const struct accessor *a, float factor,
                    struct rule_params ret[ACCESSOR_MAX_GROUPS]);

// Copies the columns that a pull returns from n rows into `ret`, n x pull_width floats.
// If a row is NULL, its floats in `ret` stay unchanged (accessor_first writes them).
void accessor_gather(const struct accessor *a, float *const *rows, size_t n, float *ret);

// Writes the floats that a pull returns for a key without a row. Statistics and weights
// of the extra row are zeros.
void accessor_first(const struct accessor *a, const struct table *t, uint64_t key,
                    float *ret);

// Sets the initial values of a table's rows (t->inits). In each group, the first `random`
// weights are uniform in [low, high) (group 0) or [low1, high1) (group 1, if it lies in
// the same row). States begin with their rules' n0.
void accessor_inits(const struct accessor *a, float low, float high, float low1,
                    float high1, struct table_options *t);

// Writes the initial extra row of `key` (extra_width floats), with random weights in
// [low, high).
void accessor_first_extra(const struct accessor *a, const struct table *t, uint64_t key,
                          float low, float high, float *ret);

// Scratch memory of one thread that applies updates.
struct accessor_scratch {
    const struct accessor *accessor;
    const struct kernels *kernels;
    float *scaled; // room for the scaled gradients of one group of a row
};
int accessor_scratch_init(struct accessor_scratch *s, const struct accessor *a,
                          const struct kernels *k, struct err *e);
void accessor_scratch_fini(struct accessor_scratch *s); // a zeroed scratch is fine

// An update of n distinct rows, once each, with gradients that were added up over a
// batch.
struct accessor_update {
    // The rule of each group, at the current learning rate.
    const struct rule_params *rules;
    float pass;  // number of the pass, from 1 (rule_params.prior needs it)
    float scale; // the factor of all gradients
    size_t n;
    float *const *rows;
    // The gradients of each group, for each row.
    const float *const *gradients[ACCESSOR_MAX_GROUPS];
    // `occurrences` and `squares` are not read if rows do not have a count; both then
    // count as 1 for every row.
    const float *occurrences; // number of occurrences of each row in the batch
    // The sum of u^2 over each row's occurrences, u being the feature's value.
    const float *squares;
};
void accessor_apply(struct accessor_scratch *s, const struct accessor_update *u);

// Like struct accessor_update, but the gradients are n x push_width values as in a
// message.
struct accessor_push {
    const struct rule_params *rules;
    float pass, scale;
    size_t n;
    float *const *rows;
    const float *values;
};
void accessor_apply_packed(struct accessor_scratch *s, const struct accessor_push *p);

// Like struct accessor_push, but for rows with a lifecycle. extras[i] is the extra row of
// row i; if it is NULL, row i has no extra row, and gradients for it are dropped.
// divisors[i] is the result of life_class.seen for row i; gradients are multiplied by
// scale / divisors[i]. accessor_apply, accessor_apply_packed and accessor_apply_life all
// apply the rules' clip, clip_norm and bounds.
struct accessor_life_push {
    const struct rule_params *rules;
    float scale;
    size_t n;
    float *const *rows;
    float *const *extras; // NULL: no row has an extra row
    const float *values;
    const float *divisors; // NULL: all divisors are 1
};
void accessor_apply_life(struct accessor_scratch *s, const struct accessor_life_push *p);

// Does what accessor_gather does, for rows with a lifecycle. If extras or extras[i] is
// NULL, the weights of row i's extra row are written as zeros.
void accessor_gather_life(const struct accessor *a, float *const *rows,
                          float *const *extras, size_t n, float *ret);

// Returns whether rows have a lifecycle: statistics, an extra row, or removal. Callers
// that know the columns may set, change and read rows without a lifecycle as a whole.
static inline bool accessor_has_lifecycle(const struct accessor *a)
{
    return (a->class != NULL && a->class->life.seen != NULL) || a->extra_width > 0 ||
           a->pushed_stats > 0 || a->pulled_stats > 0;
}

// Returns the number of weights of all groups.
static inline uint32_t accessor_weights(const struct accessor *a)
{
    uint32_t n = 0;
    for (uint32_t g = 0; g < a->n_groups; g++)
        n += a->groups[g].n;
    return n;
}

static inline uint32_t accessor_extra(const struct accessor *a, const float *row)
{
    uint32_t bits;
    __builtin_memcpy(&bits, row + a->extra, sizeof(bits));
    return bits - 1; // 0 gives TABLE_NONE
}

static inline void accessor_set_extra(const struct accessor *a, float *row,
                                      uint32_t handle)
{
    uint32_t bits = handle + 1;
    __builtin_memcpy(row + a->extra, &bits, sizeof(bits));
}

// Returns whether the numbers of a row, and of its extra row unless that is NULL, are
// finite: the weights, the states of tug's own rules, and the count of updates. In a row
// without a lifecycle these are all its floats.
bool accessor_row_finite(const struct accessor *a, const float *row, const float *extra);
bool accessor_weights_finite(const struct accessor *a, const float *row,
                             const float *extra);
bool accessor_extra_finite(const struct accessor *a, const float *extra);
// Numbers of rows and pushes are called tame if they are below these bounds. With tame
// numbers, the result of an update by most rules stays within the range of floats.
// Checking a push against the bounds before it is applied costs less than keeping copies
// of rows to undo it.
#define ACCESSOR_TAME_ROW 0x1p40f
#define ACCESSOR_TAME_PUSH 0x1p20f
// accessor_rules_tame returns whether rules with these rates turn tame rows and tame
// gradients into finite rows. accessor_row_tame returns whether a row is tame: its
// numbers are within the bounds, and states whose square root a rule takes are not
// negative. accessor_push_tame returns whether the gradients of n keys, divided by their
// divisors, are tame; `most` is the largest magnitude of the pushed values.
bool accessor_rules_tame(const struct accessor *a, const struct rule_params *rules);
bool accessor_row_tame(const struct accessor *a, const float *row, const float *extra);
bool accessor_push_tame(const struct accessor *a, const float *values, size_t n,
                        float most);
// Returns whether finite rows stay finite under every push of gradients.
bool accessor_stays_finite(const struct accessor *a);

#endif
