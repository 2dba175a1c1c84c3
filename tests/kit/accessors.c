// See accessors.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/accessors.h"

#include <stdio.h>

const char *accessors_name(size_t i)
{
    const struct accessor_class *c = accessor_class_at(i);
    return c != NULL && accessor_class_is_own(c) ? c->name : NULL;
}

bool accessors_settings(size_t i, char ret[ACCESSORS_SETTINGS])
{
    const char *name = accessors_name(i);
    if (name != NULL)
        snprintf(ret, ACCESSORS_SETTINGS, "accessor=%s; dim=2", name);
    return name != NULL;
}

struct accessor_options accessor_usual(const char *name, uint32_t dim)
{
    struct accessor_options o = {.dim = dim,
                                 .embed = 1,
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
