// The registry of update rules.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/rule.h"

#include <string.h>

static const struct rule_info rules[RULE_KINDS] = {
    [RULE_SGD] = {.name = "sgd",
                  .about = "plain gradient steps of a fixed rate",
                  .defaults = {.lr = 0.05f}},
    [RULE_MOMENTUM] = {.name = "momentum",
                       .about = "heavy ball: steps along a decaying sum of gradients",
                       .per_weight = 1,
                       .defaults = {.lr = 0.01f, .beta1 = 0.9f}},
    [RULE_ADAGRAD] = {.name = "adagrad",
                      .about = "a rate per weight that falls with its squared gradients",
                      .per_weight = 1,
                      .defaults = {.lr = 0.1f, .n0 = 1}},
    [RULE_ADAGRAD_ROW] = {.name = "adagrad-row",
                          .about = "adagrad with one accumulator per latent vector",
                          .per_block = 1,
                          .defaults = {.lr = 0.1f, .n0 = 1}},
    [RULE_RMSPROP] = {.name = "rmsprop",
                      .about = "as adagrad, with a decaying mean instead of a sum",
                      .per_weight = 1,
                      .defaults = {.lr = 0.001f, .beta = 1e-8f, .beta2 = 0.99f}},
    [RULE_ADAM] =
        {.name = "adam",
         .about = "momentum and rmsprop, corrected for their start (lazy: per row)",
         .per_weight = 2,
         .per_row = 2,
         .defaults = {.lr = 0.001f, .beta = 1e-8f, .beta1 = 0.9f, .beta2 = 0.999f}},
    [RULE_FTRL] =
        {.name = "ftrl",
         .about = "follow the regularised leader: adagrad whose l1 gives exact zeros",
         .per_weight = 2,
         .defaults = {.lr = 0.1f, .beta = 1}},
    [RULE_SUM] = {.name = "sum", .about = "adds what is pushed: counters, deltas"},
};

const struct rule_info *rule_info(enum rule_kind kind)
{
    return &rules[kind];
}

struct rule_params rule_defaults(enum rule_kind kind)
{
    struct rule_params p = rules[kind].defaults;
    p.kind = kind;
    p.block = 1;
    return p;
}

const char *rule_names(void)
{
    return "sgd, momentum, adagrad, adagrad-row, rmsprop, adam, ftrl, sum";
}

int rule_find(const char *name, enum rule_kind *ret_kind, struct err *e)
{
    for (int i = 0; i < RULE_KINDS; i++) {
        if (strcmp(rules[i].name, name) == 0) {
            *ret_kind = (enum rule_kind)i;
            return 0;
        }
    }
    return err_set(e, TUG_EUSAGE, "there is no optimizer '%s'; choose from %s", name,
                   rule_names());
}

uint32_t rule_state(const struct rule_params *p, uint32_t n)
{
    const struct rule_info *r = &rules[p->kind];
    return r->per_weight * n + (r->per_block != 0 ? r->per_block * (n / p->block) : 0) +
           r->per_row;
}
