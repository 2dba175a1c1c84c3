// Barriers. A group's barrier is complete when all processes that it waits for have reached
// it: all living processes of the group. Each process counts its barriers. A process that
// joined the running cluster does not know the number of earlier barriers. So its first
// barrier counts as the group's present one, and the group waits for the process from
// then on. A node that dies or leaves is not waited for any more.
//
// The loops of a process reach a barrier together: each of them stands for the process.
//
// A collective call is a barrier of the workers to which each brings bytes. When the
// barrier is complete, the scheduler makes the result once, from the bytes of the workers
// that the barrier waited for. It keeps the result until the next barrier is complete,
// because an answer may be lost.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
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

static void scheduler_barrier_tell(struct scheduler *s, const struct sched_node *n,
                                   uint64_t request, uint8_t group, uint64_t number,
                                   bool done)
{
    char missing[ERR_TEXT_MAX];
    struct msg_barrier_state msg = {.group = group, .number = number, .done = done};
    if (!done)
        msg.missing = wire_text(scheduler_missing(s, group, missing, sizeof(missing)));
    scheduler_send(s, n->link, MSG_BARRIER_STATE, request, &msg);
}

static void tell_collected(struct scheduler *s, const struct sched_node *n,
                           uint64_t request, uint64_t number, bool done)
{
    char missing[ERR_TEXT_MAX];
    const struct collected *c = &s->collected;
    struct msg_collected msg = {.number = number, .done = done};
    if (!done) {
        msg.why = wire_text(
            scheduler_missing(s, WIRE_GROUP_WORKERS, missing, sizeof(missing)));
    } else {
        msg.code = c->why.code;
        msg.why = wire_text(c->why.text);
        msg.result = (struct wire_text){c->result.data, (uint32_t)c->result.len};
    }
    scheduler_send(s, n->link, MSG_COLLECTED, request, &msg);
}

// Answers a call whose result was dropped at a later barrier. Only the call fails, not
// the node: the request is most likely a late copy, and the node, which has since reached
// the later barrier, ignores answers to earlier calls.
static void tell_dropped(struct scheduler *s, const struct sched_node *n,
                         uint64_t request, uint64_t number)
{
    struct msg_collected msg = {
        .number = number,
        .done = 1,
        .code = TUG_EUSAGE,
        .why = wire_text("the result of this collective call was dropped when a later "
                         "barrier completed"),
    };
    scheduler_send(s, n->link, MSG_COLLECTED, request, &msg);
}

// Sends the state of the group's barrier to all nodes of the group, so that the nodes
// need not ask.
static void tell_all(struct scheduler *s, uint8_t group)
{
    uint64_t completed = s->groups[group].completed;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        const struct process *p = &s->processes[n->process];
        if (!n->n.alive || !waited_for(s, n->process, group) ||
            p->base[group] >= completed)
            continue;
        if (group == WIRE_GROUP_WORKERS && p->given != NULL)
            tell_collected(s, n, 0, completed - p->base[group], true);
        else
            scheduler_barrier_tell(s, n, 0, group, completed - p->base[group], true);
    }
}

// Returns whether the run has failed. A node that leaves because of the failure has not
// come to the barrier, so the other nodes must not pass the barrier. They get STOP with
// the reason instead, and a collective call fails with this reason.
static bool has_failed(const struct scheduler *s)
{
    return s->phase == SCHEDULER_ENDING && s->end.code != 0;
}

// Makes the result of the collective call, if the barrier that is now complete belongs to
// a call.
static void scheduler_barrier_collect(struct scheduler *s)
{
    struct collected *c = &s->collected;
    struct given **all = mem_array(s->n_processes + 1, sizeof(*all));
    size_t n = 0;
    int64_t at_barrier = -1;
    scheduler_collected_free(s);
    c->result = BUF_INIT(WIRE_BYTES_MAX);
    for (uint32_t i = 0; i < s->n_processes && all != NULL; i++) {
        if (!waited_for(s, i, WIRE_GROUP_WORKERS))
            continue;
        if (s->processes[i].given != NULL)
            all[n++] = s->processes[i].given;
        else
            at_barrier = s->processes[i].rank;
    }
    if (has_failed(s))
        err_copy(&c->why, &s->end); // the call fails with the reason of the end
    else if (all == NULL)
        err_nomem(&c->why, "a collective call");
    else if (n > 0 && collect_make(all, n, at_barrier, &c->result, &c->why) != 0)
        buf_free(&c->result);
    mem_free(all);
}

static void drop_given(struct process *p)
{
    mem_free(p->given);
    p->given = NULL;
}

static bool is_collective(const struct scheduler *s, uint8_t group)
{
    for (uint32_t i = 0; i < s->n_processes && group == WIRE_GROUP_WORKERS; i++)
        if (s->processes[i].given != NULL)
            return true;
    return false;
}

