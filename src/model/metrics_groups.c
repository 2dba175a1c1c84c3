// Metrics by group.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/metrics_groups.h"

#include <math.h>
#include <stdlib.h>

#include "model/loss.h"

static int order(float a, float b)
{
    uint32_t x = score_order(a), y = score_order(b);
    return (x > y) - (x < y);
}

static int by_group(const void *left, const void *right)
{
    const struct graded *a = left, *b = right;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    int c = order(a->scored.score, b->scored.score);
    return c != 0 ? c : order(a->scored.weight, b->scored.weight);
}

void graded_sort(struct graded *g, size_t n)
{
    if (n > 1)
        qsort(g, n, sizeof(*g), by_group);
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
