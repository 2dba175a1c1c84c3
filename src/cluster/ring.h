// The consistent-hash ring (Karger et al. 1997) with virtual nodes and bounded loads
// (Mirrokni, Thorup, Zadimoghaddam 2018): it decides which server loop owns which
// partition when a cluster begins; no loop gets more than 1.05 times the mean (rounded up).
// Changes after that are planned by cluster/placement.h.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_RING_H
#define TUG_CLUSTER_RING_H

#include <stddef.h>
#include <stdint.h>

// Returns the most partitions that one of n nodes may own: 1.05 times the mean, rounded
// up.
uint32_t ring_most(uint32_t partitions, size_t n);

// Places `partitions` partitions by hash. `nodes` has the ids of n > 0 loops, ascending;
// the result depends on these ids only. Returns 0 or TUG_ENOMEM.
int ring_place(const uint32_t *nodes, size_t n, uint32_t partitions,
               uint32_t *ret_owners);

// Places partitions by ranges of keys: node i of n gets the i-th of n contiguous runs.
void ring_place_ranges(const uint32_t *nodes, size_t n, uint32_t partitions,
                       uint32_t *ret_owners);

#endif
