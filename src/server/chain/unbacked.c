// Unbacked tables (setting replicas = 1, on a cluster with more replicas): only the primary
// of a partition has their rows. Its records about such a table have positions, but no
// rows, so backups have the table without rows, and fills do not copy its rows.
//
// The rows would be lost with a change of the primary. So the scheduler knows these tables:
// while a space has one, the scheduler gives none of its partitions to another primary, and
// the death of a primary ends the run. A loop tells the scheduler of the table when a client
// makes it (MSG_UNBACKED), and makes it when its roster names the table. Each loop that has
// answered thus has a roster that was made after the last change of a primary.
//
// A loop tells the scheduler of a drop, too. Both messages say how often the number of the
// table was dropped (chain.drops), so a late message about a former table has no effect.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/roster.h"
#include "server/chain/chain.h"
#include "server/clocks/pending.h"
#include "server/rows/copies.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

#define AGAIN_NS (SECOND_NS / 4) // pause before a message is repeated

bool unbacked_is(const struct shard *s, const struct table_spec *spec)
{
    return s->chain != NULL && spec->config.replicas == 1;
}

static void tell(struct shard *s, uint32_t table, enum wire_space space, const char *name,
                 bool exists)
{
    struct msg_unbacked m = {.table = table,
                             .space = (uint8_t)space,
                             .exists = exists,
                             .drops = s->chain->drops[table],
                             .name = wire_text(name)};
    member_tell(s->member, MSG_UNBACKED, &m);
}

// Returns whether the roster names the table; if not, tells the scheduler, soon again.
static bool is_known(struct shard *s, const struct table_spec *spec)
{
    const struct roster *r = member_roster(s->member);
    const struct roster_unbacked *x = roster_unbacked_find(r, spec->id);
    if (x != NULL && x->space == spec->space && x->drops >= s->chain->drops[spec->id])
        return true;
    tell(s, spec->id, spec->space, spec->config.name, true);
    s->chain->tell_at = clock_earlier(s->chain->tell_at, s->now + AGAIN_NS);
    return false;
}

bool unbacked_may_make(struct shard *s, const struct msg_table *m)
{
    struct table_spec spec;
    bool decoded = spec_decode(&spec, m, NULL) == 0; // if not, the table is refused
    return !decoded || !unbacked_is(s, &spec) || s->tables[spec.id] != NULL ||
           is_known(s, &spec);
}

bool unbacked_may_copy(struct shard *s, const struct msg_table_do *m)
{
    struct table_spec spec;
    const struct shard_table *t = m->table < SPEC_MAX_TABLES ? s->tables[m->table] : NULL;
    if ((m->what != WIRE_COPY && m->what != WIRE_MEAN) || t == NULL || !t->unbacked)
        return true;
    bool made = copies_spec(&t->spec, m->other, &spec, NULL) == 0;
    return !made || s->tables[spec.id] != NULL || is_known(s, &spec);
}

void unbacked_look(struct shard *s)
{
    const struct roster *r = member_roster(s->member);
    if (r->n_unbacked > 0)
        s->chain->tell_at = s->now;
}

void unbacked_send(struct shard *s)
{
    struct chain *c = s->chain;
    const struct roster *r = member_roster(s->member);
    if (s->now < c->tell_at)
        return;
    c->tell_at = VAN_NEVER;
    for (uint32_t i = 0; i < r->n_unbacked; i++) {
        const struct roster_unbacked *x = &r->unbacked[i];
        if (c->drops[x->table] <= x->drops)
            continue;
        tell(s, x->table, x->space, "", false);
        c->tell_at = s->now + AGAIN_NS;
    }
    pending_wake(s, WANTS_ROSTER); // tables that wait are told again
}
