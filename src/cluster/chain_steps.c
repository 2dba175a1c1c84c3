// See chain_steps.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/chain_steps.h"

#include <stdbool.h>
#include <string.h>

#include "cluster/chains.h"

// Returns the index of the id; n if the chain does not have it.
static uint32_t find(const uint32_t *chain, uint32_t n, uint32_t id)
{
    uint32_t i = 0;
    while (i < n && chain[i] != id)
        i++;
    return i;
}

// Returns how many members at the start of the planned chain are in the present chain in
// the same order, and sets a bit for each of them in *ret_in_place, by their present
// indexes.
static uint32_t count_in_place(const uint32_t *present, uint32_t n,
                               const uint32_t *wanted, uint32_t wanted_n,
                               uint32_t *ret_in_place)
{
    uint32_t k = 0;
    *ret_in_place = 0;
    for (uint32_t i = 0; i < n && k < wanted_n; i++) {
        if (present[i] != wanted[k])
            continue;
        *ret_in_place |= 1u << i;
        k++;
    }
    return k;
}

void chain_steps_order(const uint32_t *present, uint32_t n, uint32_t *wanted,
                       uint32_t wanted_n, uint32_t replicas)
{
    uint32_t ordered[CHAINS_MAX_REPLICAS], to = 0, first = find(present, n, wanted[0]);
    uint32_t before = 0, outside = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool stays = find(wanted, wanted_n, present[i]) < wanted_n;
        outside += !stays;
        before += stays && i < first;
    }
    // The present order remains if no member leaves at the end, or if there are too few
    // loops: another order would take a copy away first, and fill it again.
    uint32_t begin = before == 0 || (outside > 0 && wanted_n == replicas) ? first : 0;
    if (begin == n)
        ordered[to++] = wanted[0];
    for (uint32_t i = begin; i < n; i++)
        if (find(wanted, wanted_n, present[i]) < wanted_n)
            ordered[to++] = present[i];
    for (uint32_t i = 0; i < wanted_n; i++)
        if (find(present, n, wanted[i]) == n && find(ordered, to, wanted[i]) == to)
            ordered[to++] = wanted[i];
    for (uint32_t i = 0; i < begin; i++)
        if (find(wanted, wanted_n, present[i]) < wanted_n)
            ordered[to++] = present[i];
    memcpy(wanted, ordered, to * sizeof(*wanted));
}

uint32_t chain_steps_leaves(const uint32_t *present, uint32_t n, const uint32_t *wanted,
                            uint32_t wanted_n)
{
    uint32_t in_place, k = count_in_place(present, n, wanted, wanted_n, &in_place);
    // First the members that are filled again: the next one that is filled must not be a
    // member any more.
    for (uint32_t i = k; i < wanted_n && n > wanted_n; i++)
        if (find(present, n, wanted[i]) < n)
            return wanted[i];
    for (uint32_t i = n; i-- > 0;)
        if ((k == wanted_n || n > wanted_n) && (in_place >> i & 1) == 0)
            return present[i];
    return 0;
}

uint32_t chain_steps_fills(const uint32_t *present, uint32_t n, const uint32_t *wanted,
                           uint32_t wanted_n)
{
    uint32_t in_place, k = count_in_place(present, n, wanted, wanted_n, &in_place);
    if (k == wanted_n || n > wanted_n || find(present, n, wanted[k]) < n)
        return 0;
    return wanted[k];
}
