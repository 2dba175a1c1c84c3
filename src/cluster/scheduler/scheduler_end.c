// The end of a cluster: nodes that leave, and their results; runs that cannot continue;
// and STOP, which is repeated until all nodes have left.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster/scheduler/scheduler_internal.h"

enum { PARTITIONS_NAMED = 80 }; // longest list of lost partitions, in characters

void scheduler_stop_node(struct scheduler *s, struct sched_node *n)
{
    assert(s->phase == SCHEDULER_ENDING); // also true if a node that has left asks again
    struct msg_stop msg = {.code = s->end.code,
                           .reason = (uint16_t)s->end.reason,
                           .why = wire_text(s->end.text)};
    n->stop_at = s->now > 0 ? s->now : 1;
    scheduler_send(s, n->link, MSG_STOP, 0, &msg);
}

void scheduler_stop_drained(struct scheduler *s, struct sched_node *n)
{
    char why[64];
    snprintf(why, sizeof(why), "server %u was drained", n->n.rank);
    struct msg_stop msg = {.code = 0, .why = wire_text(why)};
    n->stop_at = s->now > 0 ? s->now : 1;
    scheduler_send(s, n->link, MSG_STOP, 0, &msg);
}

void scheduler_end(struct scheduler *s, int code, const char *why)
{
    struct err end = {.code = code};
    snprintf(end.text, sizeof(end.text), "%s", why);
    scheduler_end_with(s, &end);
}

void scheduler_end_with(struct scheduler *s, const struct err *end)
{
    const char *why = end->text;
    if (s->phase == SCHEDULER_ENDING)
        return; // the reason of the first call is kept
    s->phase = SCHEDULER_ENDING;
    s->phase_at = s->now;
    s->end = *end;
    leases_over(s->leases);
    scheduler_note(s, "stop", "scheduler", why[0] != '\0' ? why : "the run is over");
    // After an error, the scheduler's process reports the error when all nodes have left.
    if (end->code == 0)
        scheduler_say(s, "the cluster ends%s%s", why[0] != 0 ? ": " : "", why);
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].n.alive)
            scheduler_stop_node(s, &s->nodes[i]);
}

static bool rank_was_taken(const struct scheduler *s, const struct sched_node *lost)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        if (n->used && n->left && n->n.role == lost->n.role && n->n.rank == lost->n.rank)
            return true;
    }
    return false;
}

// Returns a lost worker whose rank was not taken over by a worker that has left in order;
// NULL if there is no such worker.
static const struct sched_node *missed_worker(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        if (n->used && n->lost && n->n.role == WIRE_WORKER && !rank_was_taken(s, n))
            return n;
    }
    return NULL;
}

static void end_for(struct scheduler *s, const struct sched_node *lost)
{
    char name[ROSTER_NAME_MAX], why[ERR_TEXT_MAX];
    snprintf(why, sizeof(why), "%s has disconnected without giving a reason",
             scheduler_name(lost, name));
    scheduler_end(s, TUG_EIO, why);
}

// Called after a worker has left or died: ends the cluster if no worker is left.
static void after_worker(struct scheduler *s)
{
    const struct sched_node *missed = missed_worker(s);
    if (s->o.workers == 0 || scheduler_alive(s, WIRE_WORKER) > 0)
        return;
    if (s->phase == SCHEDULER_OVER)
        scheduler_end(s, 0, "");
    else if (s->phase == SCHEDULER_RUNNING && s->fail.code != 0)
        scheduler_end_with(s, &s->fail);
    else if (s->phase == SCHEDULER_RUNNING && missed != NULL)
        end_for(s, missed);
    else if (s->phase == SCHEDULER_RUNNING && s->driven)
        scheduler_end(s, TUG_EIO, "all workers have left before the run was over");
    else if (s->phase == SCHEDULER_RUNNING)
        scheduler_end(s, 0, "");
}

