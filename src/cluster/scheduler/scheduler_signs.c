// Life and death of processes: heartbeats, other signs of life, and guests that are
// forgotten.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "cluster/member.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "cluster/scheduler/scheduler_keep.h"

// The time in which a node may connect again if its link closes after STOP was sent, at
// the end of the cluster. It is short, because the node has most likely ended.
static const uint64_t stopped_grace_ns = 1000000000;
// The time between two heartbeats is this part of the shortest dead timeout, and at most
// BEAT_NS.
enum { BEAT_PART = 3 };
#define BEAT_NS SECOND_NS
#define MILLIS_NS (SECOND_NS / 1000)
// The time in which a node may connect again after the link of its heartbeats has closed,
// in heartbeats. If its partitions have replicas, the time is shorter, because the run
// waits for it.
enum { SILENT_BEATS = 3, SILENT_BEATS_REPLICAS = 2 };
// The time for which a node may take to connect to a scheduler that was started again.
#define REJOIN_REPLICAS_NS (4 * SECOND_NS)
// The additional time if heartbeats still arrive: the process is alive, but its node may
// need several attempts to connect, each of which may hang.
static const uint64_t beating_grace_ns = 30000000000;

// The time for which a guest that has left is remembered, so that it can repeat LEAVE if
// the answer was lost.
static const uint64_t guest_memory_ns = 10000000000;

uint64_t scheduler_timeout(const struct scheduler *s)
{
    return clock_earlier(s->o.dead_timeout_ns, s->o.server_timeout_ns);
}

// Returns whether the run goes on without a dead node of this role, and waits for its death. If
// only primaries have the rows of a table, a death most likely ends the run.
static bool is_replaced(const struct scheduler *s, enum wire_role role)
{
    return role == WIRE_SERVER && scheduler_has_chains(s) && !scheduler_has_unbacked(s);
}

uint64_t scheduler_timeout_of(const struct scheduler *s, enum wire_role role)
{
    return role == WIRE_SERVER && !scheduler_has_unbacked(s) ? s->o.server_timeout_ns
                                                             : s->o.dead_timeout_ns;
}

static uint64_t beat_of(const struct scheduler *s)
{
    return clock_earlier(BEAT_NS, scheduler_timeout(s) / BEAT_PART);
}

static void close_beats(struct scheduler *s, struct link *l)
{
    l->beats = SCHEDULER_NOBODY;
    if (l->node != SCHEDULER_NOBODY)
        return;
    scheduler_part(s, l->link);
    scheduler_forget_link(s, l);
}

// Closes all links with heartbeats of a process except the newest: older ones may be
// dead, and a process must not fill the scheduler with links. Returns false if `l` is not
// the newest.
static bool keep_newest(struct scheduler *s, struct link *l, uint32_t process)
{
    for (uint32_t i = 0; i < s->n_links; i++) { // sorted by the time of opening
        struct link *other = &s->links[i];
        if (other == l || other->link == 0 || other->beats != process)
            continue;
        close_beats(s, other < l ? other : l);
        if (other > l)
            return false;
    }
    return true;
}

void scheduler_came_back(struct scheduler *s, struct sched_node *n)
{
    s->false_deaths += n->n.role == WIRE_SERVER && !n->came_back;
    n->came_back = true;
}

// Assigns the link to this process: from now on the link has heartbeats of this process
// only. The process that used the link before is treated as if its link had closed.
static void take_process(struct scheduler *s, struct link *l, uint64_t process)
{
    if (l->beats != SCHEDULER_NOBODY && l->beats_of != process) {
        s->processes[l->beats].silent_at = s->now;
        l->beats = SCHEDULER_NOBODY;
    }
    l->beats_of = process;
}

// Counts a heartbeat as a sign of life of the process with this number. Only that process
// knows the number, because other nodes get a different number for it. So no other
// process can send heartbeats for a process that hangs.
void scheduler_heartbeat_serve(struct scheduler *s, struct link *l, uint64_t request,
                               const struct msg_heartbeat *m)
{
    bool given_up = false;
    take_process(s, l, m->process);
    for (uint32_t i = 0; i < s->n_processes; i++) {
        struct process *p = &s->processes[i];
        if (!p->used || p->process != m->process || !proof_role_fits(p->role, l->role))
            continue;
        if (l->beats != i && !keep_newest(s, l, i))
            return;
        p->beats = true;
        p->silent_at = 0;
        l->beats = i;
        scheduler_keep_link(s, l->link, (enum wire_role)p->role);
        p->sign_at = s->now;
        p->skew_ns = (int64_t)(m->unix_ns - scheduler_unix_ns(s));
        for (uint32_t k = 0; k < s->n_nodes; k++) {
            struct sched_node *n = &s->nodes[k];
            if (!n->used || n->process != i || n->n.alive || n->left)
                continue;
            given_up = true;
            scheduler_came_back(s, n);
        }
    }
    struct msg_heartbeat_ok ok = {.unix_ns = scheduler_unix_ns(s),
                                  .known = !given_up,
                                  .returns = s->keep != NULL,
                                  .every_ms = (uint32_t)(beat_of(s) / MILLIS_NS)};
    scheduler_send(s, l->link, MSG_HEARTBEAT_OK, request, &ok);
}

