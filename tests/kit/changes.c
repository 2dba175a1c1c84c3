// See changes.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/changes.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "cluster/chain_steps.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// Stream of random numbers, which differs from those of the worlds.
enum { CHANGES = 0x500 };

static uint64_t draw(struct changes *c, uint64_t n)
{
    return random_below(c->stage->o->seed, CHANGES, c->draws++, n);
}

static struct sched_node *node_of(const struct changes *c, uint32_t server)
{
    const struct member *m = shard_member(c->stage->servers[server].shard);
    return member_id(m) != 0 ? scheduler_node_of(c->stage->scheduler, member_id(m))
                             : NULL;
}

// Returns the entry of a server's process if the server takes part in placements.
static struct process *placed(const struct changes *c, uint32_t server)
{
    const struct sched_node *n = node_of(c, server);
    if (n == NULL || !n->n.alive)
        return NULL;
    struct process *p = &c->stage->scheduler->processes[n->process];
    return p->placed ? p : NULL;
}

// Makes the servers leave that the scheduler has told to leave. A real server's process
// does this by itself.
static void let_leave(struct changes *c)
{
    for (uint32_t i = 0; i < c->stage->n_servers; i++) {
        struct stage_server *x = &c->stage->servers[i];
        const struct sched_node *n = node_of(c, i);
        // Only the code of the error is set: clearing its long text after each event would be slow.
        struct err why;
        why.code = 0;
        if (stage_is_ghost(c->stage, x) || x->dead || sim_is_stopped(x->van))
            continue;
        if (!x->leaves && shard_finished(x->shard, &why) && why.code == 0) {
            x->leaves = true;
            member_leave(shard_member(x->shard), &why);
            van_wake(x->van);
        }
        // A server whose link breaks before it can say that it leaves counts as dead.
        x->gone |= n != NULL && (n->left || (x->leaves && !n->n.alive));
        if (x->leaves && member_left(shard_member(x->shard))) {
            x->dead = true; // its heartbeats, which kept it alive, end with its process
            sim_process_crash(x->process, c->stage->sim);
        }
    }
}

// Returns whether, with replicas, the same partition moves all the time, and quickly: servers
// leave its chain and come back while their records are still under way.
static bool moves_only_one(const struct changes *c)
{
    return scheduler_has_chains(c->stage->scheduler) && stage_is_quick(c->stage);
}

static uint32_t partition_to_move(struct changes *c)
{
    uint64_t n = roster_partitions(&c->stage->scheduler->roster), any = draw(c, n);
    return (uint32_t)(moves_only_one(c) ? c->stage->o->seed / 4 % n : any);
}

// Plans that the members of a chain are other servers, from server `first` on.
static void replace_all(struct changes *c, uint32_t *wanted, uint32_t n, uint32_t first)
{
    uint32_t all = c->stage->n_servers, step = draw(c, 2) == 0 ? 1 : all - 1, found = 0;
    uint32_t ids[ROSTER_MAX_CHAIN];
    for (uint32_t k = 0; k < all && found < n; k++) {
        uint32_t i = (first + k * step) % all;
        const struct process *p = placed(c, i);
        if (p != NULL && !p->draining)
            ids[found++] = node_of(c, i)->n.id;
    }
    if (found == n)
        memcpy(wanted, ids, n * sizeof(*ids));
}

static void replace_one(struct changes *c, uint32_t *wanted, uint32_t n, uint32_t server)
{
    uint32_t id = node_of(c, server)->n.id;
    for (uint32_t i = 0; i < n; i++)
        if (wanted[i] == id)
            return;
    wanted[draw(c, n)] = id;
}

