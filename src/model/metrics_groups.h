// Metrics by group: examples that share a value, such as a user's.
//
// Scores are kept with their groups and sorted by both. The elements of a group are then
// adjacent, and its scores are in the order that an AUC needs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_METRICS_GROUPS_H
#define TUG_MODEL_METRICS_GROUPS_H

#include "model/metrics.h"

enum { GROUP_NONE = 0 }; // the group of examples that are in no group

struct graded {
    uint64_t group;
    struct scored scored;
};

// Sorts by group, score and weight; equal elements keep their order. `scratch` also has n
// elements.
void graded_sort(struct graded *g, struct graded *scratch, size_t n);

// Returns the number of elements in the group of g[0]; n > 0.
size_t graded_group(const struct graded *g, size_t n);

// Metrics of one group, for the logistic loss.
struct group_metrics {
    uint64_t examples, positives;
    double weight; // total weight of the examples
    double auc, logloss, copc;
};

// `g` has the n elements of one group. group_auc sets *ret_weight to their total weight.
double group_auc(const struct graded *g, size_t n, double *ret_weight);
struct group_metrics group_metrics(const struct graded *g, size_t n);

// The mean of the groups' AUCs, weighted by the groups' total weights (Zhou et al. 2018,
// section 6), and counts of groups and examples. The elements must be sorted by graded_sort.
struct gauc {
    double gauc;        // NaN if no group has an AUC
    uint64_t groups;    // groups that count
    uint64_t one_class; // groups of a single class, which are left out
    uint64_t without;   // examples without a group, which are left out
};
struct gauc graded_gauc(const struct graded *g, size_t n);

#endif
