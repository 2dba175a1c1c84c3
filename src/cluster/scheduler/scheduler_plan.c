// Plans which partitions move, when servers join late, are drained, or die without owning
// anything. scheduler_moves.c carries the plan out.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "cluster/placement.h"
#include "cluster/scheduler/scheduler_internal.h"

static int by_id(const void *a, const void *b)
{
    const struct placement_loop *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

// Returns whether this node keeps its partitions and may get others.
static bool stays(const struct scheduler *s, const struct sched_node *n)
{
    const struct process *p = &s->processes[n->process];
    return n->used && n->n.alive && n->n.role == WIRE_SERVER && p->placed && !p->draining;
}

// Returns the loops that tables of the space may be placed on, by ascending id.
static size_t loops_of(const struct scheduler *s, int space, struct placement_loop *ret)
{
    size_t n = 0;
    for (int any = 0; any < 2 && n == 0; any++)
        for (uint32_t i = 0; i < s->n_nodes; i++)
            if (stays(s, &s->nodes[i]) && scheduler_takes(&s->nodes[i].n, space, any))
                ret[n++] = (struct placement_loop){.id = s->nodes[i].n.id,
                                                   .full = s->nodes[i].full};
    qsort(ret, n, sizeof(*ret), by_id);
    return n;
}

int scheduler_plan_make_room(struct scheduler *s)
{
    struct moving *m = &s->moving;
    size_t partitions = roster_partitions(&s->roster);
    for (int space = 0; space < WIRE_SPACES; space++) {
        if (m->wanted[space] == NULL) {
            m->wanted[space] = mem_array(partitions * s->roster.replicas,
                                         sizeof(*m->wanted[space]));
            if (m->wanted[space] == NULL)
                return TUG_ENOMEM;
            if (scheduler_has_chains(s))
                scheduler_chains_copy(s, space, m->wanted[space]);
            else
                memcpy(m->wanted[space], s->roster.owners[space],
                       partitions * sizeof(*m->wanted[space]));
        }
        if (m->retries[space] == NULL)
            m->retries[space] = mem_zalloc(partitions * sizeof(*m->retries[space]));
        if (m->retries[space] == NULL)
            return TUG_ENOMEM;
    }
    return 0;
}

// Plans chains, and logs how many of them lack members for want of servers.
static int plan_chains(struct scheduler *s)
{
    struct chains_faults faults;
    uint64_t shorter = 0;
    for (int space = 0; space < WIRE_SPACES; space++) {
        TRY(scheduler_chains_plan(s, space, &faults));
        shorter += faults.shorter;
    }
    scheduler_chains_tell(s, shorter);
    return 0;
}

static int plan_spaces(struct scheduler *s)
{
    struct moving *m = &s->moving;
    TRY(scheduler_plan_make_room(s));
    if (scheduler_has_chains(s))
        return plan_chains(s);
    struct placement_loop *loops = mem_array(s->n_nodes, sizeof(*loops));
    int rc = loops != NULL ? 0 : TUG_ENOMEM;
    for (int space = 0; space < WIRE_SPACES && rc == 0; space++) {
        size_t n = loops_of(s, space, loops);
        if (n == 0) // no loop is left that could take over: all partitions stay
            memcpy(m->wanted[space], s->roster.owners[space],
                   roster_partitions(&s->roster) * sizeof(*m->wanted[space]));
        else
            rc = placement_plan(loops, n, m->even, roster_partitions(&s->roster),
                                s->roster.owners[space], m->wanted[space]);
    }
    mem_free(loops);
    return rc;
}

void scheduler_plan_count(struct scheduler *s)
{
    struct moving *m = &s->moving;
    m->left = 0;
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < roster_partitions(&s->roster); p++)
            m->left += scheduler_has_chains(s)
                           ? !scheduler_chain_is_settled(s, space, p)
                           : m->wanted[space][p] != s->roster.owners[space][p];
}

// Makes the plan. If memory is out, plan_tick tries again.
static int plan(struct scheduler *s)
{
    struct moving *m = &s->moving;
    m->plan_again = true;
    TRY(plan_spaces(s));
    m->plan_again = m->even = false;
    m->planned_at = m->told_at = m->look_at = s->now;
    m->since_plan = m->bytes_since_plan = m->longest_stop_ns = 0;
    scheduler_plan_count(s);
    scheduler_moves_sift(s);
    if (m->left == 0)
        return 0;
    char text[OPERATION_TEXT];
    snprintf(text, sizeof(text), "%" PRIu64 " partition%s %s, because %s", m->left,
             m->left == 1 ? " has" : "s have",
             scheduler_has_chains(s) ? "to get other replicas" : "to move", m->why);
    scheduler_say(s, "placement: %s", text);
    scheduler_note(s, "placement", "scheduler", text);
    return 0;
}

