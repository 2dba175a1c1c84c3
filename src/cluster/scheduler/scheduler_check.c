// Invariants of a scheduler between two events. They are asserted after each event in
// builds with assertions; release builds do not contain them.
//
// No assertion depends on the content of a message, only on the state that the scheduler
// keeps.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/scheduler/scheduler_keep.h"

#ifndef NDEBUG

#include <assert.h>

#include "base/sampled.h"

enum { SERVERS_FROM = 8, GUESTS_FROM = 1000000 };

// Counts are within the capacity of their arrays.
static void counts_have_room(const struct scheduler *s)
{
    assert(s->n_links <= s->cap_links);
    assert(s->n_nodes <= s->cap_nodes);
    assert(s->n_processes <= s->cap_processes);
    assert(s->forgets.n <= s->forgets.cap);
}

// An unused entry of the node table is not alive and has no link, because the next
// guest may get the entry.
static void free_place_is_empty(const struct sched_node *n)
{
    assert(!n->n.alive);
    assert(n->link == 0);
}

// Ids of servers and workers cannot be equal, and each id is given once: owners of
// partitions and holders of leases are known by their ids alone.
static void id_is_of_its_role(const struct scheduler *s, const struct roster_node *n)
{
    uint32_t at = n->id - SERVERS_FROM;
    switch (n->role) {
    case WIRE_SCHEDULER:
        assert(n->id == 1);
        return;
    case WIRE_SERVER:
        assert(n->id >= SERVERS_FROM && at % 2 == 0);
        assert(at / 2 < s->o.servers + s->more_servers);
        return;
    case WIRE_WORKER:
        assert(n->id > SERVERS_FROM && at % 2 == 1);
        assert(at / 2 < s->o.workers + s->more_workers);
        return;
    default:
        assert(n->role == WIRE_DRIVER);
        assert(n->id >= GUESTS_FROM && n->id - GUESTS_FROM < s->n_guests);
    }
}

// Session numbers lie above the base of this start of the scheduler, up to the newest
// number. A higher number would be refused as a session that has not begun; a lower one
// belongs to an earlier start.
static void session_was_given(const struct scheduler *s, const struct sched_node *n)
{
    assert(n->n.session > s->o.session_base);
    assert(n->n.session <= s->session);
}

// A node lives and dies with its process. So a process stays as long as its nodes are in
// the table, and agrees with them in all facts that the roster has.
static void node_fits_its_process(const struct scheduler *s, const struct sched_node *n)
{
    assert(n->process < s->n_processes);
    const struct process *p = &s->processes[n->process];
    assert(p->used);
    assert(p->role == n->n.role);
    assert(p->rank == n->n.rank);
    assert(n->n.loop < p->loops);
}

// A node that has left is not alive, and no node has acknowledged a roster that was not
// made yet.
static void node_is_up_to_date(const struct scheduler *s, const struct sched_node *n)
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
        const struct sched_node *n = &s->nodes[i];
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
    assert(used == s->used_nodes); // the limit on the length of a roster relies on this
                                   // count
}

// No two nodes have the same id, session, ticket or link, because a message of one node
// would be taken for a message of the other node. After each event one node is compared
// with all others.
static void node_is_the_only_one(const struct scheduler *s, uint32_t one)
{
    const struct sched_node *n = &s->nodes[one];
    for (uint32_t i = 0; i < s->n_nodes && n->used; i++) {
        const struct sched_node *other = &s->nodes[i];
        if (i == one || !other->used)
            continue;
        // The id of the scheduler's own member is used again after that member has died.
        assert(other->n.id != n->n.id || n->n.role == WIRE_SCHEDULER);
        assert(other->n.session != n->n.session);
        assert(other->ticket != n->ticket);
        assert(other->link == 0 || other->link != n->link);
        assert(other->process != n->process || other->n.loop != n->n.loop);
    }
}

// A closed link stays in the list until the next tick. Until then no node and no
// process refers to it.
static void gone_link_is_empty(const struct link *l)
{
    assert(l->node == SCHEDULER_NOBODY);
    assert(l->beats == SCHEDULER_NOBODY);
    assert(l->beats_of == 0);
}

// A link belongs to the node that joined over it, and the node joined only after HELLO.
// The node's answers go over this link.
static void link_leads_to_its_node(const struct scheduler *s, const struct link *l)
{
    assert(l->greeted && l->node < s->n_nodes);
    assert(s->nodes[l->node].used);
    assert(s->nodes[l->node].link == l->link);
}

