// The steps from a present chain to a planned one (cluster/chains.h). A step lets a member
// leave, or appends a loop that was filled. Members never change their order: each member
// has all records of the members after it, and perhaps more. So a loop that has to follow
// a member that it precedes now leaves the chain, and is filled again.
//
// A chain has n ids, its primary first.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_CHAIN_STEPS_H
#define TUG_CLUSTER_CHAIN_STEPS_H

#include <stdint.h>

// Changes the order of the planned chain, so that steps lead to it while a partition has
// at least as many copies as the smaller one of the two chains. The planned primary leads
// if this is possible; it is not if the members before it neither leave nor have a loop in
// their place while they are filled again. Then, and if the planned chain has fewer
// than `replicas` members, the present order remains.
void chain_steps_order(const uint32_t *present, uint32_t n, uint32_t *wanted,
                       uint32_t wanted_n, uint32_t replicas);

// Returns the member that leaves the present chain now; 0 if no member does. Call it
// again after that member has left.
uint32_t chain_steps_leaves(const uint32_t *present, uint32_t n, const uint32_t *wanted,
                            uint32_t wanted_n);

// Returns the loop that is filled now, after which it is appended; 0 if no loop is, or if
// a member has to leave first.
uint32_t chain_steps_fills(const uint32_t *present, uint32_t n, const uint32_t *wanted,
                           uint32_t wanted_n);

#endif
