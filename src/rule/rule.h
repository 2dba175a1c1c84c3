// The registry of update rules: the name, the size of the state, the defaults and a
// sentence for each. The formulas are in kernels/rule_kind.h, the loops in kernels/. A
// server and a trainer in one process apply the same functions.
//
// The owner of a row updates a group of its weights in three steps; most rules need only
// the second:
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

enum { RULE_NAME_MAX = 32, RULE_TEXT_MAX = 640 }; // bytes, including the final 0

// The ways to make one update of several pushed values of a weight, such as those of one
// clock.
enum rule_reduce {
    RULE_STEP, // the values are gradients: their sum or their mean is applied
    RULE_ADD,  // the sum of the values is added, never their mean
    RULE_LAST, // the last value replaces the weight
    RULE_MEAN, // the mean of the values is used
};

struct rule_info {
    const char *name;    // "adagrad-row"
    const char *aliases; // other names, separated by spaces; NULL: none
    const char *about;   // one line for --help and the docs
    // The names of its parameters, separated by spaces; NULL: all parameters.
    const char *takes;
    uint32_t per_weight; // state floats for each weight
    uint32_t per_block;  // state floats for each block of weights
    uint32_t per_row;    // state floats for the whole group of weights
    struct rule_params defaults;
    enum rule_reduce reduce;
    // Whether changes that several workers make to copies of the state can be added. They
    // can if the state is a sum. For a decaying mean every worker would subtract its
    // decay, and the mean could end below zero.
    bool state_adds_up;
    // Whether weights are computed from the state, so that changes of weights cannot be
    // added.
    bool weights_follow;
    // Whether the l2 term is added once to the sum of all gradients of an update, and
    // not to each gradient.
    bool l2_once;
};

// Returns the entry of a rule; NULL if no rule has that number.
const struct rule_info *rule_info(enum rule_kind kind);

// Returns whether copies of rows that several workers have changed can be merged by
// adding the changes of weights and state.
static inline bool rule_changes_add_up(enum rule_kind kind)
{
    const struct rule_info *info = rule_info(kind);
    return info->state_adds_up && !info->weights_follow;
}

// Returns the default parameters of a rule, which must exist. `kind` is set, and `block`
// is 1.
struct rule_params rule_defaults(enum rule_kind kind);
// Does what rule_defaults does, for a rule that was found by this name: some of Paddle's
// names imply other parameters, too.
struct rule_params rule_defaults_by_name(enum rule_kind kind, const char *name);

// Finds a rule by its name in tug or by the name of Paddle's class. Returns TUG_EUSAGE if
// there is no such rule; the error lists all rules.
int rule_find(const char *name, enum rule_kind *ret_kind, struct err *e);

// Returns the number of state floats for `n` weights.
uint32_t rule_state(const struct rule_params *p, uint32_t n);

// Registers a program's own rule. *info is copied, but not the memory that it points to.
// The rule gets the next free number, from RULE_KINDS on, so programs that talk to each
// other must register the same rules in the same order. One thread calls this, before any
// table is made. Returns TUG_EUSAGE if the name is taken or invalid, if the rule's
// defaults have `dense`, or if RULE_MAX rules exist.
int rule_register(const struct rule_info *info, rule_apply_fn apply, struct err *e);

// Returns the rule's kernel, or the program's function.
rule_apply_fn rule_apply(const struct kernels *k, enum rule_kind kind);

// Returns the gradient to apply: g itself, or `room` (n floats) with the clipped values.
// With clip_norm, a vector whose sum of squares overflows becomes 0.
const float *rule_clip(const struct kernels *k, const struct rule_params *p,
                       const float *g, size_t n, float *room);

// Returns whether the rule has a parameter of that name: "lr", "n0", ...
// (rule_info.takes).
bool rule_takes(enum rule_kind kind, const char *name);

// Checks the parameters of a rule. Returns TUG_EUSAGE if one is invalid; the error names
// it.
int rule_check(const struct rule_params *p, struct err *e);

// Returns whether two rules and all their parameters are equal.
bool rule_same(const struct rule_params *a, const struct rule_params *b);

// Parses a text such as "adagrad:lr=0.05,n0=3,clip=10,low=-10,high=10": the name of a
// rule, and the parameters that differ from its defaults. `dense` is written without a
// number. Returns TUG_EUSAGE if there is no such rule or parameter, or a number is
// invalid.
int rule_parse(const char *text, struct rule_params *ret, struct err *e);

// Changes parameters of *p as `text` says: "lr=0.05,n0=3", the form of a rule's text
// after its name and the colon. If the text is wrong, *p stays unchanged.
int rule_adjust(const char *text, struct rule_params *p, struct err *e);

// Prints a rule; parsing the text gives a rule with the same bits.
void rule_print(const struct rule_params *p, char ret_text[RULE_TEXT_MAX]);

#endif