// Writes the partitions of a space that a node leads as "12-40, 77", as many as fit.
static void list_partitions(const struct scheduler *s, const struct sched_node *n,
                            int space, char *to, size_t cap)
{
    uint32_t partitions = roster_partitions(&s->roster);
    const uint32_t *owners = s->roster.owners[space];
    size_t at = 0;
    to[0] = 0;
    for (uint32_t p = 0, end; p < partitions; p = end + 1) {
        const struct roster_node *owner = roster_find(&s->roster, owners[p]);
        end = p;
        if (owner == NULL || owner->process != n->n.process)
            continue;
        while (end + 1 < partitions && owners[end + 1] == owners[p])
            end++;
        int more = end > p ? snprintf(to + at, cap - at, "%s%u-%u", at > 0 ? ", " : "", p,
                                      end)
                           : snprintf(to + at, cap - at, "%s%u", at > 0 ? ", " : "", p);
        at += more > 0 ? (size_t)more : 0;
        if (at + 32 > cap) {
            snprintf(to + at, cap - at, ", ...");
            return;
        }
    }
}

// The text of tables_lost fits: a name, two lists for each space, and fixed words.
_Static_assert(ROSTER_NAME_MAX + WIRE_SPACES * (2 * PARTITIONS_NAMED + 64) + 160 <
                   ERR_TEXT_MAX,
               "an error has room for the lists of lost partitions");

// Ends the run: other members have the node's partitions, but not the rows of some tables.
static void tables_lost(struct scheduler *s, const struct sched_node *n)
{
    char name[ROSTER_NAME_MAX], list[PARTITIONS_NAMED], tables[PARTITIONS_NAMED];
    char why[ERR_TEXT_MAX];
    int at = snprintf(why, sizeof(why), "%s was lost with ", scheduler_name(n, name));
    const char *before = "";
    for (int space = 0; space < WIRE_SPACES; space++) {
        list_partitions(s, n, space, list, sizeof(list));
        if (list[0] == '\0' || !scheduler_keeps_primaries(s, space))
            continue;
        scheduler_unbacked_names(s, space, tables, sizeof(tables));
        at += snprintf(why + at, sizeof(why) - (size_t)at,
                       "%spartitions %s of %u of table %s", before, list,
                       roster_partitions(&s->roster), tables);
        before = " and ";
    }
    snprintf(why + at, sizeof(why) - (size_t)at,
             ", which have no other replica (replicas = 1); --resume continues from the "
             "last save, if there is one");
    scheduler_end(s, TUG_EIO, why);
}

static void server_lost(struct scheduler *s, const struct sched_node *n)
{
    char name[ROSTER_NAME_MAX], list[PARTITIONS_NAMED], why[ERR_TEXT_MAX];
    if (!scheduler_is_alone(s, n)) {
        tables_lost(s, n);
        return;
    }
    list_partitions(s, n, WIRE_SPACE_SPARSE, list, sizeof(list));
    snprintf(why, sizeof(why),
             "%s was lost with partitions %s of %u, which have no %sreplica; --resume "
             "continues from the last save, if there is one",
             scheduler_name(n, name), list[0] != 0 ? list : "none",
             roster_partitions(&s->roster), scheduler_has_chains(s) ? "other " : "");
    scheduler_end(s, TUG_EIO, why);
}

void scheduler_lost(struct scheduler *s, struct sched_node *n)
{
    assert(!n->n.alive);
    if (s->phase == SCHEDULER_GATHERING && n->n.role != WIRE_DRIVER)
        return; // another worker may take over the dead worker's rank
    if (s->phase == SCHEDULER_RUNNING && scheduler_owns(s, n))
        server_lost(s, n);
    if (n->drives && s->phase < SCHEDULER_OVER)
        end_for(s, n);
    if (n->n.role != WIRE_WORKER)
        return;
    n->lost = s->phase == SCHEDULER_RUNNING;
    after_worker(s);
}

// Returns whether another worker is left that can do the work of this process.
static bool others_work(const struct scheduler *s, uint32_t process)
{
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const struct process *p = &s->processes[i];
        if (i != process && p->used && p->role == WIRE_WORKER && p->here > 0 && !p->asked)
            return true;
    }
    return false;
}

