// Invariants of a scheduler between two events, asserted after each event in builds with
// assertions. Released programs have none of it.
//
// No assert speaks of what a message says, only of what the scheduler has made of it.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/scheduler_internal.h"

#ifndef NDEBUG

#include <assert.h>

#include "base/sampled.h"

enum { SERVERS_FROM = 8, GUESTS_FROM = 1000000 };

// Arrays are grown before they are filled, so no count passes the room that there is.
static void counts_have_room(const struct scheduler *s)
{
    assert(s->n_links <= s->cap_links);
    assert(s->n_nodes <= s->cap_nodes);
    assert(s->n_processes <= s->cap_processes);
    assert(s->n_forgets <= s->cap_forgets);
}

// A place that is free is taken by the next guest: it must neither count among the living
// nor have a link that would speak for two nodes.
static void free_place_is_empty(const struct node *n)
{
    assert(!n->n.alive);
    assert(n->link == 0);
}

// The roles' ids never meet, and each is given once: what a server owns, and whose
// leases are whose, is known by the id alone.
static void id_is_of_its_role(const struct scheduler *s, const struct roster_node *n)
{
    uint32_t at = n->id - SERVERS_FROM;
    switch (n->role) {
    case WIRE_SCHEDULER:
        assert(n->id == 1);
        return;
    case WIRE_SERVER:
        assert(n->id >= SERVERS_FROM && at % 2 == 0 && at / 2 < s->n_servers);
        return;
    case WIRE_WORKER:
        assert(n->id > SERVERS_FROM && at % 2 == 1 && at / 2 < s->n_workers);
        return;
    default:
        assert(n->role == WIRE_DRIVER);
        assert(n->id >= GUESTS_FROM && n->id - GUESTS_FROM < s->n_guests);
    }
}

// Sessions grow from the base of this start on. One above the newest would be refused as
// one that has not begun, one at or below the base would be that of an earlier start.
static void session_was_given(const struct scheduler *s, const struct node *n)
{
    assert(n->n.session > s->o.session_base);
    assert(n->n.session <= s->session);
}

// A node lives and dies with its process, so the process stays as long as the node's line
// does, and both agree in what others know of them.
static void node_fits_its_process(const struct scheduler *s, const struct node *n)
{
    assert(n->process < s->n_processes);
    const struct process *p = &s->processes[n->process];
    assert(p->used);
    assert(p->role == n->n.role);
    assert(p->rank == n->n.rank);
    assert(n->n.loop < p->loops);
}

// A node that has left is not alive; a node acknowledges only rosters that were made.
static void node_is_up_to_date(const struct scheduler *s, const struct node *n)
{
    assert(!(n->left && n->n.alive));
    assert(n->roster_version <= s->roster.version);
    assert(n->sent_version <= s->roster.version);
    assert(n->closed_at <= s->now && n->gone_at <= s->now);
    assert(!n->drives || n->n.role == WIRE_DRIVER);
}

static void nodes_hold(const struct scheduler *s)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct node *n = &s->nodes[i];
        if (!n->used) {
            free_place_is_empty(n);
            continue;
        }
        used++;
        id_is_of_its_role(s, &n->n);
        session_was_given(s, n);
        node_fits_its_process(s, n);
        node_is_up_to_date(s, n);
    }
    assert(used == s->used_nodes); // the limit of a roster's length rests on it
}

// Ids, sessions and tickets name one node each, links one at most: a second one would be
// answered in the first one's name. One node is compared with all after each event.
static void node_is_the_only_one(const struct scheduler *s, uint32_t one)
{
    const struct node *n = &s->nodes[one];
    for (uint32_t i = 0; i < s->n_nodes && n->used; i++) {
        const struct node *other = &s->nodes[i];
        if (i == one || !other->used)
            continue;
        // The id of the scheduler's own member is given again when that has died.
        assert(other->n.id != n->n.id || n->n.role == WIRE_SCHEDULER);
        assert(other->n.session != n->n.session);
        assert(other->ticket != n->ticket);
        assert(other->link == 0 || other->link != n->link);
        assert(other->process != n->process || other->n.loop != n->n.loop);
    }
}

// A link that is gone waits for the next tick to take it out: nothing may lead to it.
static void gone_link_is_empty(const struct link *l)
{
    assert(l->node == SCHEDULER_NOBODY);
    assert(l->beats == SCHEDULER_NOBODY);
    assert(l->beats_of == 0);
}

