// Groups of partitions that have received the same parts of batches: moves, splits and
// joins of groups.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/sync_group.h"

#include <string.h>

#include "base/alloc.h"
#include "server/clocks/pending.h"
#include "server/clocks/sync.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

bool sync_is_idle(const struct shard_table *t, const struct sync_group *g)
{
    // Only after a move can there be a group whose partitions have none of the
    // fixed keys of all pushes.
    return g->away || (t->sync_moved && t->fixed_keys && !g->told);
}

bool sync_has_runs(const struct shard_table *t, const struct sync_group *g,
                   const struct keys *k)
{
    for (uint32_t r = 0; r < k->n_runs; r++)
        if (sync_group_of(t, k->runs[r].partition) == g)
            return true;
    return false;
}

// Returns whether a part of an open batch has keys of this partition.
static bool is_in_parts(const struct sync_group *g, uint32_t partition)
{
    for (uint32_t i = 0; i < SHARD_MAX_CLOCKS; i++)
        for (uint32_t k = 0; k < g->clock.open[i].n; k++) {
            const struct contribution *c = g->clock.open[i].parts[k].what;
            if (contribution_run(c, partition) < c->n_runs)
                return true;
        }
    return false;
}

bool sync_has_keys(const struct shard_table *t, uint32_t partition)
{
    return store_rows_of(t->store, partition) > 0 ||
           is_in_parts(sync_group_of(t, partition), partition);
}

uint64_t sync_least(const struct shard_table *t)
{
    uint64_t least = UINT64_MAX;
    for (const struct sync_group *g = sync_first(t); g != NULL; g = g->next)
        if (!sync_is_idle(t, g) && g->clock.next < least)
            least = g->clock.next;
    return least;
}

uint64_t sync_most(const struct shard_table *t)
{
    uint64_t most = 0;
    for (const struct sync_group *g = sync_first(t); g != NULL; g = g->next)
        if (!g->backup && g->clock.next > most)
            most = g->clock.next;
    return most;
}

bool sync_is_ahead(const struct shard_table *t, uint64_t clock)
{
    for (const struct sync_group *g = sync_first(t); g != NULL; g = g->next)
        if (!sync_is_idle(t, g) && sync_clock_is_ahead(&g->clock, clock))
            return true;
    return false;
}

static void drop_parts(struct shard *s, struct sync_group *g)
{
    for (uint32_t i = 0; i < SHARD_MAX_CLOCKS; i++) {
        struct sync_batch *b = &g->clock.open[i];
        for (uint32_t p = 0; p < b->n; p++)
            contribution_drop(s, b->parts[p].what);
        *b = (struct sync_batch){0};
    }
}

void sync_group_free(struct shard *s, struct sync_group *g)
{
    if (g == NULL)
        return;
    drop_parts(s, g);
    previous_free(&g->before);
    mem_free(g);
}

static int copy_before(const struct shard_table *t, const struct sync_group *from,
                       uint32_t partition, struct sync_group *to)
{
    uint32_t width = t->spec.accessor.pull_width;
    const struct previous *b = &from->before;
    to->before.lost = b->lost;
    for (size_t i = 0; i < b->n && !b->lost; i++) {
        if (store_partition(t->store, b->keys[i]) != partition)
            continue;
        float *values = previous_take(&to->before, width, b->keys + i, 1);
        if (values == NULL)
            return TUG_ENOMEM;
        memcpy(values, b->values + i * width, width * sizeof(float));
    }
    return 0;
}

int sync_group_reserve(struct shard *s, struct shard_table *t, struct err *e)
{
    if (t->groups == NULL)
        t->groups = mem_zalloc(((size_t)1 << s->bits) * sizeof(struct sync_group *));
    return t->groups != NULL ? 0 : err_nomem(e, "the batches of a partition");
}

static bool common_has_keys(const struct shard *s, const struct shard_table *t)
{
    for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++)
        if (sync_is_common(t, p) && sync_has_keys(t, p))
            return true;
    return false;
}

// Drops the parts of open batches, and the copies of rows, that the common group has.
static void empty_common(struct shard *s, struct shard_table *t)
{
    drop_parts(s, &t->sync);
    t->n_applied = 0;
    t->sync.begun = t->sync.told = false;
    previous_begin(&t->sync.before);
}

// Returns whether no partition of this shard belongs to the common group.
static bool is_empty(const struct shard *s, const struct shard_table *t)
{
    for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++)
        if (sync_is_common(t, p))
            return false;
    return true;
}

static void unlink_group(struct shard_table *t, struct sync_group *g)
{
    struct sync_group **at = &t->sync.next;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    t->groups[g->partition] = NULL;
}

// Called when the common group is empty: the common group takes over the content of group
// g.
static void adopt(struct shard_table *t, struct sync_group *g)
{
    struct sync_group *next;
    unlink_group(t, g);
    next = t->sync.next;
    previous_free(&t->sync.before);
    t->sync = *g;
    t->sync.next = next;
    t->sync_empty = false;
    mem_free(g);
}