// Lets moves of a partition begin at once. Reports of members that cannot follow still count.
static void forget_failures(struct retry *r)
{
    *r = (struct retry){.out = r->out,
                        .out_code = r->out_code,
                        .out_version = r->out_version,
                        .out_heard = r->out_heard,
                        .out_leads = r->out_leads,
                        .joined = r->joined};
}

int scheduler_plan(struct scheduler *s, bool even, const char *why)
{
    struct moving *m = &s->moving;
    if (s->phase != SCHEDULER_RUNNING)
        return 0;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        s->nodes[i].full = false;
        s->nodes[i].moves = (struct retry){0};
    }
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0;
             m->retries[space] != NULL && p < roster_partitions(&s->roster); p++)
            forget_failures(&m->retries[space][p]);
    m->even |= even;
    snprintf(m->why, sizeof(m->why), "%s", why);
    return plan(s);
}

void scheduler_plan_again(struct scheduler *s, const char *why)
{
    snprintf(s->moving.why, sizeof(s->moving.why), "%s", why);
    (void)plan(s);
}

void scheduler_plan_around(struct scheduler *s, struct sched_node *full)
{
    char name[ROSTER_NAME_MAX];
    full->full = true;
    snprintf(s->moving.why, sizeof(s->moving.why), "%s cannot hold more rows",
             scheduler_name(full, name));
    (void)plan(s);
}

void scheduler_plan_without(struct scheduler *s, const struct sched_node *n)
{
    char name[ROSTER_NAME_MAX];
    snprintf(s->moving.why, sizeof(s->moving.why), "%s could not follow again",
             scheduler_name(n, name));
    (void)plan(s);
}

static bool has_nodes(const struct process *p)
{
    return p->used && p->role == WIRE_SERVER && p->here > 0;
}

bool scheduler_can_drain(const struct scheduler *s, uint32_t process)
{
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const struct process *p = &s->processes[i];
        if (has_nodes(p) && p->fixed)
            return false;
    }
    if (scheduler_unbacked_led(s, process) != NULL)
        return false;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const struct process *p = &s->processes[i];
        if (i != process && has_nodes(p) && p->placed && !p->draining)
            return true;
    }
    return false;
}

int scheduler_drain(struct scheduler *s, uint32_t process, bool back)
{
    struct process *p = &s->processes[process];
    char why[64];
    snprintf(why, sizeof(why), "server %u %s", p->rank, back ? "stays" : "is drained");
    p->draining = !back;
    return scheduler_plan(s, false, why);
}

// Returns why this node cannot be drained (or, to cancel a drain, cannot be
// kept); NULL if it can.
static const char *drain_fault(struct scheduler *s, const struct sched_node *n,
                               const struct msg_drain *m, char to[ERR_TEXT_MAX])
{
    char name[ROSTER_NAME_MAX];
    if (s->phase != SCHEDULER_RUNNING)
        return "the cluster is not running: its servers cannot be drained now";
    if (n == NULL || !n->n.alive || n->n.role != WIRE_SERVER) {
        snprintf(to, ERR_TEXT_MAX,
                 "node %u is not a living server; 'tug status' lists the nodes", m->node);
        return to;
    }
    const struct unbacked *x = scheduler_unbacked_led(s, n->process);
    scheduler_name(n, name);
    if (m->back != 0 && n->stop_at != 0)
        snprintf(to, ERR_TEXT_MAX, "all partitions of %s have moved, and it is leaving",
                 name);
    else if (m->back == 0 && scheduler_fixed(s))
        snprintf(to, ERR_TEXT_MAX,
                 "%s cannot be drained: handlers of the servers' own program hold state "
                 "that does not move",
                 name);
    else if (m->back == 0 && x != NULL)
        snprintf(to, ERR_TEXT_MAX,
                 "%s cannot be drained: only it has the rows of its partitions of table "
                 "'%s', which has one replica; drop the table first",
                 name, x->name);
    else if (m->back == 0 && !scheduler_can_drain(s, n->process))
        snprintf(to, ERR_TEXT_MAX,
                 "%s cannot be drained: no other server can take its partitions; start "
                 "one with --join first",
                 name);
    else
        return NULL;
    return to;
}