// Plans that a server of the test's choice takes the place of a planned member of a chain, or
// that all members are replaced.
static void change_chain(struct changes *c, uint32_t partition, uint32_t server)
{
    struct scheduler *s = c->stage->scheduler;
    uint32_t chain[ROSTER_MAX_CHAIN], replicas = s->roster.replicas, wanted_n = 0;
    uint32_t n = roster_chain(&s->roster, WIRE_SPACE_SPARSE, partition, chain);
    uint32_t *wanted = s->moving.wanted[WIRE_SPACE_SPARSE] + (size_t)partition * replicas;
    while (wanted_n < replicas && wanted[wanted_n] != 0)
        wanted_n++;
    (moves_only_one(c) ? replace_all : replace_one)(c, wanted, wanted_n, server);
    if (scheduler_keeps_primaries(s, WIRE_SPACE_SPARSE))
        scheduler_keep_primaries(s, WIRE_SPACE_SPARSE);
    chain_steps_order(chain, n, wanted, wanted_n, replicas);
    scheduler_plan_count(s);
}

// Moves one partition of sparse tables to a server of the test's choice.
static void move_one(struct changes *c)
{
    struct scheduler *s = c->stage->scheduler;
    struct moving *m = &s->moving;
    const uint32_t i = (uint32_t)draw(c, c->stage->n_servers);
    const struct process *p = placed(c, i);
    uint32_t partition = partition_to_move(c);
    if (p == NULL || p->draining ||
        (m->wanted[0] == NULL && scheduler_plan(s, false, "") != 0))
        return;
    if (scheduler_has_chains(s)) {
        change_chain(c, partition, i);
    } else {
        uint32_t owner = s->roster.owners[WIRE_SPACE_SPARSE][partition];
        uint32_t *wanted = &m->wanted[WIRE_SPACE_SPARSE][partition];
        m->left -= *wanted != owner;
        *wanted = node_of(c, i)->n.id;
        m->left += *wanted != owner;
    }
    m->look_at = 0;
    snprintf(m->why, sizeof(m->why), "the test wants it");
    scheduler_moves_sift(s);
}

static void join(struct changes *c)
{
    struct err e = {0};
    if (c->stage->n_servers == STAGE_PLACES)
        return;
    c->joined++;
    if (c->open(c->world, true, &e) != 0)
        stage_failed(c->stage, "a late server: %s", e.text);
}

// Returns whether so many other servers live and stay that no chain gets shorter when a
// server is drained: the scheduler may not know yet that another server has died.
static bool leaves_enough(const struct changes *c, uint32_t drained)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->stage->n_servers; i++) {
        const struct process *p = placed(c, i);
        n += i != drained && p != NULL && !p->draining && !c->stage->servers[i].dead;
    }
    return !scheduler_has_chains(c->stage->scheduler) ||
           n >= c->stage->scheduler->roster.replicas;
}

static void drain(struct changes *c, bool back)
{
    struct scheduler *s = c->stage->scheduler;
    const uint32_t i = (uint32_t)draw(c, c->stage->n_servers);
    const struct process *p = placed(c, i);
    uint32_t at = (uint32_t)(p - s->processes);
    if (p == NULL || p->draining != back || node_of(c, i)->stop_at != 0 ||
        (!back && (!scheduler_can_drain(s, at) || !leaves_enough(c, i))))
        return;
    c->drained += !back;
    (void)scheduler_drain(s, at, back);
}

// Returns whether the node may have to leave the partition's chain: it could not apply a
// record, or has taken none for a while. The report to the scheduler may be on its way, or
// may be carried out although the node has taken records since.
static bool may_have_to_leave(const struct changes *c, uint32_t id, int space,
                              uint32_t partition)
{
    uint64_t now = sim_now(c->stage->sim);
    const struct retry *reports = c->stage->scheduler->moving.retries[space];
    if (reports != NULL && reports[partition].out == id)
        return true;
    for (uint32_t i = 0; i < c->stage->n_servers; i++) {
        const struct shard *s = c->stage->servers[i].shard;
        if (c->stage->servers[i].dead || s->chain == NULL)
            continue;
        const struct chain_place *p = &s->chain->of[space][partition];
        if (member_id(s->member) == id
                ? p->unfit
                : p->next != NULL && p->next->node == id && p->next->waits &&
                      now > p->next->moved_at + SECOND)
            return true;
    }
    return false;
}