void scheduler_gone(struct scheduler *s, struct sched_node *n, bool left)
{
    assert(n->used);
    if (!n->n.alive)
        return;
    char name[ROSTER_NAME_MAX];
    n->n.alive = false;
    n->left = left;
    n->gone_at = s->now;
    s->changed = true;
    n->holds = n->held = false;
    s->moving.look_at = s->now; // moves may have waited for this node's hold
    if (n->n.role == WIRE_SERVER && scheduler_has_chains(s))
        scheduler_chains_lose(s, n);
    s->broken |= n->n.role == WIRE_SERVER && scheduler_owns(s, n);
    if (s->processes[n->process].here > 0)
        s->processes[n->process].here--;
    scheduler_given_drop(s, n->process);
    if (n->n.role == WIRE_WORKER)
        leases_worker_dead(s->leases, n->n.id);
    if (!left) {
        char text[OPERATION_TEXT];
        snprintf(text, sizeof(text), "it gave no sign of life for %.3g s",
                 (double)(s->now - s->processes[n->process].sign_at) / SECOND_NS);
        scheduler_say(s, "%s is gone: %s", scheduler_name(n, name), text);
        scheduler_note(s, "death", name, text);
        if (n->link != 0) {
            scheduler_refuse(s, n->link, 0, TUG_EIO,
                             "this node counts as dead: the scheduler had no sign of "
                             "life from its process");
            scheduler_close_link(s, n);
        }
    }
    if (left && !scheduler_is_guest(s, n))
        scheduler_note(s, "leave", scheduler_name(n, name), "");
    if (n->n.role == WIRE_SERVER)
        scheduler_moves_lost(s, n);
}

// Returns whether the node is dead if no sign of life comes from its process. A process
// that has sent no heartbeat yet is asked for a sign if partitions have replicas, because
// updates may wait for it.
static bool needs_signs(const struct scheduler *s, const struct sched_node *n)
{
    return s->processes[n->process].beats ||
           (n->n.role == WIRE_SERVER && scheduler_has_chains(s));
}

// Returns the time at which a node with a closed link is declared dead. If the
// heartbeats' link is also closed, the process was most likely killed. Then the process
// has less time to come back, counted from the moment when the last link closed.
static uint64_t closed_too_long(const struct scheduler *s, const struct sched_node *n)
{
    const struct process *p = &s->processes[n->process];
    uint64_t grace = scheduler_timeout_of(s, n->n.role), since = n->closed_at;
    if (p->silent_at != 0) {
        uint64_t beats = is_replaced(s, n->n.role) ? SILENT_BEATS_REPLICAS : SILENT_BEATS;
        grace = clock_earlier(grace, beats * beat_of(s));
        since = p->silent_at > since ? p->silent_at : since;
    } else if (p->beats) {
        grace += beating_grace_ns;
    }
    if (n->stop_at != 0 && s->phase == SCHEDULER_ENDING)
        return n->closed_at + clock_earlier(grace, stopped_grace_ns);
    return since + grace;
}

// Returns the time before which no node may be declared dead after a restart of the
// scheduler. Servers whose partitions have replicas have less time, because the run waits
// for them.
static uint64_t rejoin_until(const struct scheduler *s, const struct sched_node *n)
{
    uint64_t all = s->o.dead_timeout_ns + MEMBER_TRY_NS,
             own = s->o.server_timeout_ns + REJOIN_REPLICAS_NS;
    return is_replaced(s, n->n.role) && s->rejoin_until > all && own < all
               ? s->rejoin_until - all + own
               : s->rejoin_until;
}

static uint64_t death_of(const struct scheduler *s, const struct sched_node *n)
{
    const struct process *p = &s->processes[n->process];
    uint64_t due = needs_signs(s, n) ? p->sign_at + scheduler_timeout_of(s, n->n.role)
                                     : VAN_NEVER;
    bool stopped = n->stop_at != 0 && s->phase == SCHEDULER_ENDING;
    if (n->link == 0)
        due = clock_earlier(due, closed_too_long(s, n));
    if (!stopped && due < rejoin_until(s, n))
        due = rejoin_until(s, n);
    return due;
}