// A link speaks for the node that it joined as, after it was greeted, and the node
// answers over that link.
static void link_leads_to_its_node(const struct scheduler *s, const struct link *l)
{
    assert(l->greeted && l->node < s->n_nodes);
    assert(s->nodes[l->node].used);
    assert(s->nodes[l->node].link == l->link);
}

// When the link of heartbeats closes, its process has little time left: it must not be
// another's.
static void beats_are_of_the_process(const struct scheduler *s, const struct link *l)
{
    assert(l->beats < s->n_processes);
    const struct process *p = &s->processes[l->beats];
    assert(p->used && p->beats);
    assert(p->process == l->beats_of);
}

static void links_hold(const struct scheduler *s)
{
    uint32_t of_nodes = 0, linked = 0;
    for (uint32_t i = 0; i < s->n_links; i++) {
        const struct link *l = &s->links[i];
        if (l->link == 0) {
            gone_link_is_empty(l);
            continue;
        }
        assert(l->heard <= s->now);
        if (l->node != SCHEDULER_NOBODY) {
            link_leads_to_its_node(s, l);
            of_nodes++;
        }
        if (l->beats != SCHEDULER_NOBODY)
            beats_are_of_the_process(s, l);
    }
    for (uint32_t i = 0; i < s->n_nodes; i++)
        linked += s->nodes[i].link != 0;
    assert(of_nodes == linked); // so each node's link is in the list, and once
}

// The links are in the order in which they were opened, which decides whose heartbeats
// are a process's newest. The van never uses a link's number twice.
static void link_is_the_only_one(const struct scheduler *s, uint32_t one)
{
    for (uint32_t i = 0; i < s->n_links && s->links[one].link != 0; i++)
        assert(i == one || s->links[i].link != s->links[one].link);
}

// A process is here with as many loops as it has living nodes: the cluster begins by that
// count, and barriers wait by it.
static void loops_are_counted(const struct scheduler *s, uint32_t one)
{
    const struct process *p = &s->processes[one];
    uint32_t here = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        here += s->nodes[i].used && s->nodes[i].process == one && s->nodes[i].n.alive;
    assert(here == p->here);
}

// Data is divided by ranks: two living processes of a role never share one.
static void rank_is_its_own(const struct scheduler *s, uint32_t one)
{
    const struct process *p = &s->processes[one];
    for (uint32_t i = 0; i < s->n_processes && p->here > 0; i++) {
        const struct process *other = &s->processes[i];
        assert(i == one || other->here == 0 || other->role != p->role ||
               other->rank != p->rank);
    }
}

// A barrier is reached one generation at a time, so that no node is past the one that its
// group waits in, and none is in a group that it was not counted into.
static void barriers_are_counted(const struct scheduler *s, const struct process *p)
{
    for (int group = 0; group < SCHEDULER_GROUPS; group++) {
        assert(p->base[group] <= s->groups[group].completed);
        assert(p->reached[group] <= s->groups[group].completed + 1);
        assert(p->known[group] || p->reached[group] == 0);
    }
}

static void processes_hold(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const struct process *p = &s->processes[i];
        assert(p->used || p->here == 0);
        assert(p->here <= p->loops);
        assert(p->sign_at <= s->now && p->silent_at <= s->now);
        barriers_are_counted(s, p);
    }
}

// Everybody finds a node in the roster by halving, and takes ids as names.
static void roster_is_in_order(const struct scheduler *s)
{
    const struct roster *r = &s->roster;
    assert(r->n_nodes <= ROSTER_MAX_NODES);
    for (uint32_t i = 1; i < r->n_nodes; i++)
        assert(r->nodes[i - 1].id < r->nodes[i].id);
}

// Versions and epochs only grow, and a placement is a change of the roster, too. A
// session that is newer than a roster's newest may have begun; no roster names it over.
static void roster_is_numbered(const struct scheduler *s)
{
    assert(s->roster.epoch <= s->roster.version);
    assert(s->roster.newest <= s->session);
    assert(s->cut.roster <= s->roster.version + 1);
}

static uint32_t living(const struct roster *r, enum wire_role role)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        n += r->nodes[i].alive && r->nodes[i].role == role;
    return n;
}

// Unless a change waits for the next roster, the current one agrees with the node table
// about the living.
static void roster_agrees(const struct scheduler *s)
{
    if (s->changed)
        return;
    const enum wire_role roles[] = {WIRE_SERVER, WIRE_WORKER, WIRE_DRIVER};
    for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++)
        assert(living(&s->roster, roles[i]) == scheduler_alive(s, roles[i]));
}

