// The registry of update rules: those of tug, and those that a program registers.
//
// SPDX-License-Identifier: Apache-2.0
#include "rule/rule.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "options/options.h"

static const struct rule_info rules[RULE_KINDS] = {
    [RULE_SGD] = {.name = "sgd",
                  .aliases = "naive SparseNaiveSGDRule",
                  .about = "plain gradient steps of a fixed rate",
                  .takes = "lr l1 l2 prior",
                  .defaults = {.lr = 0.05f},
                  .state_adds_up = true},
    [RULE_MOMENTUM] = {.name = "momentum",
                       .about = "heavy ball: steps along a decaying sum of gradients",
                       .takes = "lr l1 l2 prior beta1",
                       .per_weight = 1,
                       .defaults = {.lr = 0.01f, .beta1 = 0.9f}},
    [RULE_ADAGRAD] = {.name = "adagrad",
                      .about = "a rate per weight that falls with its squared gradients",
                      .takes = "lr l1 l2 prior n0 beta",
                      .per_weight = 1,
                      .defaults = {.lr = 0.1f, .n0 = 1},
                      .state_adds_up = true},
    [RULE_ADAGRAD_ROW] = {.name = "adagrad-row",
                          .about = "adagrad with one accumulator per latent vector",
                          .takes = "lr l1 l2 prior n0 beta block",
                          .per_block = 1,
                          .defaults = {.lr = 0.1f, .n0 = 1},
                          .state_adds_up = true},
    [RULE_RMSPROP] = {.name = "rmsprop",
                      .about = "as adagrad, with a decaying mean instead of a sum",
                      .takes = "lr l1 l2 prior n0 beta beta2",
                      .per_weight = 1,
                      .defaults = {.lr = 0.001f, .beta = 1e-8f, .beta2 = 0.99f}},
    [RULE_ADAM] =
        {.name = "adam",
         .aliases = "SparseAdamSGDRule",
         .about = "momentum and rmsprop, corrected for their start (lazy: per row)",
         .takes = "lr l1 l2 prior beta beta1 beta2",
         .per_weight = 2,
         .per_row = 2,
         .defaults = {.lr = 0.001f, .beta = 1e-8f, .beta1 = 0.9f, .beta2 = 0.999f}},
    [RULE_FTRL] =
        {.name = "ftrl",
         .about = "follow the regularised leader: adagrad whose l1 gives exact zeros",
         .takes = "lr l1 l2 prior beta",
         .per_weight = 2,
         .defaults = {.lr = 0.1f, .beta = 1},
         .state_adds_up = true,
         .weights_follow = true,
         .l2_once = true},
    [RULE_SUM] = {.name = "sum",
                  .about = "adds what is pushed: counters, deltas",
                  .takes = "",
                  .reduce = RULE_ADD,
                  .state_adds_up = true},
    [RULE_ADAGRAD_SHARED] = {.name = "adagrad-shared",
                             .aliases = "SparseAdaGradSGDRule",
                             .about = "adagrad with one accumulator per vector; a step "
                                      "uses its value before the step",
                             .takes = "lr l1 l2 prior g0",
                             .per_row = 1,
                             .defaults = {.lr = 0.05f, .g0 = 3}},
    [RULE_ADAGRAD_STD] = {.name = "adagrad-std",
                          .aliases = "std-adagrad StdAdaGradSGDRule",
                          .about = "adagrad with one accumulator per weight; a step uses "
                                   "its value before the step",
                          .takes = "lr l1 l2 prior g0",
                          .per_weight = 1,
                          .defaults = {.lr = 0.05f, .g0 = 3}},
    [RULE_ADAGRAD_V2] = {.name = "adagrad-v2",
                         .aliases = "SparseAdaGradV2SGDRule",
                         .about = "adagrad with one accumulator per vector",
                         .takes = "lr l1 l2 prior n0 beta",
                         .per_row = 1,
                         .defaults = {.lr = 0.05f, .beta = 1e-8f}},
    [RULE_ADAM_SHARED] =
        {.name = "adam-shared",
         .aliases = "shared-adam SparseSharedAdamSGDRule",
         .about = "adam with one pair of moments per vector: four floats of state",
         .takes = "lr l1 l2 prior beta beta1 beta2",
         .per_row = 4,
         .defaults = {.lr = 0.001f, .beta = 1e-8f, .beta1 = 0.9f, .beta2 = 0.999f}},
    [RULE_ADAMW] = {.name = "adamw",
                    .about = "adam with weight decay apart from the gradient",
                    .takes = "lr l1 l2 prior beta beta1 beta2 decay",
                    .per_weight = 2,
                    .per_row = 2,
                    .defaults = {.lr = 0.001f,
                                 .beta = 1e-8f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.999f,
                                 .decay = 0.01f}},
    [RULE_ADAM_D2SUM] =
        {.name = "adam-d2sum",
         .about = "momentum over a slowly decaying mean of squares; for dense blocks",
         .takes = "lr l1 l2 prior beta beta1 beta2",
         .per_weight = 3,
         .defaults = {.lr = 0.001f, .beta = 1e-8f, .beta1 = 0.99f, .beta2 = 0.9999f}},
    [RULE_FTRL_GROUP] = {.name = "ftrl-group",
                         .aliases = "group-ftrl",
                         .about = "ftrl with l21, which sets whole vectors to zero",
                         .takes = "lr l1 l2 l21 prior beta",
                         .per_weight = 2,
                         .defaults = {.lr = 0.1f, .beta = 1},
                         .l2_once = true},
    [RULE_SUMMARY] = {.name = "summary",
                      .about = "a sum whose old value decays: statistics of inputs",
                      .takes = "decay",
                      .defaults = {.decay = 0.999999f},
                      .reduce = RULE_ADD},
    [RULE_ASSIGN] = {.name = "assign",
                     .aliases = "set",
                     .about = "becomes the pushed value",
                     .takes = "",
                     .reduce = RULE_LAST},
    [RULE_AVERAGE] =
        {.name = "average",
         .aliases = "mean",
         .about = "becomes the mean of the values that all workers push in a clock",
         .takes = "",
         .reduce = RULE_MEAN},
    [RULE_LAMB] = {.name = "lamb",
                   .about = "adamw with steps as long as lr times the block's weights",
                   .takes = "lr l1 l2 prior beta beta1 beta2 decay",
                   .per_weight = 2,
                   .per_row = 2,
                   .defaults = {.lr = 0.001f,
                                .beta = 1e-6f,
                                .beta1 = 0.9f,
                                .beta2 = 0.999f,
                                .decay = 0.01f}},
};

