// Update rules as data: each has a name, a state size, defaults and a sentence. The
// formulas are in kernels/rule_kind.h, the loops in kernels/. A server and a trainer in
// one process apply the same.
//
// Who holds a row updates a group of its weights in three steps, of which most rules need
// the second only:
//
//   g = rule_clip(k, p, gradients, n, room)    if p->clip or p->clip_norm is not 0
//   rule_apply(k, p->kind)(p, l2, w, s, g, n)
//   k->bound(w, p->low, p->high, n)            if p->bounded
//
// All floats of a new row's state are p->n0.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RULE_RULE_H
#define TUG_RULE_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"

enum { RULE_NAME_MAX = 32, RULE_TEXT_MAX = 640 }; // with the zero

// How several values for a weight, as those of one clock, become one update.
enum rule_reduce {
    RULE_STEP, // their sum is a gradient, which may be scaled to the mean
    RULE_ADD,  // their sum, unscaled
    RULE_LAST, // the last of them
    RULE_MEAN, // their mean
};

struct rule_info {
    const char *name;    // "adagrad-row"
    const char *aliases; // other names, separated by spaces; NULL: none
    const char *about;   // one line for --help and the docs
    const char *takes;   // its parameters, separated by spaces; NULL: any
    uint32_t per_weight; // state floats for each weight
    uint32_t per_block;  // for each block of weights
    uint32_t per_row;    // for the whole group of weights
    struct rule_params defaults;
    enum rule_reduce reduce;
    // Whether changes that several workers make in copies of the state can be added, as
    // for sums. For a decaying mean each would subtract its decay, and the mean could end
    // below zero.
    bool state_adds_up;
    // Whether weights are computed from the state, so that changes of weights cannot be
    // added.
    bool weights_follow;
    // Whether its l2 term is added once to the sum of all gradients, so that an update by
    // many gradients has it only once.
    bool l2_once;
};

// NULL if no rule has that number.
const struct rule_info *rule_info(enum rule_kind kind);

// Returns whether copies of rows that several workers have changed can be merged by
// adding the changes of weights and state.
static inline bool rule_changes_add_up(enum rule_kind kind)
{
    const struct rule_info *info = rule_info(kind);
    return info->state_adds_up && !info->weights_follow;
}

// Returns the defaults of a rule, which must exist, with kind and block (1) filled in.
struct rule_params rule_defaults(enum rule_kind kind);
// Returns the defaults under one of its names: some of Paddle's names imply more than the
// kind.
struct rule_params rule_defaults_by_name(enum rule_kind kind, const char *name);

// Finds a rule by its name, tug's or a predecessor's (Paddle's classes); TUG_EUSAGE lists
// all rules if there is none.
int rule_find(const char *name, enum rule_kind *ret_kind, struct err *e);

// Returns the number of state floats for `n` weights.
uint32_t rule_state(const struct rule_params *p, uint32_t n);

// Registers a program's own rule. *info is copied, but not the memory that it points to.
// The rule gets the next number from RULE_KINDS on: programs that talk to each other must
// register the same rules in the same order. Called by one thread before any table is
// made. TUG_EUSAGE if the name is taken or invalid, its defaults are dense, or RULE_MAX
// is reached.
int rule_register(const struct rule_info *info, rule_apply_fn apply, struct err *e);

// Returns the rule's kernel, or the program's function.
rule_apply_fn rule_apply(const struct kernels *k, enum rule_kind kind);

// Returns the gradient to apply: g itself, or its clipped values in `room` (n floats).
// Under clip_norm a vector whose sum of squares overflows becomes 0.
const float *rule_clip(const struct kernels *k, const struct rule_params *p,
                       const float *g, size_t n, float *room);

// Returns whether the rule has a parameter of that name: "lr", "n0", ...
// (rule_info.takes).
bool rule_takes(enum rule_kind kind, const char *name);

// Checks the numbers of a rule; TUG_EUSAGE says which is wrong.
int rule_check(const struct rule_params *p, struct err *e);

// Returns whether two rules and their numbers are equal.
bool rule_same(const struct rule_params *a, const struct rule_params *b);

// Parses "adagrad:lr=0.05,n0=3,clip=10,low=-10,high=10": a name, and the numbers that
// differ from its defaults; `dense` has no number. TUG_EUSAGE if there is no such rule or
// parameter, or a number is invalid.
int rule_parse(const char *text, struct rule_params *ret, struct err *e);

// Changes numbers of *p by `text`, the part behind the name, "lr=0.05,n0=3"; *p is
// unchanged if the text is wrong.
int rule_adjust(const char *text, struct rule_params *p, struct err *e);

// Prints a rule; parsing the text gives the same one to the bit.
void rule_print(const struct rule_params *p, char ret_text[RULE_TEXT_MAX]);

#endif
