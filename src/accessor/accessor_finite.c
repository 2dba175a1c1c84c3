// Checks whether rows are finite, and whether they stay finite under a push.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "accessor/accessor.h"
#include "base/finite.h"

static bool in_extra(const struct accessor *a, uint32_t group)
{
    return group > 0 && a->extra_width > 0;
}

// -------------------------------------------------------- checks that numbers are finite

// Returns whether the states of a rule are numbers that tug knows. A rule that a program
// has registered may store anything in its state.
static bool state_is_known(const struct rule_params *r)
{
    return (unsigned)r->kind < RULE_KINDS;
}

static bool group_finite(const struct accessor_group *g, const float *at)
{
    bool whole = state_is_known(&g->rule), joined = g->state == g->weights + g->n;
    return finite_floats(at + g->weights, g->n + (whole && joined ? g->n_state : 0)) &&
           (!whole || joined || finite_floats(at + g->state, g->n_state));
}

bool accessor_extra_finite(const struct accessor *a, const float *extra)
{
    for (uint32_t i = 0; i < a->n_groups; i++)
        if (in_extra(a, i) && !group_finite(&a->groups[i], extra))
            return false;
    return true;
}

bool accessor_row_finite(const struct accessor *a, const float *row, const float *extra)
{
    for (uint32_t i = 0; i < a->n_groups; i++)
        if (!in_extra(a, i) && !group_finite(&a->groups[i], row))
            return false;
    return (extra == NULL || accessor_extra_finite(a, extra)) &&
           (a->count == ACCESSOR_NO_COUNT || isfinite(row[a->count]));
}

bool accessor_weights_finite(const struct accessor *a, const float *row,
                             const float *extra)
{
    for (uint32_t i = 0; i < a->n_groups; i++) {
        const float *at = in_extra(a, i) ? extra : row;
        if (at != NULL && !finite_floats(at + a->groups[i].weights, a->groups[i].n))
            return false;
    }
    return true;
}

bool accessor_stays_finite(const struct accessor *a)
{
    for (uint32_t i = 0; i < a->n_groups; i++)
        if (!a->groups[i].rule.bounded || !state_is_known(&a->groups[i].rule))
            return false;
    return true;
}

// Tame numbers. If |row| < 2^40, |gradient| and occurrences < 2^20, and l2 <= 1, then a
// gradient with its decay is below 2^61 and its square below 2^122. A quotient by beta >=
// 2^-30 is below 2^110. In ftrl, whose gradient has no decay term, z is below 2^122, and
// a weight is z (lr / beta) <= 4 z.

static bool is_tame(const struct rule_params *r)
{
    bool rates = fabsf(r->lr) <= 16 && r->l1 >= 0 && r->l1 <= 1024 && r->l2 >= 0 &&
                 r->l2 <= 1 && r->prior == 0;
    bool means = r->beta1 >= 0 && r->beta1 <= 0.9999f && r->beta2 >= 0 &&
                 r->beta2 <= 0.9999f;
    bool beta = r->beta >= 0x1p-30f && r->beta <= 0x1p20f;
    switch (r->kind) {
    case RULE_SUM:
    case RULE_ASSIGN:
    case RULE_AVERAGE:
        return true;
    case RULE_SGD:
        return rates;
    case RULE_MOMENTUM:
        return rates && means;
    case RULE_ADAGRAD: // adagrad's sum of squares is never below n0
        return rates && (beta || (r->beta >= 0 && r->beta < 1 && r->n0 >= 0x1p-60f));
    case RULE_RMSPROP:
    case RULE_ADAM:
        return rates && beta && means;
    case RULE_FTRL:
        return rates && r->lr >= 0x1p-20f && beta && r->lr <= 4 * r->beta;
    default:
        return false;
    }
}

bool accessor_rules_tame(const struct accessor *a, const struct rule_params *rules)
{
    for (uint32_t i = 0; i < a->n_groups; i++)
        if (!is_tame(&rules[i]))
            return false;
    return true;
}

static bool group_tame(const struct accessor_group *g, const float *at)
{
    uint32_t roots =
        g->n_state; // index of the first float of state whose square root the rule takes
    float least = g->rule.kind == RULE_ADAGRAD && g->rule.beta < 0x1p-30f ? 0x1p-60f : 0;
    if (!finite_below(at + g->weights, g->n, ACCESSOR_TAME_ROW) ||
        !finite_below(at + g->state, g->n_state, ACCESSOR_TAME_ROW))
        return false;
    if (g->rule.kind == RULE_ADAGRAD || g->rule.kind == RULE_RMSPROP)
        roots = 0;
    else if (g->rule.kind == RULE_ADAM || g->rule.kind == RULE_FTRL)
        roots = g->n;
    for (uint32_t i = roots; i < g->n_state; i++)
        if (at[g->state + i] < least)
            return false;
    return true;
}

bool accessor_row_tame(const struct accessor *a, const float *row, const float *extra)
{
    for (uint32_t i = 0; i < a->n_groups; i++) {
        const float *at = in_extra(a, i) ? extra : row;
        if (at != NULL && !group_tame(&a->groups[i], at))
            return false;
    }
    return true;
}

// A push has the divisors of gradients (shows or occurrences) after the gradients.
bool accessor_push_tame(const struct accessor *a, const float *values, size_t n,
                        float most)
{
    size_t width = a->push_width;
    if (!(most < ACCESSOR_TAME_PUSH)) // too large or NaN
        return false;
    size_t by = a->count != ACCESSOR_NO_COUNT               ? width - 2
                : a->pushed_stats > 0 && a->life.show_scale ? width - a->pushed_stats
                                                            : width;
    bool tiny = false;
    for (size_t i = 0; i < n && by < width; i++)
        tiny |= values[i * width + by] < 0x1p-4f;
    return !tiny && (a->class == NULL || accessor_class_is_own(a->class));
}
