// Row layouts, packing, and updates in strips of rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "accessor/accessor.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/relaxed.h"
#include "rule/rule.h"

enum { STRIP = 64, PADDED = STRIP + KERNEL_PADDING };
// The number of rows that are prefetched ahead of the current row.
enum { GATHER_AHEAD = 16, APPLY_AHEAD = 16 };

struct accessor_group *accessor_add_group(struct accessor *a,
                                          const struct rule_params *rule, uint32_t n)
{
    assert(a->n_groups < ACCESSOR_MAX_GROUPS);
    struct accessor_group *g = &a->groups[a->n_groups++];
    *g = (struct accessor_group){.weights = a->width,
                                 .n = n,
                                 .random = n,
                                 .state = a->width + n,
                                 .n_state = rule_state(rule, n),
                                 .rule = *rule};
    a->width = g->state + g->n_state;
    a->pull_width += n;
    a->push_width += n;
    return g;
}

void accessor_add_count(struct accessor *a)
{
    a->count = a->width++;
    a->push_width += 2;
}

void accessor_plain(struct accessor *ret, struct rule_params rule, uint32_t n)
{
    *ret = ACCESSOR_EMPTY;
    accessor_add_group(ret, &rule, n);
}

void accessor_packed(struct accessor *ret, const struct accessor *a)
{
    struct rule_params stateless = rule_defaults(RULE_SUM);
    *ret = ACCESSOR_EMPTY;
    ret->width = a->pulled_stats;
    for (uint32_t g = 0; g < a->n_groups; g++)
        accessor_add_group(ret, &stateless, a->groups[g].n);
}

void accessor_rules(const struct accessor *a, float factor,
                    struct rule_params ret[ACCESSOR_MAX_GROUPS])
{
    for (uint32_t g = 0; g < a->n_groups; g++) {
        ret[g] = a->groups[g].rule;
        ret[g].lr *= factor;
    }
}

// Returns whether the group lies in the extra row.
static bool in_extra(const struct accessor *a, uint32_t group)
{
    return group > 0 && a->extra_width > 0;
}

// Functions that check layouts from messages, files or programs.

static int check_rule(const struct accessor *a, uint32_t group, struct err *e)
{
    const struct accessor_group *g = &a->groups[group];
    const struct rule_params *r = &g->rule;
    const float numbers[] = {r->lr, r->l1,   r->l2,    r->prior,
                             r->n0, r->beta, r->beta1, r->beta2};
    if (rule_info(r->kind) == NULL)
        return err_set(e, TUG_EDATA,
                       "group %u of the row has update rule number %u, which this "
                       "version of tug does not know",
                       group, (unsigned)r->kind);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (!isfinite(numbers[i]))
            return err_set(e, TUG_EDATA,
                           "a parameter of update rule %s of group %u is not finite",
                           rule_info(r->kind)->name, group);
    if (r->block == 0 || g->n % r->block != 0)
        return err_set(e, TUG_EDATA,
                       "group %u has %u weights, which is not a multiple of its rule's "
                       "block of %u",
                       group, g->n, r->block);
    if (g->n_state != rule_state(r, g->n))
        return err_set(e, TUG_EDATA,
                       "group %u has %u floats of state, but rule %s needs %u", group,
                       g->n_state, rule_info(r->kind)->name, rule_state(r, g->n));
    if (r->prior != 0 && a->count == ACCESSOR_NO_COUNT)
        return err_set(e, TUG_EDATA,
                       "group %u has a prior, which needs a column that counts the row's "
                       "updates, but the row has no such column",
                       group);
    return 0;
}

static int check_group(const struct accessor *a, uint32_t group, struct err *e)
{
    const struct accessor_group *g = &a->groups[group];
    if (g->n < 1 || g->n > TABLE_MAX_WIDTH)
        return err_set(e, TUG_EDATA, "group %u of the row has %u weights, not 1 to %d",
                       group, g->n, TABLE_MAX_WIDTH);
    return check_rule(a, group, e);
}