// A link with heartbeats refers to the process that sent them: when the link closes, that
// process has only a short time to come back.
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
    assert(of_nodes == linked); // each node's link is in the list exactly once
}

// The links are sorted by the time at which they were opened, because a process's newest
// heartbeats arrive on the link that was opened last. The van never uses a link's number
// twice.
static void link_is_the_only_one(const struct scheduler *s, uint32_t one)
{
    for (uint32_t i = 0; i < s->n_links && s->links[one].link != 0; i++)
        assert(i == one || s->links[i].link != s->links[one].link);
}

// The count of a process's loops equals the number of its living nodes: the cluster
// begins, and barriers wait, by this count.
static void loops_are_counted(const struct scheduler *s, uint32_t one)
{
    const struct process *p = &s->processes[one];
    uint32_t here = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        here += s->nodes[i].used && s->nodes[i].process == one && s->nodes[i].n.alive;
    assert(here == p->here);
}

// Two living processes of a role never have the same rank, because data is divided by
// ranks.
static void rank_is_its_own(const struct scheduler *s, uint32_t one)
{
    const struct process *p = &s->processes[one];
    for (uint32_t i = 0; i < s->n_processes && p->here > 0; i++) {
        const struct process *other = &s->processes[i];
        assert(i == one || other->here == 0 || other->role != p->role ||
               other->rank != p->rank);
    }
}

// A process enters barriers one after the other, so no process is beyond the barrier that
// its group waits for. No process has entered a barrier of a group that does not count
// it.
static void barriers_are_counted(const struct scheduler *s, const struct process *p)
{
    for (int group = 0; group < SCHEDULER_GROUPS; group++) {
        assert(p->base[group] <= s->groups[group].completed);
        assert(p->reached[group] <= s->groups[group].completed + 1);
        assert(p->known[group] || p->reached[group] == 0);
    }
}

// The bytes of a worker are kept only until the barrier that it has reached is complete, and
// only while the worker lives.
static void given_is_waiting(const struct scheduler *s, const struct process *p)
{
    if (p->given == NULL)
        return;
    assert(p->role == WIRE_WORKER && p->here > 0);
    assert(p->reached[WIRE_GROUP_WORKERS] == s->groups[WIRE_GROUP_WORKERS].completed + 1);
}

static void processes_hold(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const struct process *p = &s->processes[i];
        assert(p->used || p->here == 0);
        assert(p->here <= p->loops);
        assert(p->sign_at <= s->now && p->silent_at <= s->now);
        barriers_are_counted(s, p);
        given_is_waiting(s, p);
    }
}

// The nodes of the roster are sorted by id, because a node is found by bisection.
static void roster_is_in_order(const struct scheduler *s)
{
    const struct roster *r = &s->roster;
    assert(r->n_nodes <= ROSTER_MAX_NODES);
    for (uint32_t i = 1; i < r->n_nodes; i++)
        assert(r->nodes[i - 1].id < r->nodes[i].id);
}

// The epoch is at most the version, because a new placement also makes a new version. No
// session in the roster is newer than the roster's `newest`.
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

// Unless a change waits for the next roster, the roster agrees with the node table about
// which nodes are alive.
static void roster_agrees(const struct scheduler *s)
{
    if (s->changed)
        return;
    const enum wire_role roles[] = {WIRE_SERVER, WIRE_WORKER, WIRE_DRIVER};
    for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++)
        assert(living(&s->roster, roles[i]) == scheduler_alive(s, roles[i]));
}

// The owner of a partition is a server that has joined. It is alive, unless the run ends
// because that server has died.
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

// The members of a chain are different living servers, at most one more than there are
// replicas. A chain that is not the planned one has a next step.
static void chain_is_possible(const struct scheduler *s, int space, uint32_t partition)
{
    uint32_t chain[ROSTER_MAX_CHAIN];
    uint32_t n = roster_chain(&s->roster, (enum wire_space)space, partition, chain);
    for (uint32_t i = 1; i < n; i++) {
        const struct roster_node *x = roster_find(&s->roster, chain[i]);
        assert(x != NULL && x->role == WIRE_SERVER && (x->alive || s->changed));
        for (uint32_t k = 0; k < i; k++)
            assert(chain[k] != chain[i]);
    }
    if (s->phase != SCHEDULER_RUNNING || s->broken || s->moving.wanted[0] == NULL ||
        s->moving.plan_again || scheduler_chain_is_settled(s, space, partition))
        return;
    assert(scheduler_chain_fills(s, space, partition) != 0 ||
           scheduler_chain_leaves(s, space, partition) != 0);
}

