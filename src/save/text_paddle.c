// Reads Paddle's sparse rows: converts columns, and the states of Paddle's rules to
// tug's.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "rule/rule.h"
#include "save/text_internal.h"

// Returns the number of floats of state that Paddle has for n weights under this rule;
// UINT32_MAX if Paddle has no such rule.
static uint32_t paddle_state(const struct rule_params *r, uint32_t n)
{
    switch ((int)r->kind) {
    case RULE_SGD:
        return 0;
    case RULE_ADAGRAD_SHARED:
    case RULE_ADAGRAD_V2:
        return 1;
    case RULE_ADAGRAD_STD:
        return n;
    case RULE_ADAM:
        return 2 * n + 2;
    case RULE_ADAM_SHARED:
        return 4;
    default:
        return UINT32_MAX;
    }
}

// Returns whether shows and clicks are doubles, as in Paddle's CtrDoubleAccessor.
static bool is_wide(const struct accessor *a)
{
    return accessor_has_clicks(a) &&
           accessor_number(a, a->stats + LIFE_SHOW) == NUMBER_DOUBLE;
}

int text_paddle_check(const struct store *s, struct err *e)
{
    const struct accessor *a = store_accessor(s);
    bool clicks = accessor_has_clicks(a);
    char names[ACCESSOR_NAMES_MAX];
    if (!clicks && (a->pushed_stats > 0 || a->n_groups > 1)) {
        accessor_names(true, names);
        return err_set(e, TUG_EUSAGE,
                       "text of Paddle can be imported into tables of accessor plain or "
                       "one of %s, not %s",
                       names, text_accessor(s));
    }
    for (uint32_t g = 0; g < a->n_groups && clicks; g++) {
        const struct rule_params *r = &a->groups[g].rule;
        uint32_t n = paddle_state(r, a->groups[g].n);
        if (n == UINT32_MAX)
            return err_set(e, TUG_EUSAGE,
                           "rule %s has no counterpart in Paddle: give the table the "
                           "rule that it had in Paddle: sgd, adagrad-shared, "
                           "adagrad-std, adagrad-v2, adam or adam-shared",
                           rule_info(r->kind)->name);
        if (is_wide(a) && n != 1)
            return err_set(
                e, TUG_EUSAGE,
                "rows of Paddle's CtrDoubleAccessor have rules of one float of "
                "state: adagrad-shared or adagrad-v2, not %s",
                rule_info(r->kind)->name);
    }
    return 0;
}

// Converts adam's count of steps: tug keeps 1 - beta^steps, Paddle keeps beta^(steps +
// 1).
static float steps_of(double power, float beta)
{
    double rest = beta > 0 ? 1 - power / (double)beta : 1;
    return rest > 0 ? (float)rest : 0;
}

static void set_state(const struct accessor_group *g, float *state, const double *x)
{
    uint32_t n = paddle_state(&g->rule, g->n);
    bool adam = g->rule.kind == RULE_ADAM || g->rule.kind == RULE_ADAM_SHARED;
    for (uint32_t i = 0; i < n; i++)
        state[i] = (float)x[i];
    if (adam) {
        state[n - 2] = steps_of(x[n - 2], g->rule.beta1);
        state[n - 1] = steps_of(x[n - 1], g->rule.beta2);
    }
}

static void set_weights(const struct accessor_group *g, float *row, const double *x)
{
    for (uint32_t i = 0; i < g->n; i++)
        row[g->weights + i] = (float)x[i];
}

static void set_stat(const struct accessor *a, struct text_row *r, uint32_t stat,
                     double x)
{
    struct text_column c = {NUMBER_FLOAT, a->stats + stat};
    if (stat == LIFE_DAY)
        c.form = NUMBER_DAY;
    if (is_wide(a) && stat >= LIFE_SHOW) {
        c.form = NUMBER_DOUBLE;
        c.at = a->stats + LIFE_SHOW + 2 * (stat - LIFE_SHOW);
    }
    // A row that was last seen before day 0 of the table is taken as last seen on day 0.
    // Day 0 is longer ago than any setting's number of days, so the result is the same.
    if (c.form == NUMBER_DAY && x >= (double)r->day)
        x = (double)r->day;
    text_set(r->row, c, x, r->day);
}