struct columns {
    uint32_t begin, n;
};
enum { MAX_COLUMNS = 2 * ACCESSOR_MAX_GROUPS + 3 };

// Checks that the columns lie within a row of `width` floats and do not overlap.
static int check_fit(const struct columns *c, size_t n, uint32_t width, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (c[i].begin > width || c[i].n > width - c[i].begin)
            return err_set(e, TUG_EDATA,
                           "%u columns of the row begin at %u and do not fit its %u "
                           "floats",
                           c[i].n, c[i].begin, width);
        for (size_t j = 0; j < i; j++)
            if (c[i].begin < c[j].begin + c[j].n && c[j].begin < c[i].begin + c[i].n)
                return err_set(e, TUG_EDATA,
                               "columns of the row overlap: %u from %u and %u from %u",
                               c[j].n, c[j].begin, c[i].n, c[i].begin);
    }
    return 0;
}

static int check_columns(const struct accessor *a, struct err *e)
{
    struct columns row[MAX_COLUMNS], extra[MAX_COLUMNS];
    size_t n = 0, n_extra = 0;
    for (uint32_t g = 0; g < a->n_groups; g++) {
        struct columns *c = in_extra(a, g) ? &extra[n_extra] : &row[n];
        c[0] = (struct columns){a->groups[g].weights, a->groups[g].n};
        c[1] = (struct columns){a->groups[g].state, a->groups[g].n_state};
        *(in_extra(a, g) ? &n_extra : &n) += 2;
    }
    if (a->count != ACCESSOR_NO_COUNT)
        row[n++] = (struct columns){a->count, 1};
    row[n++] = (struct columns){a->stats, a->n_stats};
    if (a->extra_width > 0)
        row[n++] = (struct columns){a->extra, 1};
    TRY(check_fit(row, n, a->width, e));
    if (check_fit(extra, n_extra, a->extra_width, e) != 0)
        return e != NULL ? err_wrap(e, "extra row") : TUG_EDATA;
    return 0;
}

// Checks a layout with a lifecycle: a layout with statistics has a class, no count, and
// not too many statistics; an extra row is not too wide and has the second group.
static int check_life(const struct accessor *a, struct err *e)
{
    bool any = a->n_stats != 0 || a->pulled_stats != 0 || a->pushed_stats != 0 ||
               a->extra_width != 0;
    if (a->class == NULL && any)
        return err_set(
            e, TUG_EDATA,
            "the row has statistics, but belongs to no accessor that uses them");
    if (a->class != NULL && a->count != ACCESSOR_NO_COUNT)
        return err_set(e, TUG_EDATA, "a row of accessor %s cannot have a count",
                       a->class->name);
    if (a->n_stats > ACCESSOR_MAX_STATS || a->pulled_stats > ACCESSOR_MAX_STATS ||
        a->pushed_stats > ACCESSOR_MAX_STATS)
        return err_set(e, TUG_EDATA,
                       "the row has %u statistics, of which %u are pulled and %u pushed; "
                       "at most %d are possible",
                       a->n_stats, a->pulled_stats, a->pushed_stats, ACCESSOR_MAX_STATS);
    if (a->extra_width > TABLE_MAX_WIDTH)
        return err_set(e, TUG_EDATA,
                       "an extra row of %u floats is too wide; at most %d fit",
                       a->extra_width, TABLE_MAX_WIDTH);
    if (a->extra_width > 0 && a->n_groups != 2)
        return err_set(e, TUG_EDATA, "the extra row has no weights");
    return 0;
}