static bool is_mine(const struct shard *s, const struct shard_table *t,
                    uint32_t partition)
{
    const uint32_t *owners = member_roster(s->member)->owners[t->spec.space];
    return owners != NULL && owners[partition] == member_id(s->member);
}

static void follow_owner(const struct shard *s, const struct shard_table *t,
                         struct sync_group *g)
{
    g->away = !is_mine(s, t, g->partition);
    g->backup = g->away && s->chain != NULL;
}

static void look_for_common(struct shard *s, struct shard_table *t)
{
    t->sync_empty = is_empty(s, t);
    // The partition that has the fixed keys of the table's pushes may have left this
    // shard.
    if (!t->sync_empty && t->fixed_keys && t->sync.told && !common_has_keys(s, t))
        empty_common(s, t);
    if (!t->sync_empty)
        return;
    empty_common(s, t);
    for (struct sync_group *g = t->sync.next; g != NULL; g = g->next)
        if (!g->away) {
            adopt(t, g);
            return;
        }
}

void sync_leave(struct shard *s, struct shard_table *t, uint32_t partition)
{
    struct sync_group *g = sync_group_of(t, partition);
    t->sync_moved = true;
    if (g != &t->sync) {
        unlink_group(t, g);
        sync_group_free(s, g);
    }
    look_for_common(s, t);
}

void sync_arrive(struct shard *s, struct shard_table *t, struct sync_group *g)
{
    assert(t->groups != NULL && t->groups[g->partition] == NULL);
    t->groups[g->partition] = g;
    t->sync_moved = true;
    follow_owner(s, t, g);
    g->next = t->sync.next;
    t->sync.next = g;
    look_for_common(s, t);
    sync_join(s, t);
}

// Takes a partition out of the common group into a group of its own, which shares the
// contributions.
static int split(struct shard *s, struct shard_table *t, uint32_t partition)
{
    TRY(sync_group_reserve(s, t, NULL));
    struct sync_group *g = mem_zalloc(sizeof(*g));
    if (g == NULL)
        return TUG_ENOMEM;
    if (copy_before(t, &t->sync, partition, g) != 0) {
        sync_group_free(s, g);
        return TUG_ENOMEM;
    }
    bool applied = partition < t->n_applied;
    g->partition = partition;
    g->clock = t->sync.clock;
    // The batch that is stuck was applied in this partition before it got stuck.
    if (applied)
        g->clock.open[g->clock.next++ % SHARD_MAX_CLOCKS] = (struct sync_batch){0};
    g->begun = t->sync.begun && !applied;
    g->told = t->sync.told && (!t->fixed_keys || sync_has_keys(t, partition));
    follow_owner(s, t, g);
    for (uint32_t i = 0; i < SHARD_MAX_CLOCKS; i++) {
        if (!g->told)
            g->clock.open[i] = (struct sync_batch){0};
        for (uint32_t k = 0; k < g->clock.open[i].n; k++)
            ((struct contribution *)g->clock.open[i].parts[k].what)->refs++;
    }
    t->groups[partition] = g;
    t->sync_moved = true;
    g->next = t->sync.next;
    t->sync.next = g;
    return 0;
}

int sync_own(struct shard *s, struct shard_table *t)
{
    if (t->spec.mode != WIRE_SYNC)
        return 0;
    t->sync_split = true;
    for (struct sync_group *g = t->sync.next; g != NULL; g = g->next)
        follow_owner(s, t, g);
    for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++)
        if (sync_is_common(t, p) && !is_mine(s, t, p))
            TRY(split(s, t, p));
    t->sync_split = false;
    look_for_common(s, t);
    sync_join(s, t);
    return 0;
}

static bool same_parts(const struct sync_clock *a, const struct sync_clock *b)
{
    bool same = a->next == b->next;
    for (uint32_t i = 0; i < SHARD_MAX_CLOCKS && same; i++) {
        const struct sync_batch *x = &a->open[i], *y = &b->open[i];
        same = x->n == y->n;
        for (uint32_t k = 0; k < x->n && same; k++)
            same = x->parts[k].micro == y->parts[k].micro &&
                   x->parts[k].micros == y->parts[k].micros &&
                   x->parts[k].what == y->parts[k].what;
    }
    return same;
}

static bool may_join(const struct shard_table *t, const struct sync_group *g)
{
    return !g->away && !t->sync_empty && t->n_applied == 0 && !t->sync.begun &&
           !g->begun && t->sync.told == g->told &&
           t->sync.before.lost == g->before.lost && same_parts(&t->sync.clock, &g->clock);
}

void sync_join(struct shard *s, struct shard_table *t)
{
    for (struct sync_group *g = t->sync.next, *next; g != NULL; g = next) {
        next = g->next;
        if (!may_join(t, g) ||
            !previous_append(&t->sync.before, t->spec.accessor.pull_width, &g->before))
            continue;
        unlink_group(t, g);
        sync_group_free(s, g);
    }
}
