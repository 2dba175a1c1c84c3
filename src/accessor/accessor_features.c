// The accessor "features": rows as models train them (model/model.h). A group of `embed`
// weights, usually one, under `rule`; the count of the row's updates, by which a prior
// decays; and a group of `dim` weights under `embedx-rule`, in the same row:
//
//   [embed weights | state][count][dim weights | state]
//
// Rows do not have a lifecycle: a row is never removed.
//
// SPDX-License-Identifier: Apache-2.0
#include "accessor/accessor_internal.h"
#include "rule/rule.h"

// Returns the width of a row before the layout is made, in 64 bits, so that no size of a
// state can overflow it.
static uint64_t width_of(const struct accessor_options *o)
{
    return (uint64_t)o->embed + rule_state(&o->rule, o->embed) + 1 + o->dim +
           (o->dim > 0 ? rule_state(&o->extra, o->dim) : 0);
}

static int accessor_features_layout(const struct accessor_options *o,
                                    struct accessor *ret, struct err *e)
{
    if (o->embed < 1 || o->embed > TABLE_MAX_WIDTH || width_of(o) > TABLE_MAX_WIDTH)
        return err_set(e, TUG_EUSAGE,
                       "a row with embed = %u and dim = %u would have %llu floats; at "
                       "most %d are possible, and embed must be at least 1",
                       o->embed, o->dim, (unsigned long long)width_of(o),
                       TABLE_MAX_WIDTH);
    if (o->random > o->dim)
        return err_set(e, TUG_EUSAGE,
                       "embedx-random is %u, more than the %u floats of embedx",
                       o->random, o->dim);
    *ret = ACCESSOR_EMPTY;
    accessor_add_group(ret, &o->rule, o->embed);
    accessor_add_count(ret);
    if (o->dim > 0) {
        struct accessor_group *embedx = accessor_add_group(ret, &o->extra, o->dim);
        embedx->decays_by_squares = o->by_squares;
        embedx->random = o->random > 0 ? o->random : o->dim;
    }
    return 0;
}

const struct accessor_class class_features = {
    .name = "features",
    .about = "weights of a model's features, and the count of their updates",
    .layout = accessor_features_layout,
    .rules_give_blocks = true,
};