static void check_partition(const struct scheduler *s, uint32_t partition)
{
    partition_has_its_server(s, partition);
    for (int space = 0; space < WIRE_SPACES && scheduler_has_chains(s); space++)
        chain_is_possible(s, space, partition);
}

// A move goes from the owner, or the last member of the chain, to another living
// server. Each partition has at most one move, and an owner hands over partitions to
// one target at a time.
static void move_is_possible(const struct scheduler *s, const struct move *x)
{
    const struct sched_node *to = NULL;
    assert(!x->over && x->id > 0 && x->id <= s->moving.last_id);
    assert(x->from == roster_tail(&s->roster, x->space, x->partition));
    assert(!roster_is_member(&s->roster, x->space, x->partition, x->to));
    assert(!x->handing || !scheduler_has_chains(s));
    assert(x->heard <= s->now && x->grown <= s->now);
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].used && s->nodes[i].n.id == x->to)
            to = &s->nodes[i];
    assert(to != NULL && to->n.alive && to->n.role == WIRE_SERVER);
    const struct move *first = s->moving.list;
    assert(x == first || x[-1].space < x->space ||
           (x[-1].space == x->space && x[-1].partition < x->partition));
    for (const struct move *other = first; other < x; other++)
        assert(!x->handing || !other->handing || other->from != x->from ||
               other->to == x->to);
}

static uint32_t in_flight(const struct scheduler *s, uint32_t id)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->moving.n; i++)
        n += (s->moving.list[i].from == id) + (s->moving.list[i].to == id);
    return n;
}

// While a hold is granted, no partition is handed over. Without replicas, the epoch does not
// change; with replicas, chains may get or lose members.
static void hold_holds(const struct scheduler *s, const struct sched_node *n)
{
    assert(!n->held || n->holds);
    assert(!n->held || n->n.alive);
    assert(!n->held || scheduler_has_chains(s) ||
           s->roster.epoch == s->moving.held_epoch);
    for (uint32_t i = 0; i < s->moving.n && n->held; i++)
        assert(!s->moving.list[i].handing);
}

// The roster has the moves that are in progress, unless a change waits for the next
// roster.
static void roster_has_the_moves(const struct scheduler *s)
{
    assert(s->changed || s->roster.n_moves == s->moving.n);
    for (uint32_t i = 0; i < s->moving.n && !s->changed; i++) {
        const struct roster_move *told = &s->roster.moves[i];
        const struct move *x = &s->moving.list[i];
        assert(told->id == x->id && told->space == x->space);
        assert(told->partition == x->partition && told->to == x->to);
    }
}

static void moves_hold(const struct scheduler *s)
{
    uint64_t left = 0;
    assert(s->moving.n <= s->moving.cap);
    for (uint32_t i = 0; i < s->moving.n; i++)
        move_is_possible(s, &s->moving.list[i]);
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        assert(!n->used || n->in_flight == in_flight(s, n->n.id));
        hold_holds(s, n);
    }
    roster_has_the_moves(s);
    for (int space = 0;
         space < WIRE_SPACES && s->moving.wanted[0] != NULL && !s->moving.plan_again;
         space++)
        for (uint32_t p = 0; p < roster_partitions(&s->roster); p++)
            left += scheduler_has_chains(s)
                        ? !scheduler_chain_is_settled(s, space, p)
                        : s->moving.wanted[space][p] != s->roster.owners[space][p];
    assert(s->moving.plan_again || left == s->moving.left);
}