// Asks a process for a sign of life over the links of its nodes, before it is declared
// dead: the link of its heartbeats may be dead although the process is alive. Returns
// when to call it again.
static uint64_t ask_for_sign(struct scheduler *s, struct sched_node *n)
{
    const struct process *p = &s->processes[n->process];
    if (n->link == 0 || !needs_signs(s, n) || bug_in(s->o.bugs, WITHOUT_SIGNS))
        return VAN_NEVER;
    uint64_t due = p->sign_at + scheduler_timeout_of(s, n->n.role) / 2;
    if (due < n->pinged_at + beat_of(s))
        due = n->pinged_at + beat_of(s);
    if (s->now < due)
        return due;
    n->pinged_at = s->now;
    scheduler_send(s, n->link, MSG_PING, 1, &(struct msg_ping){});
    return s->now + beat_of(s);
}

uint64_t scheduler_find_dead(struct scheduler *s)
{
    uint64_t next = VAN_NEVER;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct sched_node *n = &s->nodes[i];
        if (!n->n.alive)
            continue;
        uint64_t due = death_of(s, n);
        if (s->now >= due) {
            scheduler_gone(s, n, false);
            scheduler_lost(s, n);
            scheduler_barriers_again(s);
        } else {
            next = clock_earlier(next, clock_earlier(due, ask_for_sign(s, n)));
        }
    }
    return next;
}

void scheduler_free_process(struct scheduler *s, uint32_t process)
{
    for (uint32_t i = 0; i < s->n_links; i++)
        if (s->links[i].beats == process)
            s->links[i].beats = SCHEDULER_NOBODY;
    s->processes[process] = (struct process){0};
}

static void forget_guest(struct scheduler *s, struct sched_node *n)
{
    uint32_t process = n->process;
    bool last = true;
    for (uint32_t i = 0; i < s->n_links; i++)
        if (s->links[i].link != 0 && s->links[i].link == n->link)
            s->links[i].node = SCHEDULER_NOBODY;
    *n = (struct sched_node){0};
    s->used_nodes--;
    s->changed = true;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        last &= !s->nodes[i].used || s->nodes[i].process != process;
    if (last)
        scheduler_free_process(s, process);
}

uint64_t scheduler_forget_guests(struct scheduler *s)
{
    uint64_t next = VAN_NEVER;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct sched_node *n = &s->nodes[i];
        if (!n->used || n->n.alive || n->n.role != WIRE_DRIVER || n->drives)
            continue;
        if (s->now >= n->gone_at + guest_memory_ns)
            forget_guest(s, n);
        else
            next = clock_earlier(next, n->gone_at + guest_memory_ns);
    }
    return next;
}

// Returns a time that is `ns` later, but not later than now.
static uint64_t move_up(uint64_t time, uint64_t ns, uint64_t now)
{
    return now - time > ns ? time + ns : now;
}

// Returns for how much of their silence all peers are forgiven because the scheduler was
// stopped for `late`. After a long stop silence counts from now on. A short stop makes it
// count twice that time later. On a busy machine each tick may be late; so that a dead
// process is found there, too, short stops count for one dead timeout in all, until the
// scheduler has run for that long without a stop.
static uint64_t forgiven(struct scheduler *s, uint64_t late)
{
    const uint64_t most = scheduler_timeout(s);
    if (s->now - s->late_at > most)
        s->forgiven = 0;
    s->late_at = s->now;
    if (late >= most / 4)
        return s->now;
    uint64_t more = clock_earlier(2 * late, most - s->forgiven);
    s->forgiven += more;
    return more;
}

// Forgives the silence of all peers in two cases. The scheduler itself was stopped or
// swapped out: then it could not receive their messages, and may read those that wait
// only after this tick. Or it may not answer them: then their heartbeats look for another
// scheduler, and silence counts from now on.
void scheduler_forgive_silence(struct scheduler *s)
{
    bool mute = scheduler_is_mute(s);
    uint64_t late = s->now > s->due ? s->now - s->due : 0;
    if (!mute && (bug_in(s->o.bugs, WITHOUT_FORGIVING) || late == 0 ||
                  late < scheduler_timeout(s) / SCHEDULER_LATE_PART))
        return;
    if (mute) // an attempt to connect may hang for MEMBER_TRY_NS
        s->rejoin_until = s->now + s->o.dead_timeout_ns + MEMBER_TRY_NS;
    uint64_t more = mute ? s->now : forgiven(s, late);
    for (uint32_t i = 0; i < s->n_processes; i++)
        s->processes[i].sign_at = move_up(s->processes[i].sign_at, more, s->now);
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].link == 0)
            s->nodes[i].closed_at = move_up(s->nodes[i].closed_at, more, s->now);
    if (s->rejoin_until > s->due)
        s->rejoin_until += late;
    if (!mute)
        scheduler_reports_again(s);
}
