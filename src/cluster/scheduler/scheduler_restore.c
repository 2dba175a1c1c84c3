// Restores a scheduler from the rows of its journal, checks that they describe a cluster,
// and continues it. A node that was a thread of the killed scheduler's process is
// declared dead. The time since each node's last sign of life is counted from now.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster/journal/journal.h"
#include "cluster/member.h"
#include "cluster/scheduler/scheduler_keep.h"

// The most numbers that a scheduler that is thought to be dead may still give
// to sessions and moves.
enum { NUMBERS = 1 << 24 };

static int differs(const char *what, uint64_t kept, uint64_t given, struct err *e)
{
    return err_set(e, TUG_EUSAGE,
                   "the state at --state belongs to a cluster with %s %" PRIu64
                   ", not %" PRIu64 "; give the same options, or another --state",
                   what, kept, given);
}

static int check_same(const struct scheduler *s, const struct scheduler_options *o,
                      struct err *e)
{
    if (s->o.cluster != o->cluster)
        return err_set(e, TUG_EUSAGE,
                       "the state at --state belongs to a cluster of another name; "
                       "give the same --cluster, or another --state");
    if (s->o.servers != o->servers)
        return differs("--servers", s->o.servers, o->servers, e);
    if (s->o.workers != o->workers)
        return differs("--workers", s->o.workers, o->workers, e);
    if (s->o.partition_bits != o->partition_bits)
        return differs("bits of partitions", s->o.partition_bits, o->partition_bits, e);
    if (s->o.replicas != s->roster.replicas)
        return differs("--replicas", s->o.replicas, s->roster.replicas, e);
    return 0;
}

struct reading {
    struct scheduler *s;
    const struct scheduler_options *given;
};

static int read_row(const struct reading *r, const struct row_head *h, const char *bytes,
                    struct err *e)
{
    bool leases = h->kind >= ROW_LEASES && h->kind < ROW_LEASES + LEASES_ROWS;
    int rc = TUG_EDATA;
    if (leases)
        rc = leases_row_read(r->s->leases, (enum leases_row)(h->kind - ROW_LEASES), bytes,
                             h->n);
    else if (h->kind != ROW_NONE && h->kind < ROW_KINDS)
        rc = scheduler_row_read(r->s, (enum row_kind)h->kind, h->index, bytes, h->n);
    if (rc != 0)
        return err_set(e, TUG_EDATA,
                       "the journal has a row that this version cannot read (kind %u, "
                       "index %u); start the version that wrote it, or the whole cluster "
                       "again with another --state",
                       h->kind, h->index);
    // The lengths of other rows follow from the options.
    return h->kind == ROW_META ? check_same(r->s, r->given, e) : 0;
}

static int read_group(void *ctx, const void *bytes, size_t n, struct err *e)
{
    const struct reading *r = ctx;
    struct row_head h;
    const char *at = bytes;
    while (n > 0) {
        if (n >= sizeof(h))
            memcpy(&h, at, sizeof(h));
        if (n < sizeof(h) || h.n > n - sizeof(h))
            return err_set(e, TUG_EDATA, "the journal has half a row");
        TRY(read_row(r, &h, at + sizeof(h), e));
        at += sizeof(h) + h.n;
        n -= sizeof(h) + h.n;
    }
    r->s->restored = true;
    return 0;
}

static const char *odd_node(const struct scheduler *s, const struct sched_node *n)
{
    if (n->process >= s->n_processes)
        return "a node belongs to no process";
    const struct process *p = &s->processes[n->process];
    if (n->used && (!p->used || p->role != n->n.role || p->rank != n->n.rank ||
                    n->n.loop >= p->loops))
        return "a node's role, rank or loop does not fit its process";
    if (!n->used && n->n.alive)
        return "a node is alive, but its place in the list of nodes is unused";
    return n->used && n->n.session > s->session
               ? "a node has a session number that was never given"
               : NULL;
}

static const char *odd_move(struct scheduler *s, const struct move *x)
{
    if (scheduler_node_of(s, x->from) == NULL || scheduler_node_of(s, x->to) == NULL)
        return "a move's source or target is not in the list of nodes";
    if (s->roster.epoch == 0 ||
        roster_tail(&s->roster, x->space, x->partition) != x->from)
        return scheduler_has_chains(s)
                   ? "a move's source is not the last replica of the partition"
                   : "a move's source does not own the partition";
    if (scheduler_has_chains(s) &&
        roster_is_member(&s->roster, x->space, x->partition, x->to))
        return "a move's target is a replica of the partition already";
    return NULL;
}

// Returns whether the ids differ from each other, and zeros follow the last one.
static bool is_chain(const uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (ids[i] != 0 && (ids[k] == 0 || ids[k] == ids[i]))
                return false;
    return true;
}

static const char *odd_chain(struct scheduler *s, int space, uint32_t partition)
{
    const struct roster *r = &s->roster;
    const uint32_t *ids = r->backups[space] + (size_t)partition * r->replicas;
    if (!is_chain(ids, r->replicas))
        return "a partition has the same replica twice";
    for (uint32_t i = 0; i < r->replicas && ids[i] != 0; i++) {
        const struct sched_node *n = scheduler_node_of(s, ids[i]);
        if (n == NULL || n->n.role != WIRE_SERVER || !n->n.alive ||
            ids[i] == r->owners[space][partition])
            return "a replica of a partition is not a living server of its own";
    }
    ids = s->moving.wanted[space];
    if (ids == NULL)
        return NULL;
    ids += (size_t)partition * r->replicas;
    return ids[0] != 0 && is_chain(ids, r->replicas) ? NULL
                                                     : "the plan of replicas is odd";
}

