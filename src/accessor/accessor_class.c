// Finds accessors by name: those that come with tug, by tug's or Paddle's names, and a
// program's own.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "accessor/accessor_internal.h"
#include "options/options.h"
#include "rule/rule.h"

static int layout_plain(const struct accessor_options *o, struct accessor *ret,
                        struct err *e)
{
    (void)e;
    accessor_plain(ret, o->rule, o->dim);
    return 0;
}

static int layout_merge(const struct accessor_options *o, struct accessor *ret,
                        struct err *e)
{
    (void)e;
    accessor_plain(ret, rule_defaults(RULE_SUM), o->dim);
    return 0;
}

const struct accessor_class class_plain = {
    .name = "plain",
    .about = "an array of floats under one rule",
    .layout = layout_plain,
    .weights_are_block = true,
};

const struct accessor_class class_merge = {
    .name = "merge",
    .about = "sums of what is pushed: counters, geo",
    .layout = layout_merge,
};

#define ACCESSOR_ADDRESS(name) &class_##name,
#define ACCESSOR_ONE(name) +1
static const struct accessor_class *classes[ACCESSOR_MAX_CLASSES] = {
    ACCESSORS(ACCESSOR_ADDRESS)};
enum { OWN = 0 ACCESSORS(ACCESSOR_ONE) }; // tug's own classes come first in the list

// Paddle's names of accessors, and the options that they imply. Paddle's Unit accessors
// do not divide gradients by shows.
static const struct {
    const char *theirs;
    const struct accessor_class *ours;
    bool unscaled;
} paddle[] = {
    {"CommMergeAccessor", &class_merge, false},
    {"SparseAccessor", &class_sparse, false},
    {"DownpourSparseValueAccessor", &class_sparse, false},
    {"CtrCommonAccessor", &class_ctr, false},
    {"DownpourCtrAccessor", &class_ctr, false},
    {"DownpourUnitAccessor", &class_ctr, true},
    {"CtrDoubleAccessor", &class_ctr_double, false},
    {"DownpourCtrDoubleAccessor", &class_ctr_double, false},
    {"DownpourDoubleUnitAccessor", &class_ctr_double, true},
};
enum { N_PADDLE = sizeof(paddle) / sizeof(*paddle) };

static bool same_name(const char *x, const char *y)
{
    for (; *x != '\0' || *y != '\0'; x++, y++)
        if (*x != *y && !(*x == '-' && *y == '_'))
            return false;
    return true;
}

static const struct accessor_class *accessor_class_find(const char *name,
                                                        bool *ret_theirs,
                                                        bool *ret_unscaled)
{
    *ret_theirs = *ret_unscaled = false;
    for (size_t i = 0; i < ACCESSOR_MAX_CLASSES && classes[i] != NULL; i++)
        if (same_name(name, classes[i]->name))
            return classes[i];
    for (size_t i = 0; i < N_PADDLE; i++) {
        if (strcmp(name, paddle[i].theirs) == 0) {
            *ret_theirs = true;
            *ret_unscaled = paddle[i].unscaled;
            return paddle[i].ours;
        }
    }
    return NULL;
}

const struct accessor_class *accessor_class_at(size_t i)
{
    return i < ACCESSOR_MAX_CLASSES ? classes[i] : NULL;
}

void accessor_names(bool clicks, char ret[ACCESSOR_NAMES_MAX])
{
    const struct accessor_class *c;
    size_t n = 0;
    for (size_t i = 0; (c = accessor_class_at(i)) != NULL; i++)
        if (!clicks || c->clicks)
            n += (size_t)snprintf(ret + n, ACCESSOR_NAMES_MAX - n, "%s%s",
                                  n > 0 ? ", " : "", c->name);
}

static int accessor_class_unknown(const char *name, struct err *e)
{
    char names[ACCESSOR_NAMES_MAX], near[OPTION_NAME_MAX];
    char words[ACCESSOR_NAMES_MAX + N_PADDLE * 40];
    size_t n = 0;
    accessor_names(false, names);
    for (size_t i = 0; i < ACCESSOR_MAX_CLASSES && classes[i] != NULL; i++)
        n += (size_t)snprintf(words + n, sizeof(words) - n, "%s ", classes[i]->name);
    for (size_t i = 0; i < N_PADDLE; i++)
        n += (size_t)snprintf(words + n, sizeof(words) - n, "%s ", paddle[i].theirs);
    options_nearest(name, words, near);
    return err_set(e, TUG_EUSAGE, "there is no accessor '%.100s'; choose from %s%s%s%s",
                   name, names, *near ? "; did you mean '" : "", near, *near ? "'?" : "");
}

const struct accessor_class *accessor_find(const char *name, struct err *e)
{
    bool theirs, unscaled;
    const struct accessor_class *c = accessor_class_find(name, &theirs, &unscaled);
    if (c == NULL)
        accessor_class_unknown(name, e);
    return c;
}

int accessor_choose(struct accessor_options *o, const char *name, struct err *e)
{
    bool theirs, unscaled;
    const struct accessor_class *c = accessor_class_find(name, &theirs, &unscaled);
    if (c == NULL)
        return accessor_class_unknown(name, e);
    snprintf(o->name, sizeof(o->name), "%s", c->name);
    if (unscaled)
        o->life.show_scale = false;
    // Embedx can be made late only in rows with a lifecycle.
    if (theirs && accessor_has_life(c))
        o->life.embedx_late = true;
    return 0;
}

