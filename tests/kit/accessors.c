// See accessors.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/accessors.h"

#include <stdio.h>

const char *const accessors_all[ACCESSORS] = {"plain", "merge", "sparse", "ctr",
                                              "ctr_double"};

struct accessor_options accessor_usual(const char *name, uint32_t dim)
{
    struct accessor_options o = {.dim = dim,
                                 .rule = rule_defaults(RULE_ADAGRAD),
                                 .extra = rule_defaults(RULE_ADAM),
                                 .life = life_defaults()};
    snprintf(o.name, sizeof(o.name), "%s", name);
    return o;
}

struct accessor accessor_made(const struct accessor_options *o)
{
    struct accessor a;
    struct err e;
    if (accessor_make(&a, o, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(accessor_check(&a, NULL), 0);
    assert_true(a.width <= MAX_WIDTH && a.extra_width <= MAX_WIDTH);
    return a;
}
