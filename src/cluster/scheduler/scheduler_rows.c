// The state of a scheduler that outlives its process, as rows: each row has a kind and an
// index, and replaces the earlier row with the same kind and index. scheduler_keep.c
// writes the rows that have changed, before any message that depends on them is sent.
//
// The rows of leases, with the passes of a driver, are in cluster/leases.
//
// Not kept: links, signs of life and times, which begin anew; and arrivals at barriers
// that are not complete, since members repeat these requests.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "cluster/row.h"
#include "cluster/scheduler/scheduler_keep.h"

// Version of the format of rows; a journal with another version is refused.
enum { FORMAT = 4 };

static void row_err(struct row *r, struct err *e)
{
    ROW_NUMBER(r, e->code);
    ROW_NUMBER(r, e->reason);
    ROW_NUMBER(r, e->about);
    r->bad |= (unsigned)e->reason >= REASONS;
    row_text(r, e->text, sizeof(e->text));
}

// The cluster that the journal belongs to, and the key of its sessions.
static void row_meta(struct row *r, struct scheduler *s)
{
    uint64_t format = FORMAT;
    ROW_NUMBER(r, format);
    r->bad |= format != FORMAT;
    ROW_NUMBER(r, s->o.cluster);
    ROW_NUMBER(r, s->o.servers);
    ROW_NUMBER(r, s->o.workers);
    ROW_NUMBER(r, s->o.partition_bits);
    ROW_NUMBER(r, s->o.session_base);
    ROW_NUMBER(r, s->generation);
    ROW_NUMBER(r, s->o.pid);
    row_bytes(r, s->o.session_key, sizeof(s->o.session_key));
    row_text(r, s->address, sizeof(s->address));
}

static void row_cluster(struct row *r, struct scheduler *s)
{
    ROW_NUMBER(r, s->session);
    ROW_NUMBER(r, s->more_servers);
    ROW_NUMBER(r, s->more_workers);
    ROW_NUMBER(r, s->n_guests);
    ROW_NUMBER(r, s->phase);
    r->bad |= s->phase > SCHEDULER_ENDING;
    ROW_NUMBER(r, s->broken);
    ROW_NUMBER(r, s->asked);
    row_err(r, &s->end);
    row_err(r, &s->fail);
    ROW_NUMBER(r, s->driven);
    ROW_NUMBER(r, s->cut.save);
    ROW_NUMBER(r, s->cut.roster);
    ROW_NUMBER(r, s->cut.newest);
    ROW_NUMBER(r, s->cut.saver);
    ROW_NUMBER(r, s->roster.version);
    ROW_NUMBER(r, s->roster.epoch);
    ROW_NUMBER(r, s->moving.last_id);
    ROW_NUMBER(r, s->moving.done);
    ROW_NUMBER(r, s->moving.failed);
    ROW_NUMBER(r, s->moving.version);
    ROW_NUMBER(r, s->moving.held_epoch);
    ROW_NUMBER(r, s->moving.plan_again);
    ROW_NUMBER(r, s->moving.even);
    row_text(r, s->moving.why, sizeof(s->moving.why));
}

static void row_partitions(struct row *r, const struct scheduler *s, uint32_t **p)
{
    size_t bytes = ((size_t)1 << s->roster.partition_bits) * sizeof(**p);
    if (r->to == NULL && *p == NULL) {
        *p = mem_zalloc(bytes);
        r->bad |= *p == NULL;
    }
    if (*p != NULL)
        row_bytes(r, *p, bytes);
}