// Returns whether a server lives and stays, and knows that it is a member of the
// partition's chain.
static bool is_living_member(const struct changes *c, uint32_t id, int space,
                             uint32_t partition)
{
    for (uint32_t i = 0; i < c->stage->n_servers; i++) {
        const struct stage_server *x = &c->stage->servers[i];
        const struct member *m = shard_member(x->shard);
        const struct process *p = placed(c, i);
        if (member_id(m) == id && !x->dead && p != NULL && !p->draining)
            return member_roster(m)->epoch != 0 &&
                   !(c->spares && may_have_to_leave(c, id, space, partition)) &&
                   roster_is_member(member_roster(m), (enum wire_space)space, partition,
                                    id);
    }
    return false;
}

// Returns whether the partition is being copied to a server that is dead, or will be.
static bool is_copied_to_dead(const struct changes *c, uint32_t id, int space,
                              uint32_t partition)
{
    const struct moving *m = &c->stage->scheduler->moving;
    for (uint32_t i = 0; i < m->n; i++)
        if ((int)m->list[i].space == space && m->list[i].partition == partition)
            for (uint32_t k = 0; k < c->stage->n_servers; k++) {
                const struct stage_server *x = &c->stage->servers[k];
                uint32_t to = member_id(shard_member(x->shard));
                if (to == m->list[i].to && (x->dead || to == id))
                    return true;
            }
    return false;
}

// Returns whether all chains have a living member besides the server with this id; two if
// the last report of a dead server may still be on its way: then the scheduler takes that
// server for a member, and lets another one leave.
static bool chains_live_without(const struct changes *c, uint32_t id)
{
    const struct roster *r = &c->stage->scheduler->roster;
    uint32_t chain[ROSTER_MAX_CHAIN];
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < roster_partitions(r); p++) {
            uint32_t n = roster_chain(r, (enum wire_space)space, p, chain), living = 0;
            for (uint32_t i = 0; i < n; i++)
                living += chain[i] != id && is_living_member(c, chain[i], space, p);
            if (living <= is_copied_to_dead(c, id, space, p))
                return false;
        }
    return true;
}

// Returns whether the cluster needs the server: it owns a partition that has no replica, or
// is about to own one.
static bool is_needed(const struct changes *c, const struct stage_server *x,
                      const struct sched_node *n)
{
    const struct scheduler *s = c->stage->scheduler;
    if (scheduler_has_chains(s))
        return !chains_live_without(c, n->n.id);
    for (uint32_t k = 0; k < s->moving.n; k++)
        if (s->moving.list[k].to == n->n.id && s->moving.list[k].handing)
            return true;
    return !x->late || scheduler_owns(s, n);
}

// Lets a server die that the cluster does not need. With replicas, it may be stopped until
// others lead its partitions, and then continue.
static void kill(struct changes *c)
{
    struct scheduler *s = c->stage->scheduler;
    const uint32_t i = (uint32_t)draw(c, c->stage->n_servers);
    struct stage_server *x = &c->stage->servers[i];
    const struct sched_node *n = node_of(c, i);
    if (x->dead || n == NULL || !n->n.alive || n->stop_at != 0 ||
        !sim_is_heard(s, WIRE_SERVER, i) || is_needed(c, x, n) ||
        (c->may_die != NULL && !c->may_die(c->world, i)))
        return;
    c->died++;
    stage_kill_server(c->stage, i, scheduler_has_chains(s) && draw(c, 2) == 0);
}

// Returns whether the scheduler does not know yet that a server has died.
static bool is_some_death_unknown(const struct changes *c)
{
    for (uint32_t i = 0; i < c->stage->n_servers; i++)
        if (c->stage->servers[i].dead && placed(c, i) != NULL)
            return true;
    return false;
}

// With three replicas, two servers may die at once.
static void kill_some(struct changes *c)
{
    bool two = c->stage->scheduler->roster.replicas > 2 && !is_some_death_unknown(c) &&
               draw(c, 2) == 0;
    kill(c);
    if (two)
        kill(c);
}

struct rows_seen {
    uint64_t hash;
    size_t bytes; // bytes of a row
};