int accessor_check(const struct accessor *a, struct err *e)
{
    uint32_t n = 0;
    bool enough = a->n_groups > 0 || a->pushed_stats > 0;
    if (!enough || a->n_groups > ACCESSOR_MAX_GROUPS)
        return err_set(e, TUG_EDATA, "a row has %u groups of weights, not 1 to %d",
                       a->n_groups, ACCESSOR_MAX_GROUPS);
    if (a->width > TABLE_MAX_WIDTH)
        return err_set(e, TUG_EDATA, "a row of %u floats is too wide; at most %d fit",
                       a->width, TABLE_MAX_WIDTH);
    for (uint32_t g = 0; g < a->n_groups; g++) {
        TRY(check_group(a, g, e));
        n += a->groups[g].n;
    }
    TRY(check_life(a, e));
    TRY(check_columns(a, e));
    uint32_t pull = n + a->pulled_stats,
             push = n + a->pushed_stats + (a->count != ACCESSOR_NO_COUNT ? 2 : 0);
    if (a->pull_width != pull || a->push_width != push)
        return err_set(e, TUG_EDATA,
                       "the layout gives a key %u floats in a pull and %u in a push, but "
                       "its groups and statistics make %u and %u",
                       a->pull_width, a->push_width, pull, push);
    return 0;
}

// ---------------------------------------------------- pulls: copying columns out of rows

static inline void prefetch_weights(const struct accessor *a, const float *row)
{
    for (uint32_t g = 0; g < a->n_groups && row != NULL; g++)
        table_row_prefetch(row + a->groups[g].weights, a->groups[g].n * sizeof(float));
}

void accessor_gather(const struct accessor *a, float *const *rows, size_t n, float *ret)
{
    for (size_t i = 0; i < n && i < GATHER_AHEAD; i++)
        prefetch_weights(a, rows[i]);
    for (size_t i = 0; i < n; i++, ret += a->pull_width) {
        if (i + GATHER_AHEAD < n)
            prefetch_weights(a, rows[i + GATHER_AHEAD]);
        float *to = ret;
        for (uint32_t g = 0; g < a->n_groups && rows[i] != NULL; g++) {
            const float *weights = rows[i] + a->groups[g].weights;
            if (a->groups[g].n == 1)
                *to = relaxed_load(weights);
            else
                relaxed_load_n(to, weights, a->groups[g].n);
            to += a->groups[g].n;
        }
    }
}

static void prefetch_extra(const struct accessor *a, const float *extra)
{
    if (extra != NULL)
        table_row_prefetch(extra, a->extra_width * sizeof(float));
}

static void prefetch_row(const struct accessor *a, const float *row)
{
    if (row != NULL)
        table_row_prefetch(row, a->width * sizeof(float));
}

void accessor_gather_life(const struct accessor *a, float *const *rows,
                          float *const *extras, size_t n, float *ret)
{
    for (size_t i = 0; i < n && i < GATHER_AHEAD; i++) {
        prefetch_row(a, rows[i]);
        if (extras != NULL)
            prefetch_extra(a, extras[i]);
    }
    for (size_t i = 0; i < n; i++, ret += a->pull_width) {
        if (i + GATHER_AHEAD < n) {
            prefetch_row(a, rows[i + GATHER_AHEAD]);
            if (extras != NULL)
                prefetch_extra(a, extras[i + GATHER_AHEAD]);
        }
        if (rows[i] == NULL)
            continue;
        float *to = ret;
        if (a->pulled_stats > 0)
            a->class->life.stats(a, rows[i], to);
        to += a->pulled_stats;
        for (uint32_t g = 0; g < a->n_groups; g++) {
            const float *row = !in_extra(a, g)  ? rows[i]
                               : extras != NULL ? extras[i]
                                                : NULL;
            if (row != NULL)
                relaxed_load_n(to, row + a->groups[g].weights, a->groups[g].n);
            else
                memset(to, 0, a->groups[g].n * sizeof(float));
            to += a->groups[g].n;
        }
    }
}

void accessor_first(const struct accessor *a, const struct table *t, uint64_t key,
                    float *ret)
{
    memset(ret, 0, a->pulled_stats * sizeof(float));
    ret += a->pulled_stats;
    for (uint32_t g = 0; g < a->n_groups; g++) {
        const struct accessor_group *x = &a->groups[g];
        if (in_extra(a, g))
            memset(ret, 0, x->n * sizeof(float));
        else
            table_first_columns(t, key, x->weights, x->n, ret);
        ret += x->n;
    }
}

