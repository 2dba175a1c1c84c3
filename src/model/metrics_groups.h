// Metrics by group: examples that share a value, such as a user's.
//
// Scores are kept with their groups and sorted by both: a group is then a stretch, and its
// scores are in the order that an AUC wants.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_METRICS_GROUPS_H
#define TUG_MODEL_METRICS_GROUPS_H

#include "model/metrics.h"

enum { GROUP_NONE = 0 }; // of examples without a value

struct graded {
    uint64_t group;
    struct scored scored;
};

// Sorts by group, score and weight; equal elements keep their order. `scratch` has n
// elements, too.
void graded_sort(struct graded *g, struct graded *scratch, size_t n);

// Returns the number of elements in the group of g[0]; n > 0.
size_t graded_group(const struct graded *g, size_t n);

// For the logistic loss.
struct group_metrics {
    uint64_t examples, positives;
    double weight; // of the examples
    double auc, logloss, copc;
};

// For one group.
double group_auc(const struct graded *g, size_t n, double *ret_weight);
struct group_metrics group_metrics(const struct graded *g, size_t n);

// The mean of the groups' AUC by their examples' weights, without groups of a single
// class (Zhou et al. 2018, section 6), and its counts. The elements must be sorted.
struct gauc {
    double gauc;        // NaN: no group has an AUC
    uint64_t groups;    // that count
    uint64_t one_class; // groups left out
    uint64_t without;   // examples of GROUP_NONE, which are left out
};
struct gauc graded_gauc(const struct graded *g, size_t n);

#endif