static int see_row(void *ctx, uint64_t key, const float *row, const float *extra,
                   struct err *e)
{
    struct rows_seen *x = ctx;
    (void)extra;
    (void)e;
    x->hash = hash_bytes(row, x->bytes, x->hash ^ key);
    return 0;
}

// Returns a hash of the rows of a partition, in tables without a lifecycle.
static uint64_t rows_of(struct shard *s, const struct roster_move *m)
{
    struct rows_seen x = {0};
    struct err e;
    for (uint32_t i = 0; i < s->n_tables; i++) {
        struct shard_table *t = s->tables[i];
        if (t == NULL || t->spec.space != m->space || !store_has_whole_rows(t->store) ||
            !store_owns(t->store, m->partition))
            continue;
        x.bytes = t->spec.accessor.width * sizeof(float);
        if (store_each(t->store, m->partition, see_row, &x, &e) != 0)
            return 0;
    }
    return x.hash;
}

// Compares the rows of partitions that have arrived with those that the source still has:
// neither loop serves the partition now, so the rows have the same bits.
static void compare(struct changes *c, struct shard *from, struct shard *to)
{
    for (const struct outgoing *o = from->moves.out; o != NULL; o = o->next)
        for (const struct incoming *m = to->moves.in; m != NULL; m = m->next)
            if (m->state == INCOMING_HERE && m->move.id == o->move.id && o->handing &&
                !o->gone && rows_of(from, &o->move) != rows_of(to, &m->move))
                stage_failed(c->stage, "partition %u has other rows where it has arrived",
                             m->move.partition);
}

static void compare_all(struct changes *c)
{
    for (uint32_t i = 0; i < c->stage->n_servers; i++)
        for (uint32_t k = 0; k < c->stage->n_servers; k++)
            if (!c->stage->servers[i].dead && !c->stage->servers[k].dead)
                compare(c, c->stage->servers[i].shard, c->stage->servers[k].shard);
}

// Returns the server with this id if it lives and has the newest roster, or NULL.
static const struct shard *with_newest(const struct changes *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->stage->n_servers; i++) {
        const struct stage_server *x = &c->stage->servers[i];
        const struct member *m = shard_member(x->shard);
        if (!x->dead && member_id(m) == id)
            return x->shard->chain != NULL &&
                           x->shard->chain->epoch == c->stage->scheduler->roster.epoch
                       ? x->shard
                       : NULL;
    }
    return NULL;
}

// The records of each member of a chain are a prefix of those of the member before it.
static void check_prefixes(struct changes *c)
{
    const struct roster *r = &c->stage->scheduler->roster;
    uint32_t chain[ROSTER_MAX_CHAIN];
    for (uint32_t p = 0; p < roster_partitions(r); p++) {
        uint32_t n = roster_chain(r, WIRE_SPACE_SPARSE, p, chain);
        for (uint32_t i = 1; i < n; i++) {
            const struct shard *a = with_newest(c, chain[i - 1]);
            const struct shard *b = with_newest(c, chain[i]);
            if (a != NULL && b != NULL &&
                b->chain->of[WIRE_SPACE_SPARSE][p].applied >
                    a->chain->of[WIRE_SPACE_SPARSE][p].applied)
                stage_failed(c->stage,
                             "node %u has more records of partition %u than node %u, the "
                             "member before it",
                             chain[i], p, chain[i - 1]);
        }
    }
}

void changes_act(struct changes *c)
{
    struct scheduler *s = c->stage->scheduler;
    uint64_t now = sim_now(c->stage->sim);
    if (c->stage->restarted || stage_is_down(c->stage))
        return;
    let_leave(c);
    if (!scheduler_has_chains(s)) // otherwise the source goes on with its partition
        compare_all(c);
    else if (s->roster.epoch != 0 && c->stage->events % 8 == 0)
        check_prefixes(c);
    if (c->stage->calm)
        c->next = VAN_NEVER;
    if (now < c->next || s->phase != SCHEDULER_RUNNING)
        return;
    // In some worlds many servers join and leave; in others there are many single moves.
    switch (draw(c, c->stage->o->seed % 2 == 0 ? 5 : 12)) {
    case 0:
        join(c);
        break;
    case 1:
        drain(c, false);
        break;
    case 2:
        drain(c, true);
        break;
    case 3:
        kill_some(c);
        break;
    case 4:
        (void)scheduler_plan(s, draw(c, 2) == 0, "the test asks for a plan");
        break;
    default:
        move_one(c);
    }
    uint64_t times = moves_only_one(c) ? 4 : 1;
    c->made++;
    c->next = c->most != 0 && c->made >= times * c->most ? VAN_NEVER
                                                         : now + draw(c, c->pace / times);
    van_wake(c->stage->scheduler_van);
}