static const char *odd_chains(struct scheduler *s)
{
    const char *odd = NULL;
    for (int space = 0; space < WIRE_SPACES && odd == NULL; space++) {
        if (s->roster.backups[space] == NULL)
            return "the replicas of partitions are missing";
        for (uint32_t p = 0; p < roster_partitions(&s->roster) && odd == NULL; p++)
            odd = odd_chain(s, space, p);
    }
    return odd;
}

// Returns the contradiction in the restored state, or NULL if there is none.
static const char *odd_state(struct scheduler *s)
{
    const char *odd = NULL;
    for (uint32_t i = 0; i < s->n_nodes && odd == NULL; i++)
        odd = odd_node(s, &s->nodes[i]);
    for (int space = 0; space < WIRE_SPACES && odd == NULL; space++)
        if (s->roster.epoch != 0 && s->roster.owners[space] == NULL)
            odd = "the placement is missing";
    if (odd == NULL && scheduler_has_chains(s) && s->roster.epoch != 0)
        odd = odd_chains(s);
    if (odd == NULL && s->moving.n > 0 && s->moving.wanted[0] == NULL &&
        s->moving.wanted[1] == NULL)
        odd = "partitions move, but the planned placement is missing";
    for (uint32_t i = 0; i < s->moving.n && odd == NULL; i++)
        odd = odd_move(s, &s->moving.list[i]);
    if (odd == NULL && s->roster.epoch == 0 &&
        (s->phase == SCHEDULER_RUNNING || s->phase == SCHEDULER_OVER))
        odd = "the cluster runs without a placement";
    return odd;
}

// Computes the state that is not in the rows but follows from them.
static int restore_work(struct scheduler *s)
{
    struct moving *m = &s->moving;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        s->used_nodes += n->used;
        if (!n->used || n->n.role != WIRE_WORKER)
            continue;
        TRY(leases_worker_joined(s->leases, n->n.id));
        if (!n->n.alive)
            leases_worker_dead(s->leases, n->n.id);
    }
    if (s->roster.epoch != 0 && (m->wanted[0] != NULL || m->wanted[1] != NULL)) {
        TRY(scheduler_plan_make_room(s));
        for (int space = 0; space < WIRE_SPACES && scheduler_has_chains(s); space++)
            scheduler_chains_order(s, space);
        scheduler_plan_count(s);
    }
    for (uint32_t i = 0; i < m->n; i++)
        scheduler_moves_count(s, &m->list[i], 1);
    if (s->phase >= SCHEDULER_OVER)
        leases_over(s->leases);
    scheduler_forgets_restored(s);
    s->views_at = 1; // views were perhaps lost, so they are sent again
    return scheduler_list(s);
}

int scheduler_restore(struct scheduler *s, struct err *e)
{
    const struct scheduler_options given = s->o;
    struct reading r = {s, &given};
    TRY(journal_replay(s->o.journal, read_group, &r, e));
    if (!s->restored)
        return 0;
    s->keep->pid = s->o.pid;
    s->o.pid = given.pid;
    const char *odd = odd_state(s);
    int rc = odd == NULL ? leases_restored(s->leases) : 0;
    if (rc == TUG_ENOMEM)
        return err_nomem(e, "the state of the cluster");
    if (rc != 0)
        odd = "the pieces of the data do not fit";
    if (odd != NULL)
        return err_set(e, TUG_EDATA,
                       "the journal does not describe a cluster: %s; start the whole "
                       "cluster again with another --state",
                       odd);
    return restore_work(s) == 0 ? 0 : err_nomem(e, "the state of the cluster");
}

// Returns whether the node was in the process of the killed scheduler. Processes of other
// machines and containers may have the same number.
static bool was_here(const struct scheduler *s, const struct sched_node *n)
{
    return n->n.role == WIRE_DRIVER && n->n.pid == s->keep->pid &&
           (s->o.host == NULL || strcmp(n->n.host, s->o.host) == 0);
}

// Declares the run's driver dead, because it was a thread of the killed scheduler. The
// next driver opens the same pass again.
static void part_with_driver(struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct sched_node *n = &s->nodes[i];
        if (!n->used || (!n->drives && !was_here(s, n)))
            continue;
        n->drives = false;
        scheduler_gone(s, n, true);
    }
    s->driven = false;
}

void scheduler_restore_serve(struct scheduler *s)
{
    struct moving *m = &s->moving;
    if (!s->restored)
        return;
    for (uint32_t i = 0; i < s->n_processes; i++)
        s->processes[i].sign_at = s->now;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        s->nodes[i].closed_at = s->nodes[i].progress_at = s->nodes[i].gone_at = s->now;
    for (uint32_t i = 0; i < m->n; i++)
        m->list[i].began = m->list[i].heard = m->list[i].grown = m->list[i].handed_at =
            s->now;
    // A member's attempt to connect that began before the start may hang for
    // MEMBER_TRY_NS.
    s->rejoin_until = s->now + s->o.dead_timeout_ns + MEMBER_TRY_NS;
    m->planned_at = m->told_at = m->look_at = s->now;
    scheduler_forgets_hold(s);
    // The previous scheduler may still run, and must not give the same numbers.
    s->session += NUMBERS;
    m->last_id += NUMBERS;
    part_with_driver(s);
    char text[OPERATION_TEXT];
    snprintf(text, sizeof(text),
             "this is generation %" PRIu64 ", which continues with the saved state",
             s->generation);
    scheduler_say(s, "the scheduler was started again: %s", text);
    scheduler_note(s, "restart", "scheduler", text);
}
