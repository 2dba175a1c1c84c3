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
// The loop checks the table before it tells the scheduler, and makes it even if the request ends
// before that. So a table that the scheduler knows is on some loop, and a client can drop it.
//
// A loop tells the scheduler of a drop, too. Both messages say how often the number of the
// table was dropped (chain.drops), so a late message about a former table has no effect.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
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

struct unbacked_told {
    struct unbacked_told *next;
    struct table_spec spec;
    uint64_t drops; // how often its number had been dropped
};

// Returns what the roster says about the table's number, unless that is about a former table.
static const struct roster_unbacked *listed(const struct shard *s, uint32_t table)
{
    const struct roster *r = member_roster(s->member);
    const struct roster_unbacked *x = roster_unbacked_find(r, table);
    return x != NULL && x->drops >= s->chain->drops[table] ? x : NULL;
}

static const struct unbacked_told *told_of(const struct shard *s, uint32_t table)
{
    const struct unbacked_told *x = s->chain->told;
    while (x != NULL && (x->spec.id != table || x->drops != s->chain->drops[table]))
        x = x->next;
    return x;
}

// Keeps the table, so that the scheduler is told until its roster names the table.
static int keep(struct shard *s, const struct table_spec *spec, struct err *e)
{
    struct unbacked_told *x = mem_alloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "a table to be made");
    *x = (struct unbacked_told){s->chain->told, *spec, s->chain->drops[spec->id]};
    s->chain->told = x;
    s->chain->tell_at = s->now;
    return 0;
}

// A table whose number is free is to be made.
static enum outcome check(struct shard *s, const struct table_spec *spec, struct err *e)
{
    const struct unbacked_told *told = told_of(s, spec->id);
    const struct roster_unbacked *x = listed(s, spec->id);
    if (told != NULL && tables_differ(&told->spec, spec, e) != 0)
        return GOES_ON;
    if (!unbacked_is(s, spec))
        return GOES_ON;
    if (x != NULL && x->space != spec->space) {
        err_because(e, TUG_EUSAGE, REASON_TABLE_DIFFERS, spec->id,
                    "table %u cannot be '%s': another table with one replica has this "
                    "number; give '%s' another number, or drop the other table first",
                    spec->id, spec->config.name, spec->config.name);
        return GOES_ON;
    }
    if (x != NULL)
        return GOES_ON;
    if (told == NULL && (tables_try(s, spec, e) != 0 || keep(s, spec, e) != 0))
        return GOES_ON;
    return WANTS_ROSTER;
}

enum outcome unbacked_may_make(struct shard *s, const struct msg_table *m, struct err *e)
{
    struct table_spec spec;
    if (m->table < SPEC_MAX_TABLES && s->tables[m->table] != NULL)
        return GOES_ON;
    return spec_decode(&spec, m, e) == 0 ? check(s, &spec, e) : GOES_ON;
}

enum outcome unbacked_may_copy(struct shard *s, const struct msg_table_do *m,
                               struct err *e)
{
    struct table_spec spec;
    const struct shard_table *t = m->table < SPEC_MAX_TABLES ? s->tables[m->table] : NULL;
    bool copies = m->what == WIRE_COPY || m->what == WIRE_MEAN;
    if (!copies || t == NULL || !t->unbacked ||
        (m->other < SPEC_MAX_TABLES && s->tables[m->other] != NULL))
        return GOES_ON;
    return copies_check(s, t, m, &spec, e) == 0 ? check(s, &spec, e) : GOES_ON;
}

void unbacked_look(struct shard *s)
{
    const struct roster *r = member_roster(s->member);
    if (r->n_unbacked > 0)
        s->chain->tell_at = s->now;
}

static bool is_waited_for(const struct shard *s, uint32_t table)
{
    for (const struct pending *h = s->held; h != NULL; h = h->next)
        if ((h->type == MSG_TABLE && h->m.table.table == table) ||
            (h->type == MSG_TABLE_DO && h->m.table_do.other == table))
            return true;
    return false;
}

// Returns whether nothing is left to do for a table of which the scheduler was told. Requests
// make the table themselves, because some do more.
static bool is_done(struct shard *s, const struct unbacked_told *x)
{
    struct shard_table *t = s->tables[x->spec.id];
    const struct roster_unbacked *of = listed(s, x->spec.id);
    if (t != NULL || x->drops != s->chain->drops[x->spec.id] ||
        (of != NULL && of->space != x->spec.space))
        return true;
    if (of != NULL)
        return !is_waited_for(s, x->spec.id) &&
               tables_make_new(s, &x->spec, &t, NULL) == 0;
    tell(s, x->spec.id, x->spec.space, x->spec.config.name, true);
    return false;
}

static void send_made(struct shard *s)
{
    struct unbacked_told **at = &s->chain->told;
    while (*at != NULL) {
        struct unbacked_told *x = *at;
        if (is_done(s, x)) {
            *at = x->next;
            mem_free(x);
            continue;
        }
        s->chain->tell_at = s->now + AGAIN_NS;
        at = &x->next;
    }
}

void unbacked_send(struct shard *s)
{
    struct chain *c = s->chain;
    const struct roster *r = member_roster(s->member);
    if (s->now < c->tell_at)
        return;
    c->tell_at = VAN_NEVER;
    send_made(s);
    for (uint32_t i = 0; i < r->n_unbacked; i++) {
        const struct roster_unbacked *x = &r->unbacked[i];
        if (c->drops[x->table] <= x->drops)
            continue;
        tell(s, x->table, x->space, "", false);
        c->tell_at = s->now + AGAIN_NS;
    }
    pending_wake(s, WANTS_ROSTER);
}

void unbacked_close(struct shard *s)
{
    while (s->chain->told != NULL) {
        struct unbacked_told *x = s->chain->told;
        s->chain->told = x->next;
        mem_free(x);
    }
}