// Called for a process that got a signal to end. Drains a server if other servers can
// take its partitions. Returns whether the server is drained.
static bool drain_instead(struct scheduler *s, uint32_t process)
{
    const struct process *p = &s->processes[process];
    char who[32];
    if (p->role != WIRE_SERVER || !scheduler_can_drain(s, process))
        return false;
    if (p->draining)
        return true;
    snprintf(who, sizeof(who), "server %u", p->rank);
    scheduler_say(
        s, "%s was asked to end: its partitions move to the other servers first", who);
    scheduler_note(s, "drain", who,
                   "it was asked to end: its partitions move to the other servers first");
    // If memory is out, a later tick makes the plan.
    (void)scheduler_drain(s, process, false);
    return true;
}

// Records that a signal asks this process to end. Returns true if the run does not need
// the process, or has no driver that could end the run in order.
static bool may_leave(struct scheduler *s, uint32_t process)
{
    struct process *p = &s->processes[process];
    p->asked = true;
    if (!s->o.ends_in_order || s->phase == SCHEDULER_GATHERING)
        return true;
    if (s->phase != SCHEDULER_RUNNING || s->asked || drain_instead(s, process))
        return false; // the process gets STOP
    if (p->role == WIRE_WORKER && others_work(s, process))
        return true;
    s->asked = true;
    char who[32], text[192];
    const struct unbacked *x = scheduler_unbacked_led(s, process);
    snprintf(who, sizeof(who), "%s %u", p->role == WIRE_SERVER ? "server" : "worker",
             p->rank);
    snprintf(text, sizeof(text),
             "was asked to end: the whole run ends as if it were interrupted%s%s%s",
             x != NULL ? ", because table '" : "", x != NULL ? x->name : "",
             x != NULL ? "' has one replica" : "");
    scheduler_say(s, "%s %s", who, text);
    scheduler_note(s, "stop", who, text);
    return false;
}

// The sender is the process whose number the message has, because only that process knows
// the number (scheduler_heartbeat_serve).
void scheduler_may_leave_serve(struct scheduler *s, struct link *l, uint64_t request,
                               const struct msg_may_leave *m)
{
    bool leave = true;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const struct process *p = &s->processes[i];
        if (p->used && p->process == m->process && proof_role_fits(p->role, l->role))
            leave = may_leave(s, i);
    }
    scheduler_send(s, l->link, MSG_OK, request, &(struct msg_ok){.value = leave});
}

bool scheduler_asked(const struct scheduler *s)
{
    return s->asked;
}

// Returns whether a node that leaves with this code ends the run: wrong usage, bad data
// and bugs would also affect all other nodes.
static bool ends_the_run(const struct scheduler *s, const struct sched_node *n, int code)
{
    return code == TUG_EUSAGE || code == TUG_EDATA || code == TUG_EINTERNAL ||
           n->n.role != WIRE_WORKER || s->phase == SCHEDULER_GATHERING;
}

static void left_failing(struct scheduler *s, const struct sched_node *n,
                         const struct msg_leave *m)
{
    char name[ROSTER_NAME_MAX], said[ERR_TEXT_MAX - ROSTER_NAME_MAX];
    int code = m->code;
    struct err why = {.code = code, .reason = wire_known_reason(m->reason)};
    snprintf(why.text, sizeof(why.text), "%.*s ended with code %d%s%s", ROSTER_NAME_MAX,
             scheduler_name(n, name), err_exit_code(code), m->why.n > 0 ? ": " : "",
             wire_words(m->why, said, sizeof(said)));
    // scheduler_end logs the reason of the end, so a node that reports this reason is not
    // logged again.
    if (s->phase != SCHEDULER_ENDING ? !ends_the_run(s, n, code) : s->end.code == 0)
        scheduler_say(s, "%s", why.text);
    if (s->phase == SCHEDULER_ENDING && s->end.code == 0)
        s->end = why; // the first failure of a run that had ended well
    else if (ends_the_run(s, n, code))
        scheduler_end_with(s, &why);
    else if (s->fail.code == 0)
        s->fail = why;
}