static struct own_rule {
    struct rule_info info;
    rule_apply_fn apply;
} own[RULE_MAX - RULE_KINDS];
static unsigned n_own;

const struct rule_info *rule_info(enum rule_kind kind)
{
    unsigned i = (unsigned)kind;
    if (i < RULE_KINDS)
        return &rules[i];
    return i - RULE_KINDS < n_own ? &own[i - RULE_KINDS].info : NULL;
}

struct rule_params rule_defaults(enum rule_kind kind)
{
    const struct rule_info *info = rule_info(kind);
    assert(info != NULL);
    struct rule_params p = info->defaults;
    p.kind = kind;
    p.block = 1;
    return p;
}

// Returns whether two names are equal if '-' and '_' count as the same character.
static bool same_name(const char *a, size_t n, const char *b)
{
    for (size_t i = 0; i < n; i++)
        if ((a[i] == '_' ? '-' : a[i]) != (b[i] == '_' ? '-' : b[i]))
            return false;
    return b[n] == 0;
}

static bool is_called(const struct rule_info *r, const char *name)
{
    if (same_name(r->name, strlen(r->name), name))
        return true;
    for (const char *a = r->aliases; a != NULL && *a != 0;) {
        size_t n = strcspn(a, " ");
        if (same_name(a, n, name))
            return true;
        a += n + strspn(a + n, " ");
    }
    return false;
}

// Names of Paddle's rules that do not divide gradients by shows. `dense`: the rule also
// updates weights whose gradient is 0, as the adam rules do.
static const struct {
    const char *name;
    bool dense;
} unscaled[] = {
    {"naive", false},
    {"SparseNaiveSGDRule", false},
    {"shared-adam", true},
    {"SparseSharedAdamSGDRule", true},
    {"SparseAdamSGDRule", true},
};

