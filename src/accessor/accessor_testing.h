// Accessors by name, for tests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_ACCESSOR_ACCESSOR_TESTING_H
#define TUG_ACCESSOR_ACCESSOR_TESTING_H

#include <stdio.h>

#include "accessor/accessor.h"
#include "rule/rule.h"

enum { MAX_WIDTH = 80 }; // of rows in tests

static const char *const names[] = {"plain", "merge", "sparse", "ctr", "ctr_double"};
enum { NAMES = sizeof(names) / sizeof(*names) };

static inline struct accessor_options options(const char *name, uint32_t dim)
{
    struct accessor_options o = {.dim = dim,
                                 .rule = rule_defaults(RULE_ADAGRAD),
                                 .extra = rule_defaults(RULE_ADAM),
                                 .life = life_defaults()};
    snprintf(o.name, sizeof(o.name), "%s", name);
    return o;
}

static inline struct accessor made(const struct accessor_options *o)
{
    struct accessor a;
    struct err e;
    if (accessor_make(&a, o, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(accessor_check(&a, NULL), 0);
    assert_true(a.width <= MAX_WIDTH && a.extra_width <= MAX_WIDTH);
    return a;
}

#endif