// Returns whether the failure of this node may end the run. The failure of a guest may do
// so only if the guest has the right to stop the cluster, which a tool's token does not
// give. The failure of a server without partitions does not end the run, because the run
// does not need the server.
static bool may_end_all(const struct scheduler *s, const struct sched_node *n)
{
    if (s->phase == SCHEDULER_RUNNING && n->n.role == WIRE_SERVER)
        return scheduler_is_needed(s, n);
    return n->n.role != WIRE_DRIVER || n->drives ||
           wire_may(MSG_STOP, van_trust(s->van, n->link).role);
}

// Refuses a code that is neither 0 nor one of tug/tug.h: it would have no meaning for the
// other nodes. Returns whether it has refused the code.
static bool refused_for_code(struct scheduler *s, const struct sched_node *n,
                             uint64_t request, int32_t code)
{
    char name[ROSTER_NAME_MAX], why[ERR_TEXT_MAX];
    if (wire_code(code) == code)
        return false;
    snprintf(
        why, sizeof(why),
        "%s leaves with code %d, which is not one of tug/tug.h, where 0 means success",
        scheduler_name(n, name), code);
    scheduler_refuse(s, n->link, request, TUG_EUSAGE, why);
    return true;
}

static void server_left(struct scheduler *s, const struct sched_node *n,
                        const struct msg_leave *m)
{
    char name[ROSTER_NAME_MAX], said[ERR_TEXT_MAX - ROSTER_NAME_MAX];
    if (scheduler_owns(s, n)) {
        server_lost(s, n);
        return;
    }
    if (s->processes[n->process].here > 0 && m->code == 0)
        return; // the last loop of the process will leave, too
    wire_words(m->why, said, sizeof(said));
    scheduler_say(s, "%s has left%s%s", scheduler_name(n, name), m->code != 0 ? ": " : "",
                  m->code != 0 ? said : "");
}

void scheduler_leave_serve(struct scheduler *s, struct sched_node *n, uint64_t request,
                           const struct msg_leave *m)
{
    if (refused_for_code(s, n, request, m->code))
        return;
    scheduler_send(s, n->link, MSG_OK, request, &(struct msg_ok){0});
    if (!n->n.alive)
        return;
    bool ends = may_end_all(s, n);
    scheduler_gone(s, n, true);
    if (m->code != 0 && ends)
        left_failing(s, n, m);
    else if (n->n.role == WIRE_SERVER && s->phase == SCHEDULER_RUNNING)
        server_left(s, n, m);
    else if (n->drives && s->phase == SCHEDULER_RUNNING)
        scheduler_end(s, TUG_EIO, "the driver has left before the run was over");
    if (n->n.role == WIRE_WORKER)
        after_worker(s);
    scheduler_barriers_again(s);
}

void scheduler_run_over_serve(struct scheduler *s, struct sched_node *n, uint64_t request,
                              const struct msg_run_over *m)
{
    struct err why = {.code = wire_code(m->code), .reason = wire_known_reason(m->reason)};
    if (n->n.role != WIRE_DRIVER) {
        scheduler_refuse(s, n->link, request, TUG_EUSAGE,
                         "only the driver may end the run");
        return;
    }
    scheduler_send(s, n->link, MSG_OK, request, &(struct msg_ok){0});
    if (s->phase >= SCHEDULER_OVER)
        return;
    if (m->code != 0) {
        wire_words(m->why, why.text, sizeof(why.text));
        scheduler_end_with(s, &why);
        return;
    }
    s->phase = SCHEDULER_OVER;
    s->phase_at = s->now;
    leases_over(s->leases);
    if (scheduler_alive(s, WIRE_WORKER) == 0)
        scheduler_end(s, 0, "");
}