static void row_moves(struct row *r, struct scheduler *s)
{
    struct moving *m = &s->moving;
    uint32_t n = m->n;
    ROW_NUMBER(r, n);
    if (r->to == NULL)
        m->n = 0;
    for (uint32_t i = 0; i < n && !r->bad; i++) {
        if (r->to == NULL &&
            scheduler_grow(&m->list, &m->n, &m->cap, sizeof(*m->list)) == NULL) {
            r->bad = true;
            return;
        }
        struct move *x = &m->list[i];
        ROW_NUMBER(r, x->id);
        ROW_NUMBER(r, x->space);
        ROW_NUMBER(r, x->partition);
        ROW_NUMBER(r, x->from);
        ROW_NUMBER(r, x->to);
        ROW_NUMBER(r, x->handing);
        r->bad |= x->space >= WIRE_SPACES ||
                  x->partition >= (uint32_t)1 << s->roster.partition_bits;
    }
}

static void row_node(struct row *r, struct scheduler *s, struct sched_node *n)
{
    // A server that was told to leave, or a node that missed the end.
    bool stopped = n->stop_at != 0 && (s->phase == SCHEDULER_RUNNING || !n->n.alive);
    ROW_NUMBER(r, n->used);
    ROW_NUMBER(r, n->n.id);
    ROW_NUMBER(r, n->n.role);
    ROW_NUMBER(r, n->n.tables);
    ROW_NUMBER(r, n->n.alive);
    ROW_NUMBER(r, n->n.rank);
    ROW_NUMBER(r, n->n.session);
    ROW_NUMBER(r, n->n.process);
    ROW_NUMBER(r, n->n.loop);
    ROW_NUMBER(r, n->n.pid);
    row_text(r, n->n.host, sizeof(n->n.host));
    row_text(r, n->n.address, sizeof(n->n.address));
    ROW_NUMBER(r, n->ticket);
    ROW_NUMBER(r, n->process);
    ROW_NUMBER(r, n->left);
    ROW_NUMBER(r, n->lost);
    ROW_NUMBER(r, stopped);
    ROW_NUMBER(r, n->holds);
    ROW_NUMBER(r, n->held);
    ROW_NUMBER(r, n->hold_request);
    ROW_NUMBER(r, n->full);
    ROW_NUMBER(r, n->drives);
    r->bad |= n->n.role > WIRE_DRIVER || n->n.tables > WIRE_TABLES_DENSE;
    if (r->to == NULL)
        n->stop_at = stopped;
}

// Only completed generations are kept: a process whose barrier is not complete asks
// again, and brings its bytes again.
static void row_barriers(struct row *r, const struct scheduler *s, struct process *p)
{
    for (int g = 0; g < SCHEDULER_GROUPS; g++) {
        uint64_t reached = p->reached[g];
        if (r->to != NULL && reached > s->groups[g].completed)
            reached = s->groups[g].completed;
        ROW_NUMBER(r, p->known[g]);
        ROW_NUMBER(r, p->base[g]);
        ROW_NUMBER(r, reached);
        if (r->to == NULL)
            p->reached[g] = reached;
    }
}

static void row_process(struct row *r, const struct scheduler *s, struct process *p)
{
    ROW_NUMBER(r, p->used);
    ROW_NUMBER(r, p->process);
    ROW_NUMBER(r, p->role);
    ROW_NUMBER(r, p->rank);
    ROW_NUMBER(r, p->loops);
    ROW_NUMBER(r, p->here);
    ROW_NUMBER(r, p->late);
    ROW_NUMBER(r, p->asked);
    ROW_NUMBER(r, p->fixed);
    ROW_NUMBER(r, p->placed);
    ROW_NUMBER(r, p->draining);
    ROW_NUMBER(r, p->beats);
    row_barriers(r, s, p);
    r->bad |= p->role > WIRE_DRIVER;
}

static void row_collected(struct row *r, struct scheduler *s)
{
    struct collected *c = &s->collected;
    size_t n = c->result.len;
    row_err(r, &c->why);
    ROW_NUMBER(r, n);
    if (r->to != NULL) {
        if (n > 0)
            row_bytes(r, c->result.data, n);
        return;
    }
    buf_free(&c->result);
    c->result = BUF_INIT(WIRE_BYTES_MAX);
    r->bad |= n > r->n || buf_add(&c->result, r->from, r->bad ? 0 : n) != 0;
    r->from += r->bad ? 0 : n;
    r->n -= r->bad ? 0 : n;
}

