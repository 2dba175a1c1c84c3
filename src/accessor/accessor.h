// Accessors: what the columns of a row mean, and how gradients change them.
//
// A table knows that a row is so many floats. An accessor knows which of them are
// weights, which are a rule's state, and which counts the row's updates; that is all
// that is needed to apply gradients, so who holds rows (a trainer, a server) does not
// have to know the model that they belong to.
//
// A row is one or two groups of weights, each with its rule's state, and perhaps a count:
//
//   [group 0: n weights | state][count][group 1: n weights | state]
//
// Packed, as keys' values travel:
//
//   a pull   [weights of group 0][weights of group 1]
//   a push   [gradients of group 0][gradients of group 1][occurrences][squares]
//
// without the last two where the accessor has no count (a plain one: an array of floats
// under one rule).
//
// Or it has a life (accessor/life.h): statistics instead of a count, and perhaps a second
// group in a row of its own, the extra row, which is made when it is earned:
//
//   [group 0: weights | state][statistics][handle of the extra row]     [group 1: weights | state]
//
//   a pull   [pulled statistics][weights of group 0][weights of group 1, or zeros]
//   a push   [gradients of group 0][gradients of group 1][pushed statistics]
//
// Rows are shared (base/relaxed.h); everything else belongs to the caller.
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
    uint32_t weights; // column of the first
    uint32_t n;
    uint32_t random; // its first so many weights may begin at random, those behind at 0
    uint32_t state;  // column of the rule's state
    uint32_t n_state;
    struct rule_params rule;
    // Whether an update decays by the mean square of the row's values in it instead of
    // by 1: for weights that meet others one by one (ffm), each time weighted by a value.
    bool decays_by_squares;
};

struct accessor {
    uint32_t n_groups;
    struct accessor_group groups[ACCESSOR_MAX_GROUPS];
    uint32_t count;      // column of the row's updates; ACCESSOR_NO_COUNT: there is none
    uint32_t width;      // floats in a row
    uint32_t pull_width; // floats that a pull returns for a key
    uint32_t push_width; // floats that a push carries for a key

    // With a life:
    const struct accessor_class *class; // NULL: rows have none (plain, merge)
    struct life life;
    uint32_t stats, n_stats;             // columns of the statistics
    uint32_t pulled_stats, pushed_stats; // how many of them travel
    uint32_t extra;                      // column of the extra row's handle + 1, as bits
    uint32_t extra_width;                // floats of the extra row; 0: there is none
};

// Layouts by name: "plain", "merge", "sparse", "ctr", "ctr_double", "counter", "features"
// (the rows of models: accessor_features.c), Paddle's names
// (CtrCommonAccessor, DownpourCtrAccessor, SparseAccessor, CtrDoubleAccessor,
// CommMergeAccessor, ...), and a program's own.
enum { ACCESSOR_NAME_MAX = 32 };
struct accessor_options {
    char name[ACCESSOR_NAME_MAX];
    uint32_t dim; // plain, merge: floats of a row; others: of embedx, 0 allowed
    struct rule_params rule;  // of group 0
    struct rule_params extra; // of embedx
    uint32_t embed;           // features: floats of group 0
    uint32_t random; // features: floats of embedx that begin at random, the others at 0;
                     // 0: all do
    bool by_squares; // features: embedx decays_by_squares
    struct life life;
};
struct accessor_class {
    const char *name, *about;
    int (*layout)(const struct accessor_options *o, struct accessor *ret, struct err *e);
    // Of the pushed statistics the last so many are not added up where pushes of a key
    // are put into one: those of the last push stay (slots).
    uint32_t kept_stats;
    struct life_class life;
};
const struct accessor_class *accessor_find(const char *name, struct err *e);
// The class of that name, by its own name, and what Paddle's name implies besides.
int accessor_choose(struct accessor_options *o, const char *name, struct err *e);
bool accessor_class_is_own(const struct accessor_class *c); // not a program's
int accessor_register(const struct accessor_class *c, struct err *e);
bool accessor_has_life(const struct accessor_class *c);
// The layout for these options; checked: TUG_EUSAGE says what can't be. `*ret` does not
// point into `*o`.
int accessor_make(struct accessor *ret, const struct accessor_options *o, struct err *e);

// Layouts are made column after column, beginning with an empty one.
#define ACCESSOR_EMPTY ((struct accessor){.count = ACCESSOR_NO_COUNT})
struct accessor_group *accessor_add_group(struct accessor *a,
                                          const struct rule_params *rule, uint32_t n);
void accessor_add_count(struct accessor *a);

// A row of n floats under one rule: a key-value store's.
void accessor_plain(struct accessor *ret, struct rule_params rule, uint32_t n);

// The layout of what a pull returns, seen as a row: to look at, not to update.
void accessor_packed(struct accessor *ret, const struct accessor *a);

