// The accessors that come with tug. A new one needs its class, in a file of its own, and a
// line in ACCESSORS.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_ACCESSOR_ACCESSOR_INTERNAL_H
#define TUG_ACCESSOR_ACCESSOR_INTERNAL_H

#include "accessor/accessor.h"

// The accessors by name, one per line; `class_NAME` is the struct accessor_class of the
// accessor NAME.
#define ACCESSORS(ACCESSOR)                                                              \
    ACCESSOR(plain)                                                                      \
    ACCESSOR(merge)                                                                      \
    ACCESSOR(sparse)                                                                     \
    ACCESSOR(ctr)                                                                        \
    ACCESSOR(ctr_double)                                                                 \
    ACCESSOR(counter)                                                                    \
    ACCESSOR(features)

#define ACCESSOR_DECLARE(name) extern const struct accessor_class class_##name;
ACCESSORS(ACCESSOR_DECLARE)

// Adds a group of `n` weights under `rule` that lies in the extra row.
void accessor_add_extra(struct accessor *a, const struct rule_params *rule, uint32_t n);

#endif
