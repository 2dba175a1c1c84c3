// Barriers. A group's generation is complete when all processes that the barrier waits
// for have reached it. It waits for all living processes of the group. A process that
// joined the running cluster cannot know which barriers there have been: the group waits
// for it from its first barrier on, which counts as the generation that the group is in.
// A node that dies or leaves is not waited for any more.
//
// The loops of a process reach a barrier together: each of them stands for the process.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/scheduler/scheduler_internal.h"

static bool in_group(enum wire_role role, uint8_t group)
{
    return (role == WIRE_SCHEDULER && (group & WIRE_GROUP_SCHEDULER)) ||
           (role == WIRE_SERVER && (group & WIRE_GROUP_SERVERS)) ||
           (role == WIRE_WORKER && (group & WIRE_GROUP_WORKERS));
}

static bool waited_for(const struct scheduler *s, uint32_t process, uint8_t group)
{
    const struct process *p = &s->processes[process];
    return in_group(p->role, group) && p->here > 0 && (!p->late || p->known[group]);
}

static bool all_have_come(const struct scheduler *s, uint8_t group)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        if (!waited_for(s, i, group))
            continue;
        if (s->processes[i].reached[group] <= s->groups[group].completed)
            return false;
        n++;
    }
    return n > 0;
}

static void tell(struct scheduler *s, const struct node *n, uint64_t request,
                 uint8_t group, uint64_t generation, bool done)
{
    char missing[ERR_TEXT_MAX];
    struct msg_barrier_state msg = {
        .group = group, .generation = generation, .done = done};
    if (!done)
        msg.missing = wire_text(scheduler_missing(s, group, missing, sizeof(missing)));
    scheduler_send(s, n->link, MSG_BARRIER_STATE, request, &msg);
}

// Sends the new state of a barrier to all nodes of the group, without waiting for their
// next requests.
static void tell_all(struct scheduler *s, uint8_t group)
{
    uint64_t completed = s->groups[group].completed;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct node *n = &s->nodes[i];
        const struct process *p = &s->processes[n->process];
        if (n->n.alive && waited_for(s, n->process, group) && p->base[group] < completed)
            tell(s, n, 0, group, completed - p->base[group], true);
    }
}

static bool complete(struct scheduler *s, uint8_t group)
{
    if (s->phase == SCHEDULER_GATHERING || !all_have_come(s, group))
        return false;
    s->groups[group].completed++;
    tell_all(s, group);
    return true;
}

void scheduler_barrier_serve(struct scheduler *s, struct node *n, uint64_t request,
                             const struct msg_barrier *m)
{
    assert(n->used && n->link != 0);
    uint8_t group = m->group;
    if (group >= SCHEDULER_GROUPS || !in_group(n->n.role, group) || m->generation == 0) {
        scheduler_refuse(s, n->link, request, TUG_EUSAGE,
                         "the node is not in the group of this barrier");
        return;
    }
    struct process *p = &s->processes[n->process];
    if (!p->known[group]) {
        p->known[group] = true;
        p->base[group] = p->late ? s->groups[group].completed : 0;
    }
    // A process enters the next barrier only after it has learned that the previous one
    // is complete.
    uint64_t completed = s->groups[group].completed;
    if (m->generation > completed - p->base[group] + 1) {
        scheduler_refuse(s, n->link, request, TUG_EUSAGE,
                         "the barrier before this one is not complete yet");
        return;
    }
    uint64_t reached = p->base[group] + m->generation;
    bool again = p->reached[group] >= reached;
    if (!again)
        p->reached[group] = reached;
    if (complete(s, group))
        return;
    bool done = reached <= s->groups[group].completed;
    if (done || again)
        tell(s, n, request, group, m->generation, done);
}

void scheduler_barriers_again(struct scheduler *s)
{
    for (uint8_t group = 1; group < SCHEDULER_GROUPS; group++)
        while (complete(s, group))
            ;
}

const char *scheduler_missing(const struct scheduler *s, uint8_t group, char *to,
                              size_t cap)
{
    size_t at = 0;
    to[0] = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct node *n = &s->nodes[i];
        const struct process *p = &s->processes[n->process];
        char name[ROSTER_NAME_MAX];
        if (!n->n.alive || n->n.loop != 0 || !waited_for(s, n->process, group) ||
            p->reached[group] > s->groups[group].completed)
            continue;
        int more = snprintf(to + at, cap - at, "%s%s", at > 0 ? ", " : "",
                            scheduler_name(n, name));
        if (more < 0 || (size_t)more >= cap - at) {
            to[at] = 0; // If there is no room for all names, the list ends with the last
                        // one that fits.
            break;
        }
        at += (size_t)more;
    }
    return to;
}
