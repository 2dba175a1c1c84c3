// Unbacked tables: only the primary of a partition has their rows, although the partition has
// replicas. Servers name such a table before it has rows, and when it was dropped
// (MSG_UNBACKED). In between no partition of its space gets another primary by a plan, and
// the death of a primary ends the run.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "cluster/scheduler/scheduler_internal.h"

static const struct unbacked *first_of(const struct scheduler *s, int space)
{
    for (uint32_t i = 0; i < s->n_unbacked; i++)
        if (s->unbacked[i].exists && (int)s->unbacked[i].space == space)
            return &s->unbacked[i];
    return NULL;
}

bool scheduler_keeps_primaries(const struct scheduler *s, int space)
{
    return s->n_unbacked > 0 && first_of(s, space) != NULL;
}

bool scheduler_has_unbacked(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_unbacked; i++)
        if (s->unbacked[i].exists)
            return true;
    return false;
}

static bool leads(const struct scheduler *s, int space, uint32_t process)
{
    const uint32_t *owners = s->roster.owners[space];
    for (uint32_t i = 0; i < s->n_nodes && owners != NULL; i++) {
        const struct sched_node *n = &s->nodes[i];
        if (!n->used || n->process != process)
            continue;
        for (uint32_t p = 0; p < roster_partitions(&s->roster); p++)
            if (owners[p] == n->n.id)
                return true;
    }
    return false;
}

const struct unbacked *scheduler_unbacked_led(const struct scheduler *s, uint32_t process)
{
    for (int space = 0; space < WIRE_SPACES; space++) {
        const struct unbacked *x = first_of(s, space);
        if (x != NULL && leads(s, space, process))
            return x;
    }
    return NULL;
}

void scheduler_unbacked_names(const struct scheduler *s, int space, char *to, size_t cap)
{
    static const char more[] = ", ...";
    size_t at = 0;
    to[0] = '\0';
    for (uint32_t i = 0; i < s->n_unbacked; i++) {
        const struct unbacked *x = &s->unbacked[i];
        const char *comma = at > 0 ? ", " : "";
        if (!x->exists || (int)x->space != space)
            continue;
        if (at + strlen(comma) + strlen(x->name) + 2 + sizeof(more) > cap) {
            snprintf(to + at, cap - at, "%s", more);
            return;
        }
        at += (size_t)snprintf(to + at, cap - at, "%s'%s'", comma, x->name);
    }
}

static const char *zone_of(const struct scheduler *s, const struct sched_node *n)
{
    const char *zone = s->processes[n->process].zone;
    return zone[0] != '\0' ? zone : n->n.host;
}

// Returns 2 if both nodes are in one process, 1 if they are in one zone, otherwise 0.
static int nearness(struct scheduler *s, uint32_t a, uint32_t b)
{
    const struct sched_node *x = scheduler_node_of(s, a), *y = scheduler_node_of(s, b);
    if (x->process == y->process)
        return 2;
    return strcmp(zone_of(s, x), zone_of(s, y)) == 0;
}

// Puts the primary first into the planned chain. If the plan lacks it, and has as many members
// as there are replicas or one in the primary's process, the planned member that is nearest to
// the primary makes room; if several are equally near, the first of them.
static void keep_primary(struct scheduler *s, int space, uint32_t partition)
{
    uint32_t replicas = s->roster.replicas, primary = s->roster.owners[space][partition];
    uint32_t *ids = s->moving.wanted[space] + (size_t)partition * replicas;
    uint32_t n = 0, nearest = 0;
    while (n < replicas && ids[n] != primary && ids[n] != 0)
        n++;
    bool planned = n < replicas && ids[n] == primary;
    for (uint32_t k = 1; k < n && !planned; k++)
        if (nearness(s, primary, ids[k]) > nearness(s, primary, ids[nearest]))
            nearest = k;
    bool replaces = !planned &&
                    (n == replicas || nearness(s, primary, ids[nearest]) == 2);
    memmove(ids + 1, ids, (replaces ? nearest : n) * sizeof(*ids));
    ids[0] = primary;
}

