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
// Rows are shared (base/relaxed.h); everything else belongs to the caller.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TABLE_ACCESSOR_H
#define TUG_TABLE_ACCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"
#include "table/table.h"

enum { ACCESSOR_MAX_GROUPS = 2 };

#define ACCESSOR_NO_COUNT UINT32_MAX

struct accessor_group {
    uint32_t weights; // column of the first
    uint32_t n;
    uint32_t state; // column of the rule's state
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
};

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

// The pulled columns of what the row of `key` begins with.
void accessor_first(const struct accessor *a, const struct table *t, uint64_t key,
                    float *ret);

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

#endif