static int wrong_count(const char *where, const struct accessor *a, uint32_t n,
                       uint32_t row, uint32_t with_extra, struct err *e)
{
    if (a->n_groups > 1)
        return err_set(e, TUG_EDATA,
                       "%s: the key is followed by %u number%s; Paddle's rows of this "
                       "table have %u, or %u with embedx",
                       where, n, n == 1 ? "" : "s", row, with_extra);
    return err_set(
        e, TUG_EDATA,
        "%s: the key is followed by %u number%s; Paddle's rows of this table have %u",
        where, n, n == 1 ? "" : "s", row);
}

// Parses slot unseen_days delta_score show click embed state... [embedx... state...]
static int single_row(const struct accessor *a, const double *x, uint32_t n,
                      struct text_row *ret, const char *where, struct err *e)
{
    static const uint32_t stats[] = {LIFE_SLOT, LIFE_DAY, LIFE_DELTA, LIFE_SHOW,
                                     LIFE_CLICK};
    enum { STATS = sizeof(stats) / sizeof(*stats) };
    const struct accessor_group *g = a->groups;
    uint32_t row = STATS + g[0].n + paddle_state(&g[0].rule, g[0].n), all = row;
    if (a->n_groups > 1)
        all += g[1].n + paddle_state(&g[1].rule, g[1].n);
    if (n != row && n != all)
        return wrong_count(where, a, n, row, all, e);
    for (uint32_t i = 0; i < STATS; i++)
        set_stat(a, ret, stats[i], x[i]);
    set_weights(&g[0], ret->row, x + STATS);
    set_state(&g[0], ret->row + g[0].state, x + STATS + g[0].n);
    ret->has_extra = n > row;
    if (ret->has_extra) {
        set_weights(&g[1], ret->extra, x + row);
        set_state(&g[1], ret->extra + g[1].state, x + row + g[1].n);
    }
    return 0;
}

// Parses unseen_days delta_score show click embed state [slot] [state embedx...]. Early
// versions of Paddle have no slot, so their rows are one number shorter.
static int wide_row(const struct accessor *a, const double *x, uint32_t n,
                    struct text_row *ret, const char *where, struct err *e)
{
    static const uint32_t stats[] = {LIFE_DAY, LIFE_DELTA, LIFE_SHOW, LIFE_CLICK};
    enum { STATS = sizeof(stats) / sizeof(*stats), ROW = STATS + 3 };
    const struct accessor_group *g = a->groups;
    uint32_t all = a->n_groups > 1 ? ROW + 1 + g[1].n : ROW;
    bool slot = n == ROW || n == all, extra = n >= all - 1 && all > ROW;
    if (!slot && n != ROW - 1 && n != all - 1)
        return wrong_count(where, a, n, ROW, all, e);
    for (uint32_t i = 0; i < STATS; i++)
        set_stat(a, ret, stats[i], x[i]);
    x += STATS;
    set_weights(&g[0], ret->row, x++);
    set_state(&g[0], ret->row + g[0].state, x++);
    if (slot)
        set_stat(a, ret, LIFE_SLOT, *x++);
    ret->has_extra = extra;
    if (extra) {
        set_state(&g[1], ret->extra + g[1].state, x++);
        set_weights(&g[1], ret->extra, x);
    }
    return 0;
}

int text_paddle_row(const struct store *s, const double *x, uint32_t n,
                    struct text_row *ret, const char *where, struct err *e)
{
    const struct accessor *a = store_accessor(s);
    return is_wide(a) ? wide_row(a, x, n, ret, where, e)
                      : single_row(a, x, n, ret, where, e);
}
