// Records which partitions are on this shard. While a partition moves, this may differ
// from the roster: the rows arrive before the roster names this shard as the owner, and
// requests stop before a partition leaves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_MOVES_ROLES_H
#define TUG_SERVER_MOVES_ROLES_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/roster.h"

struct keys;

enum moves_role {
    ROLE_AWAY, // the partition's rows are not here
    ROLE_HERE, // the partition's rows are here
    // The partition's rows are here, but this shard does not serve requests for them: it
    // is a backup.
    ROLE_BACKUP,
    // The partition's rows are here and must not change, because another
    // shard is taking them over.
    ROLE_HANDING,
};

struct roles {
    uint8_t *of[WIRE_SPACES]; // enum moves_role of each partition of a space; NULL until
                              // roles_open
    // The number of partitions that this shard owns but whose requests must wait, because
    // their rows have not arrived or are leaving; for each space, and in all.
    uint32_t unsettled[WIRE_SPACES], n_unsettled;
};

// Makes the roles: partitions that node `me` owns get ROLE_HERE, and those of which it is
// a backup ROLE_BACKUP. Returns 0 or TUG_ENOMEM.
int roles_open(struct roles *x, const struct roster *r, uint32_t me);
void roles_close(struct roles *x); // *x may be zeroed

static inline enum moves_role roles_of(const struct roles *x, enum wire_space space,
                                       uint32_t partition)
{
    return (enum moves_role)x->of[space][partition];
}

void roles_set(struct roles *x, enum wire_space space, uint32_t partition,
               enum moves_role role);
// Counts the unsettled partitions. Call it when the roster or a role has changed.
void roles_count(struct roles *x, const struct roster *r, uint32_t me);
// Returns whether a request for these keys must wait. If `whole` is true, the request
// needs all partitions of the space that the shard owns.
bool roles_stop(const struct roles *x, enum wire_space space, const struct keys *k,
                bool whole);

#endif