static void add_init(struct table_options *t, uint32_t begin, uint32_t n, float low,
                     float high)
{
    if (n == 0 || (low == 0 && high == 0))
        return;
    assert(t->n_inits < TABLE_MAX_INITS);
    t->inits[t->n_inits++] = (struct table_init){begin, n, low, high};
}

void accessor_inits(const struct accessor *a, float low, float high, float low1,
                    float high1, struct table_options *t)
{
    t->n_inits = 0;
    for (uint32_t g = 0; g < a->n_groups; g++) {
        const struct accessor_group *x = &a->groups[g];
        if (in_extra(a, g))
            continue;
        add_init(t, x->weights, x->random, g == 0 ? low : low1, g == 0 ? high : high1);
        add_init(t, x->state, x->n_state, x->rule.n0, x->rule.n0);
    }
}

void accessor_first_extra(const struct accessor *a, const struct table *t, uint64_t key,
                          float low, float high, float *ret)
{
    const struct accessor_group *x = &a->groups[1];
    table_random_columns(t, key, a->width + x->weights, x->n, low, high,
                         ret + x->weights);
    for (uint32_t i = 0; i < x->n_state; i++)
        ret[x->state + i] = x->rule.n0;
}

// ---------------------------------------------------------- updates of rows by gradients

int accessor_scratch_init(struct accessor_scratch *s, const struct accessor *a,
                          const struct kernels *k, struct err *e)
{
    size_t most = 0;
    for (uint32_t g = 0; g < a->n_groups; g++)
        most = a->groups[g].n > most ? a->groups[g].n : most;
    *s = (struct accessor_scratch){.accessor = a, .kernels = k};
    s->scaled = mem_aligned(64, (most + KERNEL_PADDING) * sizeof(float));
    return s->scaled != NULL ? 0 : err_nomem(e, "gradients of a row");
}

void accessor_scratch_fini(struct accessor_scratch *s)
{
    mem_free(s->scaled);
    *s = (struct accessor_scratch){0};
}

// Rows that are updated together, padded as kernels.h requires.
struct strip {
    const struct rule_params *rules;
    float pass;
    size_t n;
    float *rows[PADDED];
    float scales[STRIP]; // the factor of each row's gradients
    float scale;         // the factor of gradients of rules with `unscaled`
    // For each group, the list of rows that hold it, from this strip on to the end of the
    // batch (`left` rows). NULL if there are no such rows; an entry is NULL if the row
    // has no extra row.
    float *const *at[ACCESSOR_MAX_GROUPS];
    size_t left;
    const float *gradients[ACCESSOR_MAX_GROUPS][STRIP];
    float occurrences[PADDED], squares[PADDED];
    float share
        // The fraction of the prior (rule_params.prior) that this update of each row
        // applies.
        [PADDED];
};

static void prefetch_group(const struct accessor_group *g, const float *row)
{
    table_row_prefetch(row + g->weights, (g->n + g->n_state) * sizeof(float));
}

static void prefetch_strip(const struct accessor *a, float *const *rows, size_t n)
{
    for (size_t i = 0; i < n && i < STRIP; i++)
        table_row_prefetch(rows[i], a->width * sizeof(float));
}

static void pad(struct strip *x)
{
    for (size_t i = x->n; i < x->n + KERNEL_PADDING; i++) {
        x->rows[i] = x->rows[0];
        x->occurrences[i] = x->squares[i] = x->share[i] = 1;
    }
}