// The owner of a partition is a server that has joined, and is alive unless the run ends
// because it died.
static void partition_has_its_server(const struct scheduler *s, uint32_t partition)
{
    for (int space = 0; space < WIRE_SPACES; space++) {
        const uint32_t *owners = s->roster.owners[space];
        assert(owners != NULL);
        const struct roster_node *n = roster_find(&s->roster, owners[partition]);
        assert(n != NULL && n->role == WIRE_SERVER);
        assert(n->alive || s->broken);
    }
}

// Encoded rosters were made from this roster or an earlier one, have their own buffers,
// and live as long as a link sends them.
static void encoded_roster_holds(const struct scheduler *s)
{
    const struct encoded_roster *x = s->encoded;
    if (x == NULL)
        return;
    assert(x->users > 0);
    assert(x->msg.version <= s->roster.version && x->msg.epoch <= s->roster.epoch);
    assert(x->msg.nodes.data == x->nodes.data && x->msg.nodes.n == x->nodes.len);
    assert(x->msg.owners.data == x->owners.data && x->msg.owners.n == x->owners.len);
    size_t partitions = (size_t)1 << s->roster.partition_bits;
    assert(x->owners.len ==
           (x->msg.epoch != 0 ? WIRE_SPACES * partitions * sizeof(uint32_t) : 0));
}

// The run begins with its first placement, and has ended only when all nodes are told. A
// driver may say that it is over before it has begun.
static void run_is_in_its_phase(const struct scheduler *s)
{
    assert(s->phase <= SCHEDULER_ENDING && s->phase_at <= s->now);
    assert(s->phase != SCHEDULER_GATHERING || s->roster.epoch == 0);
    assert(s->phase != SCHEDULER_RUNNING || s->roster.epoch != 0);
    assert(s->phase == SCHEDULER_ENDING || (s->end.code == 0 && !s->finished));
    assert(!s->broken || s->phase != SCHEDULER_GATHERING);
}

// A run has one driver, so that two do not open passes in turn; its line stays after its
// death, because others are told that it drove.
static void run_has_one_driver(const struct scheduler *s)
{
    uint32_t drivers = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        drivers += s->nodes[i].used && s->nodes[i].drives;
    assert(drivers == (s->driven ? 1 : 0));
    assert(!s->driven || s->phase != SCHEDULER_GATHERING);
}

// Pieces are told to be forgotten in the order of versions: those at the front go first.
static void forgets_are_in_order(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_forgets; i++) {
        assert(s->forgets[i].version <= s->roster.version + 1);
        assert(i == 0 || s->forgets[i - 1].version <= s->forgets[i].version);
    }
}

// A worker that lives can be given work; the pieces of a dead one go to others.
static void leases_know_the_worker(const struct scheduler *s, const struct node *n)
{
    if (n->used && n->n.role == WIRE_WORKER)
        assert(leases_has_worker(s->leases, n->n.id) == n->n.alive);
}

static void check_all(const struct scheduler *s)
{
    nodes_hold(s);
    links_hold(s);
    processes_hold(s);
    roster_is_in_order(s);
    roster_agrees(s);
    run_has_one_driver(s);
    forgets_are_in_order(s);
}

// Checks one of each kind after an event, and the next one after the next event.
static void check_one(const struct scheduler *s)
{
    uint64_t turn = s->events;
    if (s->n_nodes > 0) {
        node_is_the_only_one(s, (uint32_t)(turn % s->n_nodes));
        leases_know_the_worker(s, &s->nodes[turn % s->n_nodes]);
    }
    if (s->n_links > 0)
        link_is_the_only_one(s, (uint32_t)(turn % s->n_links));
    if (s->n_processes > 0) {
        loops_are_counted(s, (uint32_t)(turn % s->n_processes));
        rank_is_its_own(s, (uint32_t)(turn % s->n_processes));
    }
    if (s->roster.epoch != 0)
        partition_has_its_server(s, (uint32_t)turn &
                                        (((uint32_t)1 << s->roster.partition_bits) - 1));
}

void scheduler_check(struct scheduler *s)
{
    if (s->made_up)
        return;
    s->events++;
    counts_have_room(s);
    roster_is_numbered(s);
    encoded_roster_holds(s);
    run_is_in_its_phase(s);
    leases_check(s->leases);
    if (!sampled_now(s->events, s->n_nodes + s->n_links + s->n_forgets))
        return;
    check_all(s);
    check_one(s);
}

#endif