struct rule_params rule_defaults_by_name(enum rule_kind kind, const char *name)
{
    struct rule_params p = rule_defaults(kind);
    for (size_t i = 0; i < sizeof(unscaled) / sizeof(*unscaled); i++) {
        if (same_name(name, strlen(name), unscaled[i].name)) {
            p.unscaled = true;
            p.dense = unscaled[i].dense;
        }
    }
    return p;
}

static bool rule_find_kind(const char *name, enum rule_kind *ret_kind)
{
    for (unsigned i = 0; i < RULE_KINDS + n_own; i++) {
        *ret_kind = (enum rule_kind)i;
        if (is_called(rule_info(*ret_kind), name))
            return true;
    }
    return false;
}

enum { NAMES_MAX = RULE_MAX * (RULE_NAME_MAX + 2) };

static void list_names(const char *between, char ret[NAMES_MAX])
{
    size_t n = 0;
    for (unsigned i = 0; i < RULE_KINDS + n_own; i++)
        n += (size_t)snprintf(ret + n, NAMES_MAX - n, "%s%s", i > 0 ? between : "",
                              rule_info((enum rule_kind)i)->name);
}

int rule_find(const char *name, enum rule_kind *ret_kind, struct err *e)
{
    char words[NAMES_MAX], names[NAMES_MAX], near[OPTION_NAME_MAX];
    if (rule_find_kind(name, ret_kind))
        return 0;
    list_names(" ", words);
    list_names(", ", names);
    options_nearest(name, words, near);
    if (*near != 0)
        return err_set(e, TUG_EUSAGE,
                       "there is no optimizer '%s'; did you mean '%s'? There are %s",
                       name, near, names);
    return err_set(e, TUG_EUSAGE, "there is no optimizer '%s'; choose from %s", name,
                   names);
}

uint32_t rule_state(const struct rule_params *p, uint32_t n)
{
    const struct rule_info *r = rule_info(p->kind);
    return r->per_weight * n + (r->per_block != 0 ? r->per_block * (n / p->block) : 0) +
           r->per_row;
}

int rule_register(const struct rule_info *info, rule_apply_fn apply, struct err *e)
{
    const char *name = info->name != NULL ? info->name : "";
    enum rule_kind taken;
    if (*name == 0 || strlen(name) >= RULE_NAME_MAX ||
        strcspn(name, ":,= ") != strlen(name))
        return err_set(
            e, TUG_EUSAGE,
            "an update rule cannot be called '%.*s': a name has 1 to %d letters, "
            "no colon, comma, equals sign or space",
            RULE_NAME_MAX, name, RULE_NAME_MAX - 1);
    if (rule_find_kind(name, &taken))
        return err_set(e, TUG_EUSAGE, "there is an update rule '%s' already", name);
    if (apply == NULL)
        return err_set(e, TUG_EUSAGE, "update rule '%s' has no function", name);
    if (info->defaults.dense || info->defaults.unscaled)
        return err_set(e, TUG_EUSAGE,
                       "update rule '%s' is %s by default, but only a table's settings "
                       "may choose that",
                       name, info->defaults.dense ? "dense" : "unscaled");
    if (n_own == RULE_MAX - RULE_KINDS)
        return err_set(
            e, TUG_EUSAGE,
            "update rule '%s' cannot be added: a program can have %d rules of its own",
            name, RULE_MAX - RULE_KINDS);
    own[n_own++] = (struct own_rule){*info, apply};
    return 0;
}

rule_apply_fn rule_apply(const struct kernels *k, enum rule_kind kind)
{
    return kind < RULE_KINDS ? k->apply[kind] : own[kind - RULE_KINDS].apply;
}

const float *rule_clip(const struct kernels *k, const struct rule_params *p,
                       const float *g, size_t n, float *room)
{
    if (p->clip != 0) {
        k->clip(room, g, p->clip, n);
        g = room;
    }
    if (p->clip_norm != 0) {
        float length = sqrtf(k->norm2(g, n));
        if (length > p->clip_norm) {
            k->scale(room, p->clip_norm / length, g, n);
            g = room;
        }
    }
    return g;
}