static bool scheduler_barrier_try(struct scheduler *s, uint8_t group)
{
    if (s->phase == SCHEDULER_GATHERING || !all_have_come(s, group) ||
        (has_failed(s) && !is_collective(s, group)))
        return false;
    s->groups[group].completed++;
    if (group == WIRE_GROUP_WORKERS)
        scheduler_barrier_collect(s);
    tell_all(s, group);
    for (uint32_t i = 0; i < s->n_processes && group == WIRE_GROUP_WORKERS; i++)
        drop_given(&s->processes[i]);
    return true;
}

// The arrival of a process at a barrier of a group. `again` is set if the process asks
// for a barrier that it has reached before.
struct arrival {
    struct process *process;
    uint64_t reached; // number of the barrier that the process reaches, in the group's
                      // count
    bool again;
};

// Returns whether the node may enter the barrier; refuses its request if not.
static bool may_arrive(struct scheduler *s, struct sched_node *n, uint64_t request,
                       uint8_t group, uint64_t number, struct arrival *ret)
{
    assert(n->used && n->link != 0);
    if (group >= SCHEDULER_GROUPS || !in_group(n->n.role, group) || number == 0) {
        scheduler_refuse(s, n->link, request, TUG_EUSAGE,
                         "the node is not in the group of this barrier");
        return false;
    }
    struct process *p = &s->processes[n->process];
    if (!p->known[group]) {
        p->known[group] = true;
        p->base[group] = p->late ? s->groups[group].completed : 0;
    }
    // A process enters the next barrier only after it has learned that the previous one
    // is complete.
    if (number > s->groups[group].completed - p->base[group] + 1) {
        scheduler_refuse(s, n->link, request, TUG_EUSAGE,
                         "the previous barrier is not complete yet");
        return false;
    }
    uint64_t reached = p->base[group] + number;
    *ret = (struct arrival){p, reached, p->reached[group] >= reached};
    return true;
}

void scheduler_barrier_serve(struct scheduler *s, struct sched_node *n, uint64_t request,
                             const struct msg_barrier *m)
{
    uint8_t group = m->group;
    struct arrival a;
    if (!may_arrive(s, n, request, group, m->number, &a))
        return;
    if (!a.again)
        a.process->reached[group] = a.reached;
    if (scheduler_barrier_try(s, group))
        return;
    bool done = a.reached <= s->groups[group].completed;
    if (done || a.again)
        scheduler_barrier_tell(s, n, request, group, m->number, done);
}

// Returns how many more bytes the scheduler can keep for the open collective call.
static size_t room_for_given(const struct scheduler *s)
{
    size_t used = 0;
    for (uint32_t i = 0; i < s->n_processes; i++)
        used += s->processes[i].given != NULL ? s->processes[i].given->n : 0;
    return used < WIRE_REDUCE_MAX ? WIRE_REDUCE_MAX - used : 0;
}

void scheduler_collect_serve(struct scheduler *s, struct sched_node *n, uint64_t request,
                             const struct msg_collect *m)
{
    const uint8_t group = WIRE_GROUP_WORKERS;
    const char *fault = collect_fault(m);
    struct arrival a;
    if (fault != NULL) {
        scheduler_refuse(s, n->link, request, TUG_EUSAGE, fault);
        return;
    }
    if (!may_arrive(s, n, request, group, m->number, &a))
        return;
    if (!a.again) {
        a.process->given = collect_keep(m, room_for_given(s));
        if (a.process->given == NULL)
            return; // the worker asks again
        a.process->reached[group] = a.reached;
    }
    uint64_t completed = s->groups[group].completed;
    if (scheduler_barrier_try(s, group))
        return;
    if (a.reached < completed)
        tell_dropped(s, n, request, m->number);
    else if (a.reached == completed || a.again)
        tell_collected(s, n, request, m->number, a.reached == completed);
}

void scheduler_given_drop(struct scheduler *s, uint32_t process)
{
    if (s->processes[process].here == 0)
        drop_given(&s->processes[process]);
}

void scheduler_collected_free(struct scheduler *s)
{
    buf_free(&s->collected.result);
    s->collected.why = (struct err){0};
}

void scheduler_barriers_again(struct scheduler *s)
{
    for (uint8_t group = 1; group < SCHEDULER_GROUPS; group++)
        while (scheduler_barrier_try(s, group))
            ;
}

const char *scheduler_missing(const struct scheduler *s, uint8_t group, char *to,
                              size_t cap)
{
    size_t at = 0;
    to[0] = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        const struct process *p = &s->processes[n->process];
        char name[ROSTER_NAME_MAX];
        if (!n->n.alive || n->n.loop != 0 || !waited_for(s, n->process, group) ||
            p->reached[group] > s->groups[group].completed)
            continue;
        int more = snprintf(to + at, cap - at, "%s%s", at > 0 ? ", " : "",
                            scheduler_name(n, name));
        if (more < 0 || (size_t)more >= cap - at) {
            to[at] = 0; // if there is no room for all names, the list ends with the
                        // last name that fits
            break;
        }
        at += (size_t)more;
    }
    return to;
}