// The encoded roster was made from this roster or an earlier one, and is kept as long as
// a link sends it.
static void encoded_roster_holds(const struct scheduler *s)
{
    const struct encoded_roster *x = s->encoded;
    if (x == NULL)
        return;
    assert(x->users > 0);
    assert(x->msg.version <= s->roster.version && x->msg.epoch <= s->roster.epoch);
    assert(x->msg.nodes.data == x->nodes.data);
    assert(x->msg.nodes.n + x->msg.moves.n + x->msg.unbacked.n == x->nodes.len);
    assert(x->msg.owners.data == x->owners.data);
    assert(x->msg.owners.n + x->msg.backups.n == x->owners.len);
    size_t ids = x->msg.epoch != 0 ? WIRE_SPACES * roster_partitions(&s->roster) : 0;
    assert(x->msg.owners.n == ids * sizeof(uint32_t));
    if (scheduler_has_chains(s))
        ids += ids * s->roster.replicas;
    assert(x->owners.len == ids * sizeof(uint32_t));
}

// There is a placement if and only if the run has begun. Once the run's end is decided,
// the phase is ENDING. A driver may declare the run over before it has begun.
static void run_is_in_its_phase(const struct scheduler *s)
{
    assert(s->phase <= SCHEDULER_ENDING && s->phase_at <= s->now);
    assert(s->phase != SCHEDULER_GATHERING || s->roster.epoch == 0);
    assert(s->phase != SCHEDULER_RUNNING || s->roster.epoch != 0);
    assert(s->phase == SCHEDULER_ENDING || (s->end.code == 0 && !s->finished));
    assert(!s->broken || s->phase != SCHEDULER_GATHERING);
}

// A run has one driver, so that two nodes cannot both open passes. The driver's entry
// stays after its death, because other nodes are told which node was the driver.
static void run_has_one_driver(const struct scheduler *s)
{
    uint32_t drivers = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        drivers += s->nodes[i].used && s->nodes[i].drives;
    assert(drivers == (s->driven ? 1 : 0));
    assert(!s->driven || s->phase != SCHEDULER_GATHERING);
}

// The list of pieces to be forgotten ends with a piece, and its counts hold.
static void forgets_hold(const struct scheduler *s)
{
    const struct forgets *f = &s->forgets;
    uint32_t used = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct forget *x = &f->list[i];
        used += x->msg.pass != 0;
        assert(x->msg.pass != 0 || i >= f->free_from);
        assert(x->msg.pass == 0 || x->version == FORGET_HELD ||
               x->version <= s->roster.version + 1);
    }
    assert(used == f->used && (f->n == 0 || f->list[f->n - 1].msg.pass != 0));
    assert(f->n_changed <= f->cap_changed);
}

// A living worker can get leases, and the pieces of a dead worker are free for others.
static void leases_know_the_worker(const struct scheduler *s, const struct sched_node *n)
{
    if (n->used && n->n.role == WIRE_WORKER)
        assert(leases_has_worker(s->leases, n->n.id) == n->n.alive);
}

// A scheduler that no longer writes its journal has finished, because its further
// decisions would be lost with it. Messages are sealed only while a group of rows is
// being written.
static void journal_is_in_its_state(const struct scheduler *s)
{
    const struct keep *k = s->keep;
    if (k == NULL)
        return;
    assert(k->out.sealed <= k->out.n && k->out.n <= k->out.cap);
    assert(k->state <= KEEP_FAILED);
    assert(k->state == KEEP_WRITES || (s->finished && s->phase == SCHEDULER_ENDING));
    assert(k->state == KEEP_WRITES || k->out.sealed == 0);
}

// For kinds whose rows ascend by index, the journal's copy has no more rows than the
// scheduler, because nodes and processes are never taken out of their lists.
static void journal_has_no_other_rows(const struct scheduler *s)
{
    const struct keep *k = s->keep;
    for (enum row_kind kind = ROW_META; k != NULL && kind < ROW_KINDS; kind++)
        assert(k->of[kind].n <= scheduler_rows_count(s, kind));
}

static void check_all(const struct scheduler *s)
{
    nodes_hold(s);
    links_hold(s);
    processes_hold(s);
    roster_is_in_order(s);
    roster_agrees(s);
    run_has_one_driver(s);
    forgets_hold(s);
    moves_hold(s);
    journal_has_no_other_rows(s);
}

// Checks one entry of each kind after an event, and the next entry after the next event.
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
        check_partition(s, (uint32_t)turn & (roster_partitions(&s->roster) - 1));
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
    journal_is_in_its_state(s);
    leases_check(s->leases);
    if (!sampled_now(s->events, s->n_nodes + s->n_links + s->forgets.n))
        return;
    check_all(s);
    check_one(s);
}

#endif