// Sets the l2 of each row's update. If rows count their updates, every gradient in the
// sum has its own l2 term, which is scaled as the gradient is; otherwise the whole update
// has one l2 term.
static void set_l2(const struct strip *x, const struct accessor *a,
                   const struct accessor_group *g, const struct rule_params *rule,
                   float *ret_l2)
{
    bool once = rule_info(rule->kind)->l2_once;
    float scale = a->count != ACCESSOR_NO_COUNT ? x->scale : 1;
    for (size_t i = 0; i < x->n + KERNEL_PADDING; i++)
        ret_l2[i] = x->occurrences[i] * rule->l2 + rule->prior * x->share[i];
    for (size_t i = 0; i < x->n && g->decays_by_squares; i++)
        ret_l2[i] *= x->squares[i] / x->occurrences[i];
    for (size_t i = 0; i < x->n; i++)
        if (!once)
            ret_l2[i] *= scale;
        else if (x->occurrences[i] > 0)
            ret_l2[i] /= x->occurrences[i];
}

// Clips each of n gradients by itself, as rule_clip does.
static void clip_column(const struct accessor_scratch *s, const struct rule_params *rule,
                        float *column, size_t n)
{
    if (rule->clip != 0)
        s->kernels->clip(column, column, rule->clip, n);
    for (size_t i = 0; i < n && rule->clip_norm != 0; i++)
        (void)rule_clip(s->kernels, rule, &column[i], 1, &column[i]);
}

// Bounds one weight in each of n rows, as the kernel `bound` does for the weights of a
// row.
static void bound_column(const struct rule_params *rule, float *const *rows, uint32_t w,
                         size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = relaxed_load(rows[i] + w);
        if (x < rule->low || x > rule->high)
            relaxed_store(rows[i] + w, x < rule->low ? rule->low : rule->high);
    }
}

static inline float scale_of(const struct strip *x, const struct rule_params *rule,
                             size_t i)
{
    return rule->unscaled ? x->scale : x->scales[i];
}

static void apply_column(const struct accessor_scratch *s, const struct strip *x,
                         uint32_t group, const float *l2)
{
    const struct accessor_group *g = &s->accessor->groups[group];
    const struct rule_params *rule = &x->rules[group];
    float column[PADDED];
    for (size_t i = 0; i < x->n; i++)
        column[i] = *x->gradients[group][i] * scale_of(x, rule, i);
    for (size_t i = x->n; i < x->n + KERNEL_PADDING; i++)
        column[i] = 1;
    clip_column(s, rule, column, x->n);
    s->kernels->apply_column[rule->kind](rule, l2, x->rows, g->weights, g->state, column,
                                         x->n);
    if (rule->bounded)
        bound_column(rule, x->rows, g->weights, x->n);
}

// Applies the rule to a group of each row, row by row. Each row is prefetched a fixed
// number of rows ahead: if all rows of a strip were prefetched at once, the CPU would
// drop some of the prefetches (measured on an AMD EPYC: 112 instead of 67 ns for an extra
// row of dim 1).
static void apply_vectors(const struct accessor_scratch *s, const struct strip *x,
                          uint32_t group, const float *l2)
{
    const struct accessor_group *g = &s->accessor->groups[group];
    const struct rule_params *rule = &x->rules[group];
    float *const *rows = x->at[group];
    rule_apply_fn apply = rule_apply(s->kernels, rule->kind);
    for (size_t i = 0; i < x->n && rows != NULL; i++) {
        const float *gradient = x->gradients[group][i];
        if (i + APPLY_AHEAD < x->left && rows[i + APPLY_AHEAD] != NULL)
            prefetch_group(g, rows[i + APPLY_AHEAD]);
        if (rows[i] == NULL)
            continue;
        float scale = scale_of(x, rule, i);
        if (scale != 1) {
            s->kernels->scale(s->scaled, scale, gradient, g->n);
            gradient = s->scaled;
        }
        gradient = rule_clip(s->kernels, rule, gradient, g->n, s->scaled);
        float *w = rows[i] + g->weights;
        apply(rule, l2[i], w, rows[i] + g->state, gradient, g->n);
        if (rule->bounded)
            s->kernels->bound(w, rule->low, rule->high, g->n);
    }
}

