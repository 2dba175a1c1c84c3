// The failure domains of server loops. A zone has hosts, a host has processes, and a
// process has loops; all loops of a domain can fail at once. This module finds the loop
// with the least load outside the domains of given loops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_DOMAINS_H
#define TUG_CLUSTER_DOMAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum domain { DOMAIN_ZONE, DOMAIN_HOST, DOMAIN_PROCESS, DOMAINS };

struct domain_loop {
    uint32_t id;
    // Numbers that the caller chooses; equal numbers mean the same domain. A host without
    // a zone is a zone of its own.
    uint32_t process, host, zone;
    bool full;   // the loop keeps its partitions, but gets no other partitions
    bool leaves; // the loop is alive, but shall not have any partitions
};

struct domain_place {
    struct domain_loop loop;
    uint32_t begin[DOMAINS], end[DOMAINS]; // the places of this loop's domains
    uint64_t load;
    uint64_t limit; // domains_least returns the loop only while load < limit
};

// The places are sorted by zone, host and process, so each domain is a range of places.
struct domains {
    uint32_t n;
    struct domain_place *places;
    uint32_t *by_id; // the places, by ascending id of their loops
    uint32_t *least; // tree: each node has the place with the least load below the node
    uint32_t width;  // number of leaves of the tree
};

// `loops` has n > 0 loops, ascending by id. All loads and limits are 0 at first. Returns
// 0 or TUG_ENOMEM.
int domains_make(struct domains *ret, const struct domain_loop *loops, size_t n);
void domains_free(struct domains *d);

// Returns the place of the loop with this id; d->n if there is none.
uint32_t domains_find(const struct domains *d, uint32_t id);

// Call domains_update after changing the load or limit of one place,
// domains_update_all after changing several.
void domains_update(struct domains *d, uint32_t at);
void domains_update_all(struct domains *d);

// Returns how many kinds of domains the place shares with the closest of these places: 0
// if it is in another zone than all of them, DOMAINS if it is in a process of theirs.
uint32_t domains_closeness(const struct domains *d, uint32_t at, const uint32_t *places,
                           uint32_t n);

enum { DOMAINS_MAX_PLACES = 16 };

// Returns the place with the least load (of equal ones the first) among those below
// their limit whose closeness to the n <= DOMAINS_MAX_PLACES places is at most
// `closeness` < DOMAINS; d->n if there is none. Takes O(n * (n + log d->n)).
uint32_t domains_least(const struct domains *d, const uint32_t *places, uint32_t n,
                       uint32_t closeness);

#endif