// Whether one that came from outside can be believed; TUG_EDATA says why not.
int accessor_check(const struct accessor *a, struct err *e);

// The rules of all groups at `factor` of their rates.
void accessor_rules(const struct accessor *a, float factor,
                    struct rule_params ret[ACCESSOR_MAX_GROUPS]);

// Packs the pulled columns of n rows into n x pull_width floats. Where a row is NULL, its
// floats are left alone: see accessor_first.
void accessor_gather(const struct accessor *a, float *const *rows, size_t n, float *ret);

// The pulled columns of what the row of `key` begins with. Statistics and weights of an
// extra row are zeros.
void accessor_first(const struct accessor *a, const struct table *t, uint64_t key,
                    float *ret);

// What a table's rows begin with: weights of group 0 uniform in [low, high), those of a
// group 1 in the same row likewise in [low1, high1), both as far as the group says; states
// where their rules begin. Replaces the inits of *t.
void accessor_inits(const struct accessor *a, float low, float high, float low1,
                    float high1, struct table_options *t);

// What the extra row of `key` begins with (extra_width floats), likewise.
void accessor_first_extra(const struct accessor *a, const struct table *t, uint64_t key,
                          float low, float high, float *ret);

// What one thread needs to apply updates.
struct accessor_scratch {
    const struct accessor *accessor;
    const struct kernels *kernels;
    float *scaled; // gradients of a row's group
};
int accessor_scratch_init(struct accessor_scratch *s, const struct accessor *a,
                          const struct kernels *k, struct err *e);
void accessor_scratch_fini(struct accessor_scratch *s); // a zeroed one is fine

// One update of each of n rows by gradients that were added up over a batch. No row may
// occur twice.
struct accessor_update {
    const struct rule_params *rules; // of the groups, at the current rate
    float pass;                      // 1, 2, ...: see rule_params.prior
    float scale;                     // of all gradients
    size_t n;
    float *const *rows;
    const float *const *gradients[ACCESSOR_MAX_GROUPS]; // where each row's lie
    // Without a count both are 1 for every row, and these are not looked at.
    const float *occurrences; // of the row in the batch
    const float *squares;     // the sum of u^2 over them
};
void accessor_apply(struct accessor_scratch *s, const struct accessor_update *u);

// The same with n x push_width values as they lie in a message.
struct accessor_push {
    const struct rule_params *rules;
    float pass, scale;
    size_t n;
    float *const *rows;
    const float *values;
};
void accessor_apply_packed(struct accessor_scratch *s, const struct accessor_push *p);

// The same for rows with a life. extras[i]: the extra row of row i, or NULL: its
// gradients are dropped. divisors[i]: what life_class.seen returned for it; gradients are
// multiplied by scale / divisor. Rules' clip, clip_norm and bounds hold in all.
struct accessor_life_push {
    const struct rule_params *rules;
    float scale;
    size_t n;
    float *const *rows;
    float *const *extras; // NULL: there are none
    const float *values;
    const float *divisors; // NULL: all are 1
};
void accessor_apply_life(struct accessor_scratch *s, const struct accessor_life_push *p);

// What pulls of rows with a life return: n x pull_width. rows[i] NULL: left alone;
// extras or extras[i] NULL: zeros.
void accessor_gather_life(const struct accessor *a, float *const *rows,
                          float *const *extras, size_t n, float *ret);

// Whether rows have statistics, an extra row, or an end. Rows without may be set, changed
// and read as a whole: who does so knows their columns.
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

// Whether numbers of a row, and of its extra row (NULL: it has none), are finite: weights, the
// states of tug's own rules, and the count of updates. Of a row without a life that is all of it.
bool accessor_row_finite(const struct accessor *a, const float *row, const float *extra);
bool accessor_weights_finite(const struct accessor *a, const float *row,
                             const float *extra);
bool accessor_extra_finite(const struct accessor *a, const float *extra);
// Numbers that no step of most rules takes out of range: a push is checked by these before it
// is applied, which costs less than copies of rows that it may have to be taken back from.
#define ACCESSOR_TAME_ROW 0x1p40f
#define ACCESSOR_TAME_PUSH 0x1p20f
// Whether rules, with their rates, make of tame rows and gradients something finite; whether a row
// is tame: its numbers, and states that roots are taken of are not negative; whether gradients of
// n keys are, with what they are divided by.
bool accessor_rules_tame(const struct accessor *a, const struct rule_params *rules);
bool accessor_row_tame(const struct accessor *a, const float *row, const float *extra);
bool accessor_push_tame(const struct accessor *a, const float *values, size_t n);
// Whether a push of gradients to finite rows leaves them finite whatever it carries.
bool accessor_stays_finite(const struct accessor *a);

#endif