static void apply_strip(const struct accessor_scratch *s, struct strip *x)
{
    const struct accessor *a = s->accessor;
    float l2[PADDED];
    pad(x);
    if (a->count != ACCESSOR_NO_COUNT)
        s->kernels->count(x->rows, a->count, x->occurrences, x->pass, x->share, x->n);
    for (uint32_t g = 0; g < a->n_groups; g++) {
        enum rule_kind kind = a->groups[g].rule.kind;
        set_l2(x, a, &a->groups[g], &x->rules[g], l2);
        // adagrad-row and a program's own rules have no kernels for columns.
        if (a->groups[g].n == 1 && !in_extra(a, g) && kind != RULE_ADAGRAD_ROW &&
            kind < RULE_KINDS)
            apply_column(s, x, g, l2);
        else
            apply_vectors(s, x, g, l2);
    }
}

// Takes the rows [from, from + n) of a batch of `all` rows into the strip, and prefetches
// the rows of the next strip.
static void take_rows(const struct accessor *a, struct strip *x, float *const *rows,
                      float scale, size_t from, size_t all)
{
    x->scale = scale;
    x->left = all - from;
    x->n = x->left < STRIP ? x->left : STRIP;
    for (uint32_t g = 0; g < a->n_groups; g++)
        x->at[g] = rows + from;
    if (from == 0)
        prefetch_strip(a, rows, x->n);
    prefetch_strip(a, rows + from + x->n, all - from - x->n);
    for (size_t i = 0; i < x->n; i++) {
        x->rows[i] = rows[from + i];
        x->occurrences[i] = x->squares[i] = x->share[i] = 1;
        x->scales[i] = scale;
    }
}

void accessor_apply(struct accessor_scratch *s, const struct accessor_update *u)
{
    const struct accessor *a = s->accessor;
    struct strip x = {.rules = u->rules, .pass = u->pass};
    for (size_t from = 0; from < u->n; from += x.n) {
        take_rows(a, &x, u->rows, u->scale, from, u->n);
        for (size_t i = 0; i < x.n; i++)
            for (uint32_t g = 0; g < a->n_groups; g++)
                x.gradients[g][i] = u->gradients[g][from + i];
        for (size_t i = 0; i < x.n && a->count != ACCESSOR_NO_COUNT; i++) {
            x.occurrences[i] = u->occurrences[from + i];
            x.squares[i] = u->squares[from + i];
        }
        apply_strip(s, &x);
    }
}

void accessor_apply_packed(struct accessor_scratch *s, const struct accessor_push *p)
{
    const struct accessor *a = s->accessor;
    struct strip x = {.rules = p->rules, .pass = p->pass};
    const float *values = p->values;
    for (size_t from = 0; from < p->n; from += x.n) {
        take_rows(a, &x, p->rows, p->scale, from, p->n);
        for (size_t i = 0; i < x.n; i++) {
            for (uint32_t g = 0; g < a->n_groups; g++) {
                x.gradients[g][i] = values;
                values += a->groups[g].n;
            }
            if (a->count != ACCESSOR_NO_COUNT) {
                x.occurrences[i] = *values++;
                x.squares[i] = *values++;
            }
        }
        apply_strip(s, &x);
    }
}

void accessor_apply_life(struct accessor_scratch *s, const struct accessor_life_push *p)
{
    const struct accessor *a = s->accessor;
    struct strip x = {.rules = p->rules, .pass = 1};
    const float *values = p->values;
    for (size_t from = 0; from < p->n; from += x.n) {
        take_rows(a, &x, p->rows, p->scale, from, p->n);
        if (a->extra_width > 0)
            x.at[1] = p->extras != NULL ? p->extras + from : NULL;
        for (size_t i = 0; i < x.n; i++, values += a->push_width) {
            x.gradients[0][i] = values;
            x.gradients[1][i] = values + a->groups[0].n;
            if (p->divisors != NULL && p->divisors[from + i] != 1)
                x.scales[i] = p->scale / p->divisors[from + i];
        }
        apply_strip(s, &x);
    }
}
