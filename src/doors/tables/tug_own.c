// A program's own rules, entry policies and accessors (tug/table.h), registered with the
// registries of table/.
//
// The registries call rules and policies without a context argument. So a macro makes
// functions for each of PLACES places in two arrays; they call the program's rule or
// policy at that place.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "accessor/accessor.h"
#include "accessor/entry.h"
#include "accessor/life.h"
#include "rule/rule.h"
#include "runtime/last_error.h"
#include "tug/table.h"

enum { PLACES = 16 };
#define EACH_PLACE(X)                                                                    \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

static int full(const char *what)
{
    return err_set(last_error(), TUG_EUSAGE,
                   "this process has already registered %d %s, the maximum", PLACES,
                   what);
}

// ---------------------------------------------------------------- rules

static struct tug_rule rules[PLACES];
static size_t n_rules;

#define RULE(i)                                                                          \
    static void apply_##i(const struct rule_params *p, float l2, float *w, float *s,     \
                          const float *g, size_t n)                                      \
    {                                                                                    \
        (void)l2;                                                                        \
        rules[i].apply(rules[i].ctx, p->lr, w, s, g, n);                                 \
    }
EACH_PLACE(RULE)
#undef RULE

#define NAME(i) apply_##i,
static const rule_apply_fn applies[PLACES] = {EACH_PLACE(NAME)};
#undef NAME

int tug_register_rule(const struct tug_rule *r)
{
    if (r->apply == NULL)
        return err_set(last_error(), TUG_EUSAGE, "a rule needs the function 'apply'");
    if (n_rules == PLACES)
        return full("rules");
    rules[n_rules] = *r;
    struct rule_info info = {
        .name = r->name,
        .about = r->about != NULL ? r->about : "",
        .per_weight = r->state_per_weight,
        .per_row = r->state_per_row,
        .defaults = {.lr = r->rate},
    };
    TRY(rule_register(&info, applies[n_rules], last_error()));
    n_rules++;
    return 0;
}

// ---------------------------------------------------------------- entry policies

static struct tug_entry_policy policies[PLACES];
static struct entry_class classes[PLACES];
static size_t n_policies;

#define ADMIT(i)                                                                         \
    static bool admit_##i(void *state, const struct entry_options *o, uint64_t key,      \
                          float show, float click)                                       \
    {                                                                                    \
        (void)state;                                                                     \
        return policies[i].admit(policies[i].ctx, key, show, click, o->threshold);       \
    }
EACH_PLACE(ADMIT)
#undef ADMIT

typedef bool (*admit_fn)(void *, const struct entry_options *, uint64_t, float, float);
#define NAME(i) admit_##i,
static const admit_fn admits[PLACES] = {EACH_PLACE(NAME)};
#undef NAME

int tug_register_entry(const struct tug_entry_policy *p)
{
    if (p->admit == NULL)
        return err_set(last_error(), TUG_EUSAGE,
                       "an entry policy needs the function 'admit'");
    if (n_policies == PLACES)
        return full("entry policies");
    struct entry_class *c = &classes[n_policies];
    policies[n_policies] = *p;
    *c = (struct entry_class){.name = p->name,
                              .about = p->about != NULL ? p->about : "",
                              .admit = admits[n_policies]};
    TRY(entry_register(c, last_error()));
    n_policies++;
    return 0;
}

// The accessors of programs. A row has weights, all with one rule, and then statistics.

struct own {
    // Must be the first member, because tables point at the class.
    struct accessor_class class;
    struct tug_accessor is;
};
static struct own accessors[PLACES];
static size_t n_accessors;

static const struct tug_accessor *own_of(const struct accessor *a)
{
    return &((const struct own *)(const void *)a->class)->is;
}

static float seen(const struct accessor *a, float *row, const float *pushed, bool again,
                  struct life_time t)
{
    const struct tug_accessor *x = own_of(a);
    (void)t;
    if (x->seen != NULL && !again)
        x->seen(x->ctx, row + a->stats, pushed);
    return 1;
}

static float own_score(const struct accessor *a, const float *row)
{
    const struct tug_accessor *x = own_of(a);
    return x->score != NULL ? x->score(x->ctx, row + a->stats) : 0;
}

static bool own_life_shrink(const struct accessor *a, float *row, float threshold,
                            struct life_time t)
{
    const struct tug_accessor *x = own_of(a);
    (void)t;
    if (isnan(threshold))
        threshold = a->life.delete_threshold;
    return x->shrink != NULL && x->shrink(x->ctx, row + a->stats, threshold);
}

static bool own_saved(const struct accessor *a, const float *row, enum save_mode m,
                      struct life_time t)
{
    const struct tug_accessor *x = own_of(a);
    (void)t;
    return x->saved == NULL || x->saved(x->ctx, row + a->stats, (enum tug_save_mode)m);
}

static void pulled(const struct accessor *a, const float *row, float *ret)
{
    memcpy(ret, row + a->stats, a->pulled_stats * sizeof(float));
}

// Makes the accessor of a table: the layout of its rows.
static int own_layout(const struct tug_accessor *x, const struct accessor_options *o,
                      struct accessor *ret)
{
    accessor_plain(ret, o->rule, o->dim);
    ret->stats = ret->width;
    ret->n_stats = x->stats;
    ret->pulled_stats = x->pulled;
    ret->pushed_stats = x->pushed;
    ret->width += x->stats;
    ret->pull_width += x->pulled;
    ret->push_width += x->pushed;
    return 0;
}

#define LAYOUT(i)                                                                        \
    static int layout_##i(const struct accessor_options *o, struct accessor *ret,        \
                          struct err *e)                                                 \
    {                                                                                    \
        (void)e;                                                                         \
        return own_layout(&accessors[i].is, o, ret);                                     \
    }
EACH_PLACE(LAYOUT)
#undef LAYOUT

typedef int (*layout_fn)(const struct accessor_options *, struct accessor *,
                         struct err *);
#define NAME(i) layout_##i,
static const layout_fn layouts[PLACES] = {EACH_PLACE(NAME)};
#undef NAME

int tug_register_accessor(const struct tug_accessor *a)
{
    if (a->pulled > a->stats || a->stats > ACCESSOR_MAX_STATS ||
        a->pushed > ACCESSOR_MAX_STATS)
        return err_set(last_error(), TUG_EUSAGE,
                       "an accessor cannot have %u statistics, of which %u are pulled "
                       "and %u pushed: each number can be at most %d, and no more can be "
                       "pulled than there are",
                       a->stats, a->pulled, a->pushed, ACCESSOR_MAX_STATS);
    if (n_accessors == PLACES)
        return full("accessors");
    struct own *o = &accessors[n_accessors];
    o->is = *a;
    o->class = (struct accessor_class){
        .name = a->name,
        .about = a->about != NULL ? a->about : "",
        .layout = layouts[n_accessors],
        .life = {.seen = seen,
                 .score = own_score,
                 .shrink = own_life_shrink,
                 .saved = own_saved,
                 .stats = pulled},
    };
    TRY(accessor_register(&o->class, last_error()));
    n_accessors++;
    return 0;
}
