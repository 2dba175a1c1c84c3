// See sync_backup.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/sync_backup.h"

#include <assert.h>

#include "server/clocks/sync.h"
#include "server/clocks/sync_sum.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// Returns the group of a partition of which this shard is a backup, or NULL with an error.
// If memory was out when the partition was to get a group of its own, tries again.
static struct sync_group *find_group(struct shard *s, struct shard_table *t,
                                     uint32_t partition, struct err *e)
{
    if (t->sync_split && sync_own(s, t) != 0) {
        (void)err_nomem(e, "the batches of a partition");
        return NULL;
    }
    struct sync_group *g = sync_group_of(t, partition);
    if (g->backup)
        return g;
    (void)stream_damaged(e);
    return NULL;
}

static int keep(struct shard *s, struct shard_table *t, struct sync_group *g,
                const struct sync_backup_part *p, struct err *e)
{
    const struct msg_push m = {.clock = p->clock, .micro = p->micro, .micros = p->micros};
    const struct keys k = {.n = p->n, .longest = p->n};
    const struct contribution like = {.n = p->n,
                                      .keys = (uint64_t *)(uintptr_t)p->keys,
                                      .values = p->values,
                                      .examples = p->examples,
                                      .rate = p->rate,
                                      .pass = p->pass,
                                      .again = p->again};
    struct contribution *c;
    void *replaced[SHARD_MICROS];
    if (sync_reserve(s, t, g, &m, &k) != 0)
        return err_nomem(e, "a batch");
    TRY(contribution_make(s, &like, g->partition, t->spec.accessor.push_width, &c, e));
    uint32_t n = sync_clock_add(&g->clock, p->clock, p->micro, p->micros, c, replaced);
    for (uint32_t i = 0; i < n; i++)
        contribution_drop(s, replaced[i]);
    g->told = true;
    return 0;
}

int sync_backup_keep(struct shard *s, struct shard_table *t, uint32_t partition,
                     const struct sync_backup_part *p, struct err *e)
{
    struct sync_group *g = find_group(s, t, partition, e);
    if (g == NULL)
        return e->code;
    if (sync_clock_check(p->clock, p->micro, p->micros, NULL) != 0 ||
        sync_clock_is_ahead(&g->clock, p->clock) ||
        sync_clock_has(&g->clock, p->clock, p->micro, p->micros))
        return stream_damaged(e);
    TRY(sync_group_check_part(s, t, partition, p->rate, p->pass, p->keys, p->values, p->n,
                              e));
    t->fixed_keys |= p->fixed_keys;
    // The partition has none of the keys that all pushes have: see sync_is_idle.
    if ((t->fixed_keys && !g->told && p->n == 0) ||
        bug_in(s->o.member.bugs, WITHOUT_CHAIN_PARTS))
        return 0;
    return keep(s, t, g, p, e);
}

int sync_backup_restart(struct shard *s, struct shard_table *t, uint32_t partition,
                        const uint64_t *next, struct err *e)
{
    struct sync_group *g = find_group(s, t, partition, e);
    if (g == NULL)
        return e->code;
    if (next != NULL)
        TRY(sync_clock_check_number(*next, e));
    sync_drop_group(s, g);
    g->clock.next = next != NULL ? *next : g->clock.next;
    return 0;
}

// Applies the group's batch. The errors of this loop's own batches stay.
static int apply(struct shard *s, struct shard_table *t, struct sync_group *g,
                 uint64_t step, const struct sync_decided *decided, struct err *e)
{
    struct err stuck = t->stuck;
    bool full = t->full;
    uint64_t own = store_step_of(t->store);
    store_set_step(t->store, step);
    int rc = sync_apply_batch(s, t, g, decided);
    store_set_step(t->store, own);
    if (rc != 0)
        *e = t->stuck;
    t->stuck = stuck;
    t->full = full;
    return rc;
}

int sync_backup_apply(struct shard *s, struct shard_table *t, uint32_t partition,
                      uint64_t clock, uint64_t step, const struct sync_decided *decided,
                      struct err *e)
{
    struct sync_group *g = find_group(s, t, partition, e);
    if (g == NULL)
        return e->code;
    if (clock > SYNC_CLOCK_MAX || g->clock.next != clock)
        return stream_damaged(e);
    if (!g->told) { // it has kept no parts
        g->clock.next++;
        return 0;
    }
    if (!sync_clock_complete(&g->clock))
        return stream_damaged(e);
    TRY(apply(s, t, g, step, decided, e));
    sync_end_batch(s, g);
    return 0;
}
