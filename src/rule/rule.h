// Update rules as data: each has a name, a state size, defaults and a sentence. The
// formulas are in kernels/rule_kind.h, the loops in kernels/. A server and a trainer in
// one process apply the same.
//
// Who holds a row updates a group of its weights in three steps, of which most rules need
// the second only:
//
//   g = rule_clip(k, p, gradients, n, room)    where p->clip or p->clip_norm is not 0
//   rule_apply(k, p->kind)(p, l2, w, s, g, n)
//   k->bound(w, p->low, p->high, n)            where p->bounded
//
// The state of a new row begins with p->n0, all of it.
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

// What one update makes of several values of a weight, where those of a clock are brought
// together.
enum rule_reduce {
    RULE_STEP, // the sum is a gradient: it may be scaled to the mean
    RULE_ADD,  // their sum, as it is
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
    // Whether what several have changed in copies of a state can be added: it is a sum. A
    // mean that decays would be taken away from by each, and end below zero.
    bool state_adds_up;
    // Whether weights are computed from the state: then changes of weights cannot be added.
    bool weights_follow;
    // Whether its l2 stands beside the sum of all gradients, and so is not added with each of
    // them: an update by many gradients has it once.
    bool l2_once;
};

// NULL: there is no rule of that number.
const struct rule_info *rule_info(enum rule_kind kind);

// Whether rows that several have changed apart, weights and state, can be brought
// together by adding what each has changed.
static inline bool rule_changes_add_up(enum rule_kind kind)
{
    const struct rule_info *info = rule_info(kind);
    return info->state_adds_up && !info->weights_follow;
}

// The rule with its defaults, kind and block (1) filled in. The rule must exist.
struct rule_params rule_defaults(enum rule_kind kind);
// What is said by one of its names: some of Paddle's say more than the kind.
struct rule_params rule_defaults_by_name(enum rule_kind kind, const char *name);

// The kind of that name, tug's or a predecessor's (Paddle's classes); TUG_EUSAGE naming
// all rules when there is none.
int rule_find(const char *name, enum rule_kind *ret_kind, struct err *e);

// State floats that `n` weights need.
uint32_t rule_state(const struct rule_params *p, uint32_t n);

// A program's own rule. *info is copied, what it points to is not. The rule gets the next
// number from RULE_KINDS on: programs that talk to each other register the same rules in
// the same order. Before any table is made, by one thread. TUG_EUSAGE: the name is taken
// or no name, its defaults are dense, or RULE_MAX is reached.
int rule_register(const struct rule_info *info, rule_apply_fn apply, struct err *e);

// The rule's kernel, or the program's function.
rule_apply_fn rule_apply(const struct kernels *k, enum rule_kind kind);

// What is applied instead of g: g itself, or `room` (n floats), where it was clipped.
// A vector too long to have its squares summed becomes 0 under clip_norm.
const float *rule_clip(const struct kernels *k, const struct rule_params *p,
                       const float *g, size_t n, float *room);

// Whether the rule takes the parameter of that name: "lr", "n0", ... (rule_info.takes).
bool rule_takes(enum rule_kind kind, const char *name);

// Whether the numbers make sense for the rule; TUG_EUSAGE says which does not.
int rule_check(const struct rule_params *p, struct err *e);

// Whether two are the same rule with the same numbers.
bool rule_same(const struct rule_params *a, const struct rule_params *b);

// "adagrad:lr=0.05,n0=3,clip=10,low=-10,high=10": a name, and what differs from its
// defaults. `dense` stands alone. TUG_EUSAGE: no such rule, no such parameter of the
// rule, or a number that it can't have.
int rule_parse(const char *text, struct rule_params *ret, struct err *e);

// `text` is what follows the name in such a one, "lr=0.05,n0=3"; on a rule that is there;
// it stays as it is where the text is wrong.
int rule_adjust(const char *text, struct rule_params *p, struct err *e);

// The other way: parsed again, it is the same rule to the bit.
void rule_print(const struct rule_params *p, char ret_text[RULE_TEXT_MAX]);

#endif
