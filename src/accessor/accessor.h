// Accessors: what the columns of a row mean, and how gradients change them.
//
// A table sees a row as a number of floats. An accessor knows which of them are weights,
// which are a rule's state, and which counts the row's updates. That suffices to apply
// gradients, so that the owner of rows (a trainer, a server) need not know their model.
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
// without the last two if the accessor has no count (a plain one: an array of floats
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
    // Number of weights, from the first, with random initial values; others: 0.
    uint32_t random;
    uint32_t state; // column of the rule's state
    uint32_t n_state;
    struct rule_params rule;
    // Whether weight decay in an update is scaled by the mean square of the feature's
    // values in the batch, instead of 1: for weights (of ffm) whose products with other
    // weights are multiplied by these values.
    bool decays_by_squares;
};

struct accessor {
    uint32_t n_groups;
    struct accessor_group groups[ACCESSOR_MAX_GROUPS];
    uint32_t count;      // column of the count of updates; ACCESSOR_NO_COUNT: none
    uint32_t width;      // floats in a row
    uint32_t pull_width; // floats that a pull returns for a key
    uint32_t push_width; // floats that a push carries for a key

    // The following members are for rows with a lifecycle.
    const struct accessor_class *class; // NULL: rows have no lifecycle (plain, merge)
    struct life life;
    uint32_t stats, n_stats; // columns of the statistics
    // The numbers of statistics that a pull returns and that a push carries.
    uint32_t pulled_stats, pushed_stats;
    uint32_t extra;       // column of the extra row's handle + 1, as bits
    uint32_t extra_width; // floats of the extra row; 0: none
};

// Layouts by name: "plain", "merge", "sparse", "ctr", "ctr_double", "counter", "features"
// (the rows of models: accessor_features.c), Paddle's names
// (CtrCommonAccessor, DownpourCtrAccessor, SparseAccessor, CtrDoubleAccessor,
// CommMergeAccessor, ...), and a program's own.
enum { ACCESSOR_NAME_MAX = 32 };
struct accessor_options {
    char name[ACCESSOR_NAME_MAX];
    uint32_t dim; // plain, merge: floats of a row; others: floats of embedx, may be 0
    struct rule_params rule;  // the rule of group 0
    struct rule_params extra; // the rule of embedx
    uint32_t embed;           // features: floats of group 0
    uint32_t random; // features: how many floats of embedx begin at random, the others
                     // at 0; 0: all
    bool by_squares; // features: embedx decays_by_squares
    struct life life;
};
struct accessor_class {
    const char *name, *about;
    int (*layout)(const struct accessor_options *o, struct accessor *ret, struct err *e);
    // How many of the pushed statistics, from the last, are not added up when pushes of a
    // key are merged: the last push's value stays (slots).
    uint32_t kept_stats;
    struct life_class life;
};
const struct accessor_class *accessor_find(const char *name, struct err *e);
// Sets the class by its name; Paddle's names imply further options, which are set, too.
int accessor_choose(struct accessor_options *o, const char *name, struct err *e);
bool accessor_class_is_own(
    const struct accessor_class *c); // whether it is tug's and not a program's
int accessor_register(const struct accessor_class *c, struct err *e);
bool accessor_has_life(const struct accessor_class *c);
// Makes and checks the layout for these options; TUG_EUSAGE says what is wrong. `*ret`
// does not point into `*o`.
int accessor_make(struct accessor *ret, const struct accessor_options *o, struct err *e);

// Layouts are made by adding columns to an empty one.
#define ACCESSOR_EMPTY ((struct accessor){.count = ACCESSOR_NO_COUNT})
struct accessor_group *accessor_add_group(struct accessor *a,
                                          const struct rule_params *rule, uint32_t n);
void accessor_add_count(struct accessor *a);

// Makes the layout of n floats under one rule, as in a key-value store.
void accessor_plain(struct accessor *ret, struct rule_params rule, uint32_t n);

// Makes the layout of a pull's values seen as a row, to read and not to update.
void accessor_packed(struct accessor *ret, const struct accessor *a);

// Checks a layout from outside; TUG_EDATA says what is wrong.
int accessor_check(const struct accessor *a, struct err *e);

// Gets the rules of all groups with their rates times `factor`.
void accessor_rules(const struct accessor *a, float factor,
                    struct rule_params ret[ACCESSOR_MAX_GROUPS]);

// Packs the pulled columns of n rows into n x pull_width floats. The floats of a NULL row
// stay unchanged: see accessor_first.
void accessor_gather(const struct accessor *a, float *const *rows, size_t n, float *ret);

// Gets the pulled columns of the initial row of `key`. Statistics and weights of an extra
// row are zeros.
void accessor_first(const struct accessor *a, const struct table *t, uint64_t key,
                    float *ret);

