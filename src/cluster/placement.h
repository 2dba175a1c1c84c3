// Plans which loop shall own which partition after servers have joined, leave, or
// have unequal shares. Each changed owner means that rows have to move, so a plan
// changes as few owners as possible: a loop without partitions gets its equal share
// from the loops with the most, and a loop that leaves gives its partitions to the
// loops with the fewest.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_PLACEMENT_H
#define TUG_CLUSTER_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct placement_loop {
    uint32_t id;
    bool full; // the loop keeps its partitions, but gets no other partitions
};

// `loops` has the n > 0 loops that stay, ascending by id. `owners` has the present owner
// of each partition. `wanted` has the previous plan, or a copy of `owners` if there is
// none, and gets the new plan. If `even` is set, the loops' shares in the new plan differ
// by at most one partition, unless a loop is full. A partition whose owner leaves keeps
// that owner if all loops are full. Returns 0 or TUG_ENOMEM.
int placement_plan(const struct placement_loop *loops, size_t n, bool even,
                   uint32_t partitions, const uint32_t *owners, uint32_t *wanted);

#endif