bool scheduler_fixed(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_processes; i++)
        if (has_nodes(&s->processes[i]) && s->processes[i].fixed)
            return true;
    return false;
}

void scheduler_drain_serve(struct scheduler *s, struct link *l, uint64_t request,
                           const struct msg_drain *m)
{
    char text[ERR_TEXT_MAX], what[64];
    const struct sched_node *n = scheduler_node_of(s, m->node);
    const char *fault = drain_fault(s, n, m, text);
    if (fault != NULL) {
        scheduler_refuse(s, l->link, request, TUG_EUSAGE, fault);
        return;
    }
    if (s->processes[n->process].draining != (m->back == 0)) {
        snprintf(what, sizeof(what), "drain %sserver %u", m->back ? "no longer " : "",
                 n->n.rank);
        scheduler_note_admin(s, WIRE_OPERATION_DRAIN, "a tool", l->role,
                             van_peer(s->van, l->link), what);
        if (scheduler_drain(s, n->process, m->back != 0) != 0)
            return; // the tool asks again
    }
    scheduler_send(s, l->link, MSG_OK, request, &(struct msg_ok){s->moving.left});
}

void scheduler_rebalance_serve(struct scheduler *s, struct link *l, uint64_t request,
                               const struct msg_rebalance *m)
{
    (void)m;
    if (s->phase != SCHEDULER_RUNNING || scheduler_fixed(s)) {
        scheduler_refuse(s, l->link, request, TUG_EUSAGE,
                         s->phase != SCHEDULER_RUNNING
                             ? "the cluster is not running: nothing can move now"
                             : "nothing can move: handlers of the servers' own program "
                               "hold state that does not move");
        return;
    }
    scheduler_note_admin(s, WIRE_OPERATION_OTHER, "a tool", l->role,
                         van_peer(s->van, l->link), "rebalance");
    if (scheduler_plan(s, true, "an operator has asked for equal shares") == 0)
        scheduler_send(s, l->link, MSG_OK, request, &(struct msg_ok){s->moving.left});
}

// Includes servers in the placement when all their loops have joined.
static void place_new_servers(struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_processes; i++) {
        struct process *p = &s->processes[i];
        char why[64];
        if (!has_nodes(p) || p->placed || p->here < p->loops)
            continue;
        p->placed = true;
        snprintf(why, sizeof(why), "server %u has joined", p->rank);
        (void)scheduler_plan(s, false, why);
    }
}

// Returns whether all nodes know the placement in which the last partition has
// moved. After that no node sends requests to a server without partitions. A drained
// server that has been told to leave sends no requests either, and may never
// acknowledge the placement.
static bool placement_is_known(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        bool leaves = s->processes[n->process].draining && n->stop_at != 0;
        if (n->n.alive && n->link != 0 && !leaves &&
            n->roster_version < s->moving.version)
            return false;
    }
    return true;
}

static bool is_empty(const struct scheduler *s, uint32_t process)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        if (n->used && n->process == process &&
            (n->in_flight > 0 || scheduler_is_member(s, n)))
            return false;
    }
    return true;
}

static uint64_t let_leave(struct scheduler *s, uint32_t process)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct sched_node *n = &s->nodes[i];
        if (n->n.alive && n->process == process && n->link != 0 &&
            (n->stop_at == 0 || s->now >= n->stop_at + SCHEDULER_RESEND_NS))
            scheduler_stop_drained(s, n);
    }
    return s->now + SCHEDULER_RESEND_NS;
}

uint64_t scheduler_plan_tick(struct scheduler *s)
{
    uint64_t next = VAN_NEVER;
    if (s->phase != SCHEDULER_RUNNING)
        return VAN_NEVER;
    place_new_servers(s);
    if (s->moving.plan_again && plan(s) != 0)
        next = s->now + SCHEDULER_RESEND_NS;
    for (uint32_t i = 0; i < s->n_processes; i++)
        if (has_nodes(&s->processes[i]) && s->processes[i].draining && is_empty(s, i))
            next = clock_earlier(next, placement_is_known(s)
                                           ? let_leave(s, i)
                                           : s->now + SCHEDULER_RESEND_NS / 10);
    return next;
}