// Sets the initial values of a table's rows, replacing the inits of *t: weights of group
// 0 uniform in [low, high), those of a group 1 in the same row in [low1, high1), both as
// far as the group's `random`; states as their rules begin.
void accessor_inits(const struct accessor *a, float low, float high, float low1,
                    float high1, struct table_options *t);

// Gets the initial extra row of `key` (extra_width floats), with random weights in [low,
// high).
void accessor_first_extra(const struct accessor *a, const struct table *t, uint64_t key,
                          float low, float high, float *ret);

// Scratch memory of one thread that applies updates.
struct accessor_scratch {
    const struct accessor *accessor;
    const struct kernels *kernels;
    float *scaled; // the scaled gradients of a group of a row
};
int accessor_scratch_init(struct accessor_scratch *s, const struct accessor *a,
                          const struct kernels *k, struct err *e);
void accessor_scratch_fini(struct accessor_scratch *s); // a zeroed one is fine

// Updates each of n distinct rows once, by gradients that were added up over a batch.
struct accessor_update {
    const struct rule_params *rules; // of the groups, at the current rate
    float pass;                      // 1, 2, ...: see rule_params.prior
    float scale;                     // of all gradients
    size_t n;
    float *const *rows;
    const float *const *gradients[ACCESSOR_MAX_GROUPS]; // by group and row
    // Without a count both count as 1 for every row, and these are not read.
    const float *occurrences; // of the row in the batch
    const float *squares;     // the sum of u^2 over them
};
void accessor_apply(struct accessor_scratch *s, const struct accessor_update *u);

// As struct accessor_update, but with n x push_width values as a message has them.
struct accessor_push {
    const struct rule_params *rules;
    float pass, scale;
    size_t n;
    float *const *rows;
    const float *values;
};
void accessor_apply_packed(struct accessor_scratch *s, const struct accessor_push *p);

// As struct accessor_push, for rows with a lifecycle. extras[i] is the extra row of row
// i; NULL: there is none, and its gradients are dropped. divisors[i]: the result of
// life_class.seen for row i; gradients are multiplied by scale / divisor. All apply the
// rules' clip, clip_norm and bounds.
struct accessor_life_push {
    const struct rule_params *rules;
    float scale;
    size_t n;
    float *const *rows;
    float *const *extras; // NULL: none
    const float *values;
    const float *divisors; // NULL: all are 1
};
void accessor_apply_life(struct accessor_scratch *s, const struct accessor_life_push *p);

// Packs pulls of rows with a lifecycle: n x pull_width. rows[i] NULL: unchanged; extras
// or extras[i] NULL: zeros.
void accessor_gather_life(const struct accessor *a, float *const *rows,
                          float *const *extras, size_t n, float *ret);

// Returns whether rows have statistics, an extra row, or an end. Rows without these may
// be set, changed and read as a whole by callers that know their columns.
static inline bool accessor_has_lifecycle(const struct accessor *a)
{
    return (a->class != NULL && a->class->life.seen != NULL) || a->extra_width > 0 ||
           a->pushed_stats > 0 || a->pulled_stats > 0;
}

static inline uint32_t accessor_weights(const struct accessor *a) // of all groups
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
    return bits - 1; // 0: TABLE_NONE
}

static inline void accessor_set_extra(const struct accessor *a, float *row,
                                      uint32_t handle)
{
    uint32_t bits = handle + 1;
    __builtin_memcpy(row + a->extra, &bits, sizeof(bits));
}

// Returns whether the numbers of a row, and of its extra row (NULL: none), are finite:
// weights, the states of tug's own rules, and the count of updates; in a row without a
// lifecycle these are all its floats.
bool accessor_row_finite(const struct accessor *a, const float *row, const float *extra);
bool accessor_weights_finite(const struct accessor *a, const float *row,
                             const float *extra);
bool accessor_extra_finite(const struct accessor *a, const float *extra);
// Bounds within which no step of most rules leaves the range of floats: checking a push
// against them before it is applied costs less than keeping copies of rows to undo it.
#define ACCESSOR_TAME_ROW 0x1p40f
#define ACCESSOR_TAME_PUSH 0x1p20f
// Return whether rules, with their rates, map tame rows and gradients to finite ones;
// whether a row is tame, that is within the bounds and with states that roots are taken
// of not negative; whether gradients of n keys are, with their divisors, if `most` is the
// largest magnitude of these values.
bool accessor_rules_tame(const struct accessor *a, const struct rule_params *rules);
bool accessor_row_tame(const struct accessor *a, const float *row, const float *extra);
bool accessor_push_tame(const struct accessor *a, const float *values, size_t n,
                        float most);
// Returns whether any push of gradients leaves finite rows finite.
bool accessor_stays_finite(const struct accessor *a);

#endif