static void row_forgets(struct row *r, struct scheduler *s)
{
    uint32_t n = s->n_forgets;
    ROW_NUMBER(r, n);
    if (r->to == NULL)
        s->n_forgets = 0;
    for (uint32_t i = 0; i < n && !r->bad; i++) {
        if (r->to == NULL && scheduler_grow(&s->forgets, &s->n_forgets, &s->cap_forgets,
                                            sizeof(*s->forgets)) == NULL) {
            r->bad = true;
            return;
        }
        ROW_NUMBER(r, s->forgets[i].msg.pass);
        ROW_NUMBER(r, s->forgets[i].msg.piece);
        ROW_NUMBER(r, s->forgets[i].version);
    }
}

uint32_t scheduler_rows_count(const struct scheduler *s, enum row_kind kind)
{
    switch (kind) {
    case ROW_OWNERS:
        return s->roster.epoch != 0 ? WIRE_SPACES : 0;
    case ROW_WANTED:
        return s->moving.wanted[WIRE_SPACES - 1] != NULL ? WIRE_SPACES : 0;
    case ROW_NODE:
        return s->n_nodes;
    case ROW_PROCESS:
        return s->n_processes;
    case ROW_GROUP:
        return SCHEDULER_GROUPS;
    default:
        return 1;
    }
}

// Makes room for the entry into which a row is read. Rows of one kind are in ascending
// order.
static bool make_entry(struct scheduler *s, enum row_kind kind, uint32_t i)
{
    if (kind == ROW_NODE && i == s->n_nodes && i < ROSTER_MAX_NODES)
        return scheduler_grow(&s->nodes, &s->n_nodes, &s->cap_nodes, sizeof(*s->nodes)) !=
               NULL;
    if (kind == ROW_PROCESS && i == s->n_processes && i < ROSTER_MAX_NODES)
        return scheduler_grow(&s->processes, &s->n_processes, &s->cap_processes,
                              sizeof(*s->processes)) != NULL;
    if (kind == ROW_OWNERS || kind == ROW_WANTED)
        return i < WIRE_SPACES;
    return i < scheduler_rows_count(s, kind);
}

static void row_any(struct row *r, struct scheduler *s, enum row_kind kind, uint32_t i)
{
    switch (kind) {
    case ROW_META:
        row_meta(r, s);
        return;
    case ROW_CLUSTER:
        row_cluster(r, s);
        return;
    case ROW_GROUP:
        ROW_NUMBER(r, s->groups[i].completed);
        return;
    case ROW_OWNERS:
        row_partitions(r, s, &s->roster.owners[i]);
        return;
    case ROW_WANTED:
        row_partitions(r, s, &s->moving.wanted[i]);
        return;
    case ROW_MOVES:
        row_moves(r, s);
        return;
    case ROW_NODE:
        row_node(r, s, &s->nodes[i]);
        return;
    case ROW_PROCESS:
        row_process(r, s, &s->processes[i]);
        return;
    case ROW_COLLECTED:
        row_collected(r, s);
        return;
    case ROW_FORGETS:
        row_forgets(r, s);
        return;
    default:
        r->bad = true;
    }
}

int scheduler_row_write(struct scheduler *s, enum row_kind kind, uint32_t i,
                        struct buf *to)
{
    struct row r = {.to = to};
    row_any(&r, s, kind, i);
    return r.bad ? TUG_ENOMEM : 0;
}

int scheduler_row_read(struct scheduler *s, enum row_kind kind, uint32_t i,
                       const void *bytes, size_t n)
{
    struct row r = {.from = bytes, .n = n};
    if (!make_entry(s, kind, i))
        return TUG_EDATA;
    row_any(&r, s, kind, i);
    return r.bad || r.n != 0 ? TUG_EDATA : 0;
}