int accessor_register(const struct accessor_class *c, struct err *e)
{
    bool theirs, unscaled;
    size_t length = c->name == NULL ? 0 : strnlen(c->name, ACCESSOR_NAME_MAX);
    if (length == 0 || length == ACCESSOR_NAME_MAX ||
        strpbrk(c->name, ",;=# \t\n") != NULL)
        return err_set(e, TUG_EUSAGE,
                       "an accessor needs a name of 1 to %d characters, without ',', "
                       "';', '=', '#' and blanks",
                       ACCESSOR_NAME_MAX - 1);
    if (c->layout == NULL)
        return err_set(e, TUG_EUSAGE, "accessor '%s' lacks 'layout'", c->name);
    if (accessor_class_find(c->name, &theirs, &unscaled) != NULL)
        return err_set(e, TUG_EUSAGE, "there is an accessor '%s' already", c->name);
    size_t n = 0;
    while (n < ACCESSOR_MAX_CLASSES && classes[n] != NULL)
        n++;
    if (n == ACCESSOR_MAX_CLASSES)
        return err_set(e, TUG_EUSAGE, "there are %d accessors already, the maximum",
                       ACCESSOR_MAX_CLASSES);
    classes[n] = c;
    return 0;
}

// ----------------------------------------------------------- making layouts from options

void accessor_add_extra(struct accessor *a, const struct rule_params *rule, uint32_t n)
{
    struct accessor_group *g = &a->groups[a->n_groups++];
    *g = (struct accessor_group){
        .n = n, .state = n, .n_state = rule_state(rule, n), .rule = *rule};
    a->extra = a->width++;
    a->extra_width = n + g->n_state;
    a->pull_width += n;
    a->push_width += n;
}

enum accessor_number accessor_number(const struct accessor *a, uint32_t column)
{
    bool of_stats = column >= a->stats && column - a->stats < a->n_stats;
    if (a->class == NULL || a->class->number == NULL || !of_stats)
        return NUMBER_FLOAT;
    return a->class->number(a, column - a->stats);
}

bool accessor_has_clicks(const struct accessor *a)
{
    return a->class != NULL && a->class->clicks;
}

bool accessor_has_life(const struct accessor_class *c)
{
    const struct life_class *l = &c->life;
    return l->begin || l->seen || l->earned || l->score || l->unseen || l->shrink ||
           l->saved || l->published || l->stats;
}

// Sets the block of a rule that shares state among a block of weights to the whole group.
static void set_block(struct rule_params *rule, uint32_t n)
{
    if (rule_info(rule->kind)->per_block != 0 && rule->block == 1 && n > 0)
        rule->block = n;
}

// Checks a rule, so that the size of its state can be computed, even if the layout does
// not use the rule.
static int check_rule(struct rule_params *rule, struct err *e)
{
    if (rule->block == 0)
        rule->block = 1;
    if (rule_info(rule->kind) != NULL)
        return 0;
    return err_set(e, TUG_EUSAGE, "there is no update rule number %u",
                   (unsigned)rule->kind);
}

static int accessor_class_make(struct accessor *ret, struct accessor_options *o,
                               struct err *e)
{
    TRY(life_check(&o->life, e));
    TRY(check_rule(&o->rule, e));
    TRY(check_rule(&o->extra, e));
    if (o->dim > TABLE_MAX_WIDTH)
        return err_set(e, TUG_EUSAGE, "dim is too large: a row has at most %d floats",
                       TABLE_MAX_WIDTH);
    const struct accessor_class *c = accessor_find(o->name, e);
    if (!c->rules_give_blocks)
        set_block(&o->extra, o->dim);
    if (c->weights_are_block)
        set_block(&o->rule, o->dim);
    TRY(c->layout(o, ret, e));
    if (ret->pulled_stats > 0 && c->life.stats == NULL)
        return err_set(
            e, TUG_EUSAGE,
            "its pulls return %u statistics, but it has no function 'stats' for them",
            ret->pulled_stats);
    for (uint32_t g = 0; g < ret->n_groups && g < ACCESSOR_MAX_GROUPS; g++)
        TRY(rule_check(&ret->groups[g].rule, e));
    ret->class = accessor_has_life(c) ? c : NULL;
    ret->life = o->life;
    return accessor_check(ret, e);
}

int accessor_make(struct accessor *ret, const struct accessor_options *options,
                  struct err *e)
{
    struct accessor_options o = *options;
    struct err why;
    if (strnlen(o.name, sizeof(o.name)) == sizeof(o.name))
        return err_set(e, TUG_EUSAGE, "the name of an accessor is too long");
    TRY(accessor_choose(&o, options->name, e));
    if (accessor_class_make(ret, &o, &why) == 0)
        return 0;
    return err_set(e, TUG_EUSAGE, "accessor %s with dim %u: %.900s", o.name, o.dim,
                   why.text);
}

bool accessor_class_is_own(const struct accessor_class *c)
{
    for (int i = 0; i < OWN; i++)
        if (classes[i] == c)
            return true;
    return false;
}