// Appends "1 of 2 workers" to `counts`, and the missing processes to `missing`: "worker
// 1" or "server 0 (2 of its 4 loops are here)".
static void who_is_missing(const struct scheduler *s, enum wire_role role,
                           uint32_t wanted, struct buf *counts, struct buf *missing)
{
    const char *name = role == WIRE_SERVER ? "server" : "worker";
    uint32_t here = 0;
    struct buf list = BUF_INIT(ERR_TEXT_MAX / 2);
    for (uint32_t rank = 0; rank < wanted; rank++) {
        const struct process *p = NULL;
        for (uint32_t i = 0; i < s->n_processes; i++)
            if (s->processes[i].role == role && s->processes[i].rank == rank &&
                s->processes[i].here > 0)
                p = &s->processes[i];
        if (p != NULL && p->here == p->loops) {
            here++;
            continue;
        }
        const char *comma = list.len > 0 ? ", " : "";
        if (p == NULL)
            (void)buf_printf(&list, "%s%s %u", comma, name, rank);
        else
            (void)buf_printf(&list, "%s%s %u (%u of its %u loops have joined)", comma,
                             name, rank, p->here, p->loops);
    }
    if (here < wanted) {
        (void)buf_printf(counts, "%s%u of %u %s%s", counts->len > 0 ? " and " : "",
                         wanted - here, wanted, name, wanted == 1 ? "" : "s");
        (void)buf_printf(missing, "%s%.*s", missing->len > 0 ? ", " : "", (int)list.len,
                         list.len > 0 ? list.data : "");
    }
    buf_free(&list);
}

static void gathering_failed(struct scheduler *s)
{
    char why[ERR_TEXT_MAX];
    struct buf counts = BUF_INIT(ERR_TEXT_MAX), missing = BUF_INIT(ERR_TEXT_MAX);
    who_is_missing(s, WIRE_SERVER, s->o.servers, &counts, &missing);
    who_is_missing(s, WIRE_WORKER, s->o.workers, &counts, &missing);
    snprintf(why, sizeof(why), "waited %" PRIu64 " s for %.*s: missing %.*s",
             s->o.gather_timeout_ns / SECOND_NS, (int)counts.len,
             counts.len > 0 ? counts.data : "", (int)missing.len,
             missing.len > 0 ? missing.data : "");
    buf_free(&counts);
    buf_free(&missing);
    scheduler_end(s, TUG_EIO, why);
}

// Finishes after the time for leaving, although some node has not left.
static void finish_without(struct scheduler *s)
{
    s->finished = true;
    for (uint32_t i = 0; i < s->n_nodes && s->end.code == 0; i++) {
        char name[ROSTER_NAME_MAX];
        if (s->nodes[i].n.alive)
            err_set(&s->end, TUG_EIO, "%s has not left within %" PRIu64 " s",
                    scheduler_name(&s->nodes[i], name),
                    s->o.leave_timeout_ns / SECOND_NS);
    }
}

static uint64_t tick_ending(struct scheduler *s)
{
    uint64_t over = s->phase_at + s->o.leave_timeout_ns, next = over;
    bool somebody = false;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct sched_node *n = &s->nodes[i];
        if (!n->n.alive)
            continue;
        somebody = true;
        if (n->link == 0)
            continue;
        if (s->now >= n->stop_at + SCHEDULER_RESEND_NS)
            scheduler_stop_node(s, n);
        if (n->stop_at + SCHEDULER_RESEND_NS < next)
            next = n->stop_at + SCHEDULER_RESEND_NS;
    }
    if (!somebody)
        s->finished = true;
    else if (s->now >= over && !s->finished)
        finish_without(s);
    return s->finished ? VAN_NEVER : next;
}

uint64_t scheduler_end_tick(struct scheduler *s)
{
    if (s->phase == SCHEDULER_GATHERING) {
        uint64_t over = s->served_at + s->o.gather_timeout_ns;
        if (s->now < over)
            return over;
        gathering_failed(s);
    }
    if (s->phase == SCHEDULER_OVER) {
        uint64_t over = s->phase_at + s->o.leave_timeout_ns;
        if (s->now < over)
            return over;
        scheduler_end(s, 0, "");
    }
    return s->phase == SCHEDULER_ENDING ? tick_ending(s) : VAN_NEVER;
}
