// Update rules as data: each has a name, a state size, defaults and a sentence. The
// formulas are in kernels/rule_kind.h, the loops in kernels/. A server and a trainer in
// one process apply the same.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TABLE_RULE_H
#define TUG_TABLE_RULE_H

#include <stdint.h>

#include "base/err.h"
#include "kernels/rule_kind.h"

struct rule_info {
    const char *name;    // "adagrad-row"
    const char *about;   // one line for --help and the docs
    uint32_t per_weight; // state floats for each weight
    uint32_t per_block;  // for each block of weights
    uint32_t per_row;    // for the whole group of weights
    struct rule_params defaults;
};

const struct rule_info *rule_info(enum rule_kind kind);

// The rule with its defaults, kind and block (1) filled in.
struct rule_params rule_defaults(enum rule_kind kind);

// The kind of that name; TUG_EUSAGE naming all rules when there is none.
int rule_find(const char *name, enum rule_kind *ret_kind, struct err *e);

// State floats that `n` weights need.
uint32_t rule_state(const struct rule_params *p, uint32_t n);

// "sgd, momentum, ...", for messages.
const char *rule_names(void);

#endif
