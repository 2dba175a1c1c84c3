// See cold_dir.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/rows/cold_dir.h"

#include <stdio.h>

#include "server/rows/tables.h"
#include "server/saves/roots.h"
#include "server/shard_internal.h"

// Gets the directory of this loop's cold rows of the table. The name of the directory
// contains the numbers of the process and the loop, not the node's id, so that it is the
// same after a restart. `other`: the number of such directories that are in use; 0: none.
static int cold_dir(const struct shard *s, const struct shard_table *t, uint32_t other,
                    char ret[FILE_PATH_MAX], struct err *e)
{
    const struct roster_node *me = roster_find(member_roster(s->member),
                                               member_id(s->member));
    char below[FILE_PATH_MAX], suffix[16] = "";
    if (other > 0)
        snprintf(suffix, sizeof(suffix), "-%u", other);
    int n = snprintf(below, sizeof(below), "%s/%u-server%u-loop%u%s", t->spec.config.cold,
                     t->spec.id, me != NULL ? me->rank : 0, me != NULL ? me->loop : 0,
                     suffix);
    if (n < 0 || n >= FILE_PATH_MAX)
        return err_set(e, TUG_EUSAGE, "'%s': the path is too long", t->spec.config.cold);
    return roots_make_cold(s->o.roots, below, ret, e);
}

static bool is_locked(const char *dir)
{
    int lock, rc = file_lock_dir(dir, &lock, NULL);
    file_unlock_dir(lock);
    return rc == TUG_EUSAGE;
}

int cold_dir_find(const struct shard *s, const struct shard_table *t,
                  char ret[FILE_PATH_MAX], struct err *e)
{
    enum { MOST = 16 };
    TRY(cold_dir(s, t, 0, ret, e));
    for (uint32_t i = 1; s->chain != NULL && i < MOST && is_locked(ret); i++)
        TRY(cold_dir(s, t, i, ret, e));
    return 0;
}