// Returns whether a server can leave: others may take its partitions, and one has room. A server
// that had no room is asked again when servers come or go.
static bool can_be_drained(const struct changes *c, const struct process *p)
{
    const struct scheduler *s = c->stage->scheduler;
    bool has_room = false;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        has_room |= n->used && n->n.alive && n->n.role == WIRE_SERVER && !n->full &&
                    !s->processes[n->process].draining;
    }
    return has_room && scheduler_can_drain(s, (uint32_t)(p - s->processes));
}

// Returns the first server that still has to join or to leave, or that lacks the newest
// placement; -1 if there is no such server.
static int unsettled_server(const struct changes *c)
{
    for (uint32_t i = 0; i < c->stage->n_servers; i++) {
        const struct stage_server *x = &c->stage->servers[i];
        const struct process *p = placed(c, i);
        uint64_t epoch = member_roster(shard_member(x->shard))->epoch;
        if (x->ghost)
            return (int)i;
        // A server stays, although it is to be drained, if no server can take over its partitions.
        if (!x->dead && !x->gone &&
            (p == NULL || (p->draining && can_be_drained(c, p)) ||
             epoch != c->stage->scheduler->roster.epoch || x->shard->moves.in != NULL ||
             x->shard->moves.out != NULL))
            return (int)i;
    }
    return -1;
}

static bool is_settled(struct changes *c)
{
    const struct scheduler *s = c->stage->scheduler;
    if (stage_is_down(c->stage))
        return false;
    let_leave(c);
    if (s->phase != SCHEDULER_RUNNING)
        return true;
    return s->moving.n == 0 && s->moving.left == 0 && !s->changed &&
           unsettled_server(c) < 0;
}

static void tell_unsettled(struct changes *c)
{
    const struct scheduler *s = c->stage->scheduler;
    int i = unsettled_server(c);
    uint32_t held = 0, handing = 0;
    for (uint32_t k = 0; k < s->n_nodes; k++)
        held += s->nodes[k].holds;
    for (uint32_t k = 0; k < s->moving.n; k++)
        handing += s->moving.list[k].handing;
    const struct process *p = i >= 0 ? placed(c, (uint32_t)i) : NULL;
    stage_failed(
        c->stage,
        "%u moves hang, %u in the hand-over, held by %u nodes, %llu partitions are not "
        "where they shall be, server %d %s",
        s->moving.n, handing, held, (unsigned long long)s->moving.left, i,
        i < 0         ? "is none that waits"
        : p == NULL   ? "has not joined, or its death is not known"
        : p->draining ? "has not left"
                      : "has an old roster, or rows that are to go");
}

bool changes_end(struct changes *c)
{
    struct stage *s = c->stage;
    uint64_t until = sim_now(s->sim) + 200 * SECOND;
    c->next = VAN_NEVER;
    while (s->failure.code == 0 && !is_settled(c))
        if (!stage_let(s, until))
            tell_unsettled(c);
    return s->failure.code == 0;
}

bool changes_owns(const struct changes *c, uint32_t server)
{
    const struct roster *r = &c->stage->scheduler->roster;
    uint32_t id = member_id(shard_member(c->stage->servers[server].shard));
    for (uint32_t p = 0; r->epoch != 0 && p < (uint32_t)1 << r->partition_bits; p++)
        if (r->owners[WIRE_SPACE_SPARSE][p] == id)
            return true;
    return false;
}

uint64_t changes_moved(const struct changes *c)
{
    return c->stage->scheduler != NULL ? c->stage->scheduler->moving.done : 0;
}
