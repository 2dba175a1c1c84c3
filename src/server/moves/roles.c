// See roles.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/roles.h"

#include <assert.h>

#include "base/alloc.h"
#include "protocol/keys.h"

static uint32_t n_partitions(const struct roster *r)
{
    return (uint32_t)1 << r->partition_bits;
}

static bool is_mine(const struct roster *r, uint32_t me, uint32_t space, uint32_t p)
{
    return r->owners[space] != NULL && r->owners[space][p] == me;
}

int roles_open(struct roles *x, const struct roster *r, uint32_t me)
{
    uint32_t n = n_partitions(r);
    uint8_t *all = mem_zalloc((size_t)WIRE_SPACES * n);
    if (all == NULL)
        return TUG_ENOMEM;
    *x = (struct roles){0};
    for (uint32_t i = 0; i < WIRE_SPACES; i++) {
        x->of[i] = all + (size_t)i * n;
        for (uint32_t p = 0; p < n; p++)
            x->of[i][p] = is_mine(r, me, i, p)                             ? ROLE_HERE
                          : roster_is_member(r, (enum wire_space)i, p, me) ? ROLE_BACKUP
                                                                           : ROLE_AWAY;
    }
    return 0;
}

void roles_close(struct roles *x)
{
    mem_free(x->of[0]);
    *x = (struct roles){0};
}

void roles_set(struct roles *x, enum wire_space space, uint32_t partition,
               enum moves_role role)
{
    x->of[space][partition] = (uint8_t)role;
}

void roles_count(struct roles *x, const struct roster *r, uint32_t me)
{
    x->n_unsettled = 0;
    for (uint32_t i = 0; i < WIRE_SPACES; i++) {
        x->unsettled[i] = 0;
        for (uint32_t p = 0; p < n_partitions(r); p++)
            x->unsettled[i] += is_mine(r, me, i, p) && x->of[i][p] != ROLE_HERE;
        x->n_unsettled += x->unsettled[i];
    }
}

bool roles_stop(const struct roles *x, enum wire_space space, const struct keys *k,
                bool whole)
{
    if (x->unsettled[space] == 0)
        return false;
    for (uint32_t i = 0; i < k->n_runs && !whole; i++)
        if (x->of[space][k->runs[i].partition] != ROLE_HERE)
            return true;
    return whole;
}
