// Metrics by group: see metrics_groups.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/metrics_groups.h"

#include <math.h>
#include <string.h>

#include "model/loss.h"

// The sort makes one pass for each digit, from the least significant digit on: the digits of
// the weight, then of the score, then of the group. The weight is a key so that equal scores
// are always added up in the same order.
enum { BITS = 11, DIGITS = 1 << BITS, FLOAT_PASSES = 3, PASSES = 2 * FLOAT_PASSES + 6 };

static size_t digit_of(const struct graded *g, int pass)
{
    uint64_t bits = pass < FLOAT_PASSES ? score_order(g->scored.weight) >> BITS * pass
                    : pass < 2 * FLOAT_PASSES
                        ? score_order(g->scored.score) >> BITS * (pass - FLOAT_PASSES)
                        : g->group >> BITS * (pass - 2 * FLOAT_PASSES);
    return bits & (DIGITS - 1);
}

// Sorts by one digit. Returns false if all elements have the same digit, so that nothing
// was moved.
static bool sort_by_digit(const struct graded *from, struct graded *to, size_t n,
                          int pass)
{
    size_t start[DIGITS + 1] = {0};
    for (size_t i = 0; i < n; i++)
        start[digit_of(&from[i], pass) + 1]++;
    if (start[digit_of(&from[0], pass) + 1] == n)
        return false;
    for (int d = 0; d < DIGITS; d++)
        start[d + 1] += start[d];
    for (size_t i = 0; i < n; i++)
        to[start[digit_of(&from[i], pass)]++] = from[i];
    return true;
}

void graded_sort(struct graded *g, struct graded *scratch, size_t n)
{
    struct graded *from = g, *to = scratch;
    for (int pass = 0; pass < PASSES && n > 1; pass++) {
        if (!sort_by_digit(from, to, n, pass))
            continue;
        struct graded *swap = from;
        from = to;
        to = swap;
    }
    if (from != g)
        memcpy(g, from, n * sizeof(*g));
}

size_t graded_group(const struct graded *g, size_t n)
{
    size_t k = 1;
    while (k < n && g[k].group == g[0].group)
        k++;
    return k;
}

double group_auc(const struct graded *g, size_t n, double *ret_weight)
{
    struct ranking r = RANKING_INIT;
    for (size_t i = 0; i < n; i++)
        ranking_add(&r, g[i].scored);
    double auc = ranking_auc(&r);
    *ret_weight = r.positives + r.below;
    return auc;
}

struct group_metrics group_metrics(const struct graded *g, size_t n)
{
    struct group_metrics m = {.examples = n};
    double loss = 0, predicted = 0, observed = 0;
    m.auc = group_auc(g, n, &m.weight);
    for (size_t i = 0; i < n; i++) {
        float weight = fabsf(g[i].scored.weight), label = g[i].scored.weight > 0;
        double p = loss_prediction(LOSS_LOGISTIC, g[i].scored.score);
        m.positives += label > 0;
        loss += weight * loss_value(LOSS_LOGISTIC, p, label);
        predicted += weight * p;
        observed += weight * label;
    }
    m.logloss = loss / m.weight;
    m.copc = observed > 0 ? predicted / observed : (double)NAN;
    return m;
}

struct gauc graded_gauc(const struct graded *g, size_t n)
{
    struct gauc r = {0};
    double sum = 0, weights = 0, weight;
    for (size_t k; n > 0; g += k, n -= k) {
        k = graded_group(g, n);
        if (g->group == GROUP_NONE) {
            r.without += k;
            continue;
        }
        double auc = group_auc(g, k, &weight);
        if (isnan(auc)) {
            r.one_class++;
            continue;
        }
        r.groups++;
        sum += weight * auc;
        weights += weight;
    }
    r.gauc = weights > 0 ? sum / weights : (double)NAN;
    return r;
}
