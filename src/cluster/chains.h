// Plans chains: the loops that hold a partition, the primary first, then its backups, in
// the order in which they are promoted. Each changed member means that rows have to be
// copied, so a plan changes as few members as possible. If there is one replica, the plan
// is that of cluster/placement.h.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_CHAINS_H
#define TUG_CLUSTER_CHAINS_H

#include "cluster/domains.h"

enum { CHAINS_MAX_REPLICAS = 8 };

struct chain_list {
    uint32_t partitions;
    uint32_t replicas; // the number of places in a chain, the primary's included
    uint32_t *ids;     // `replicas` ids for each partition; 0 after the last member
    // A wanted list has for each partition a loop that becomes a backup only if no other
    // loop can; 0: the partition has no such loop. NULL: no partition has one.
    const uint32_t *avoid;
};

static inline uint32_t *chains_of(const struct chain_list *c, uint32_t partition)
{
    return c->ids + (size_t)partition * c->replicas;
}

// Removes the members that are not among the n loops (ascending by id), which are all
// loops that are alive. The first member that is left of a chain is its primary. Returns
// the number of chains without a member.
uint32_t chains_remove_dead(struct chain_list *c, const struct domain_loop *loops,
                            size_t n);

// Returns the first partition, beginning with `from`, of which none of the first `copies`
// members is among the loops; c->partitions if there is none. A table may have fewer
// copies than a chain has members.
uint32_t chains_find_lost(const struct chain_list *c, const struct domain_loop *loops,
                          size_t n, uint32_t copies, uint32_t from);

struct chains_faults {
    uint32_t shorter;  // number of chains with fewer than `replicas` members
    uint32_t together; // number of chains with two members in one zone
};

// Plans which loops shall hold the partitions. `loops` has all n > 0 loops that are
// alive, ascending by id. `present` has the chains as they are now, in which only loops
// that are alive occur and each chain has at least one. `wanted` has the previous plan,
// or a copy of `present`, and gets the new plan:
//
// - Two members of a chain are never in one process, and they are on one host or in one
//   zone only if no other host or zone has a loop with room. Apart from this, a backup
//   that stays remains.
// - A chain whose primary leaves is led by its first member that stays. If that one leads
//   more than its share, another member leads, which may be one that has to be filled.
// - Missing backups are appended, on the loops with the fewest backups. A loop without
//   primaries, or without backups, gets its equal share of them. Other shares may become
//   uneven by deaths.
// - If `even` is set, shares become equal as far as the zones allow.
//
// In a wanted chain the primary is first. The other members of the present chain follow,
// in their order, and then the loops that have to be filled. Takes O(partitions *
// replicas * log n) for a fixed number of replicas, beside the time of placement_plan.
// Returns 0 or TUG_ENOMEM; then `wanted` is unchanged.
int chains_plan(const struct domain_loop *loops, size_t n, bool even,
                const struct chain_list *present, struct chain_list *wanted,
                struct chains_faults *ret);

#endif