void scheduler_keep_primaries(struct scheduler *s, int space)
{
    for (uint32_t p = 0; p < roster_partitions(&s->roster); p++)
        keep_primary(s, space, p);
}

static struct unbacked *get(struct scheduler *s, uint32_t table)
{
    for (uint32_t i = 0; i < s->n_unbacked; i++)
        if (s->unbacked[i].table == table)
            return &s->unbacked[i];
    struct unbacked *x = scheduler_grow(&s->unbacked, &s->n_unbacked, &s->cap_unbacked,
                                        sizeof(*x));
    if (x != NULL)
        x->table = table;
    return x;
}

// Says why servers that are drained do not leave.
static void tell_drained(struct scheduler *s, const struct unbacked *x)
{
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const struct process *p = &s->processes[i];
        if (p->used && p->draining && p->role == WIRE_SERVER && leads(s, x->space, i))
            scheduler_say(
                s,
                "server %u is drained, but it keeps the partitions that it leads: "
                "only it has their rows of table '%s'; it leaves when the table is "
                "dropped",
                p->rank, x->name);
    }
}

// The plan under way may give partitions other primaries, or the table that prevented that is
// gone.
static void follow(struct scheduler *s, const struct unbacked *x)
{
    char why[sizeof(x->name) + 32];
    snprintf(why, sizeof(why), "table '%s' %s", x->name,
             x->exists ? "has one replica" : "was dropped");
    s->changed = true;
    if (s->moving.wanted[0] != NULL)
        scheduler_plan_again(s, why);
    if (x->exists)
        tell_drained(s, x);
}

void scheduler_unbacked_serve(struct scheduler *s, struct sched_node *n, uint64_t request,
                              const struct msg_unbacked *m)
{
    (void)n;
    (void)request;
    if (!scheduler_has_chains(s) || s->phase != SCHEDULER_RUNNING ||
        m->table >= ROSTER_TABLES || m->space >= WIRE_SPACES ||
        m->drops > INT32_MAX || // more than a loop accepts (chain_check_drops)
        m->name.n >= sizeof(s->unbacked->name) ||
        !printable_check(m->name.data, m->name.n))
        return;
    struct unbacked *x = get(s, m->table);
    if (x == NULL) // memory is out, and the sender repeats the message
        return;
    // If two tables have equal counts, the first one stays: some loop may have it. Loops refuse
    // the other one if it is in another space.
    bool is_new = m->exists ? m->drops >= x->drops && !(x->exists && m->drops == x->drops)
                            : m->drops > x->drops;
    if (!is_new)
        return;
    bool existed = x->exists;
    x->exists = m->exists != 0;
    x->drops = m->drops;
    if (x->exists) {
        x->space = m->space;
        snprintf(x->name, sizeof(x->name), "%.*s", (int)m->name.n, m->name.data);
    }
    if (x->exists || existed)
        follow(s, x);
}

static int by_table(const void *a, const void *b)
{
    const struct roster_unbacked *x = a, *y = b;
    return (x->table > y->table) - (x->table < y->table);
}

uint32_t scheduler_unbacked_list(const struct scheduler *s, struct roster_unbacked *ret)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_unbacked; i++) {
        const struct unbacked *x = &s->unbacked[i];
        if (x->exists)
            ret[n++] = (struct roster_unbacked){x->table, x->space, x->drops};
    }
    qsort(ret, n, sizeof(*ret), by_table);
    return n;
}

bool scheduler_unbacked_make(struct scheduler *s, uint32_t i)
{
    if (i != s->n_unbacked || i >= ROSTER_TABLES)
        return i < s->n_unbacked;
    return scheduler_grow(&s->unbacked, &s->n_unbacked, &s->cap_unbacked,
                          sizeof(*s->unbacked)) != NULL;
}
