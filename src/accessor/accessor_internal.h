// The accessors that come with tug, for accessor_class.c.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_ACCESSOR_ACCESSOR_INTERNAL_H
#define TUG_ACCESSOR_ACCESSOR_INTERNAL_H

#include "accessor/accessor.h"

// accessor_ctr.c
extern const struct accessor_class accessor_sparse, accessor_ctr, accessor_ctr_double;
extern const struct accessor_class accessor_counter;  // accessor_counter.c
extern const struct accessor_class accessor_features; // accessor_features.c

// Adds a group of `n` weights under `rule` that lies in the extra row.
void accessor_add_extra(struct accessor *a, const struct rule_params *rule, uint32_t n);

#endif
