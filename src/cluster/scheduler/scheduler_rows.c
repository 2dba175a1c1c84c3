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
enum { FORMAT = 7 };

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
    ROW_NUMBER(r, s->o.replicas);
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

static void row_group(struct row *r, struct scheduler *s, uint32_t i)
{
    ROW_NUMBER(r, s->groups[i].completed);
}

static uint32_t groups(const struct scheduler *s)
{
    (void)s;
    return SCHEDULER_GROUPS;
}

// Writes or reads an array that has `each` ids for each partition.
static void row_partitions(struct row *r, const struct scheduler *s, uint32_t each,
                           uint32_t **p)
{
    size_t bytes = ((size_t)each << s->roster.partition_bits) * sizeof(**p);
    if (r->to == NULL && *p == NULL) {
        *p = mem_zalloc(bytes);
        r->bad |= *p == NULL;
    }
    if (*p != NULL)
        row_bytes(r, *p, bytes);
}

static void row_owners(struct row *r, struct scheduler *s, uint32_t i)
{
    row_partitions(r, s, 1, &s->roster.owners[i]);
}

static void row_backups(struct row *r, struct scheduler *s, uint32_t i)
{
    r->bad |= !scheduler_has_chains(s);
    if (!r->bad)
        row_partitions(r, s, s->roster.replicas, &s->roster.backups[i]);
}

static uint32_t spaces_owned(const struct scheduler *s)
{
    return s->roster.epoch != 0 ? WIRE_SPACES : 0;
}

static uint32_t spaces_with_backups(const struct scheduler *s)
{
    return scheduler_has_chains(s) ? spaces_owned(s) : 0;
}

static void row_wanted(struct row *r, struct scheduler *s, uint32_t i)
{
    row_partitions(r, s, s->roster.replicas, &s->moving.wanted[i]);
}

static uint32_t spaces_planned(const struct scheduler *s)
{
    return s->moving.wanted[WIRE_SPACES - 1] != NULL ? WIRE_SPACES : 0;
}

static bool is_space(struct scheduler *s, uint32_t i)
{
    (void)s;
    return i < WIRE_SPACES;
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

static void row_node(struct row *r, struct scheduler *s, uint32_t i)
{
    struct sched_node *n = &s->nodes[i];
    // The node is a server that was told to leave, or it missed the end of the cluster.
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

static uint32_t nodes(const struct scheduler *s)
{
    return s->n_nodes;
}

static bool make_node(struct scheduler *s, uint32_t i)
{
    if (i != s->n_nodes || i >= ROSTER_MAX_NODES)
        return i < s->n_nodes;
    return scheduler_grow(&s->nodes, &s->n_nodes, &s->cap_nodes, sizeof(*s->nodes)) !=
           NULL;
}

// Only completed barriers are kept: a process whose barrier is not complete asks
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

static void row_process(struct row *r, struct scheduler *s, uint32_t i)
{
    struct process *p = &s->processes[i];
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
    row_text(r, p->zone, sizeof(p->zone));
    row_barriers(r, s, p);
    r->bad |= p->role > WIRE_DRIVER;
}

static uint32_t processes(const struct scheduler *s)
{
    return s->n_processes;
}

static bool make_process(struct scheduler *s, uint32_t i)
{
    if (i != s->n_processes || i >= ROSTER_MAX_NODES)
        return i < s->n_processes;
    return scheduler_grow(&s->processes, &s->n_processes, &s->cap_processes,
                          sizeof(*s->processes)) != NULL;
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

static void row_forget(struct row *r, struct scheduler *s, uint32_t i)
{
    struct forget *f = &s->forgets.list[i];
    ROW_NUMBER(r, f->msg.pass);
    ROW_NUMBER(r, f->msg.piece);
    ROW_NUMBER(r, f->version);
}

static uint32_t forgets(const struct scheduler *s)
{
    return s->forgets.n;
}

static void row_unbacked(struct row *r, struct scheduler *s, uint32_t i)
{
    struct unbacked *x = &s->unbacked[i];
    ROW_NUMBER(r, x->table);
    ROW_NUMBER(r, x->space);
    ROW_NUMBER(r, x->drops);
    ROW_NUMBER(r, x->exists);
    row_text(r, x->name, sizeof(x->name));
    r->bad |= x->table >= ROSTER_TABLES || x->space >= WIRE_SPACES;
}

static uint32_t unbacked(const struct scheduler *s)
{
    return s->n_unbacked;
}

// The functions that write and read a kind of row: `only` if the kind has a single row,
// else `each`.
struct kind {
    void (*only)(struct row *r, struct scheduler *s);
    void (*each)(struct row *r, struct scheduler *s, uint32_t i);
    uint32_t (*count)(const struct scheduler *s); // the number of rows for `each`
    // Makes the entry for row i if it is missing, so that the row can be read into it.
    // Returns false if there can be no such entry. It is called for the rows of a kind
    // in ascending order. It is NULL for kinds whose entries all exist already.
    bool (*make)(struct scheduler *s, uint32_t i);
    enum bug bug; // an injected bug that leaves out changes of these rows
};

static const struct kind kinds[ROW_KINDS] = {
    [ROW_META] = {.only = row_meta},
    [ROW_CLUSTER] = {.only = row_cluster, .bug = WITHOUT_ROW_CLUSTER},
    [ROW_GROUP] = {.each = row_group, .count = groups, .bug = WITHOUT_ROW_GROUP},
    [ROW_OWNERS] = {.each = row_owners,
                    .count = spaces_owned,
                    .make = is_space,
                    .bug = WITHOUT_ROW_OWNERS},
    [ROW_WANTED] = {.each = row_wanted,
                    .count = spaces_planned,
                    .make = is_space,
                    .bug = WITHOUT_ROW_WANTED},
    [ROW_MOVES] = {.only = row_moves, .bug = WITHOUT_ROW_MOVES},
    [ROW_PROCESS] = {.each = row_process,
                     .count = processes,
                     .make = make_process,
                     .bug = WITHOUT_ROW_PROCESS},
    [ROW_NODE] = {.each = row_node,
                  .count = nodes,
                  .make = make_node,
                  .bug = WITHOUT_ROW_NODE},
    [ROW_COLLECTED] = {.only = row_collected, .bug = WITHOUT_ROW_COLLECTED},
    [ROW_FORGETS] = {.each = row_forget,
                     .count = forgets,
                     .make = scheduler_forgets_make,
                     .bug = WITHOUT_ROW_FORGETS},
    [ROW_BACKUPS] = {.each = row_backups,
                     .count = spaces_with_backups,
                     .make = is_space,
                     .bug = WITHOUT_ROW_OWNERS},
    [ROW_UNBACKED] = {.each = row_unbacked,
                      .count = unbacked,
                      .make = scheduler_unbacked_make,
                      .bug = WITHOUT_ROW_OWNERS},
};

enum bug scheduler_row_bug(uint32_t kind)
{
    static const enum bug of_leases[LEASES_ROWS] = {
        [LEASES_ROW_DATA] = WITHOUT_ROW_DATA,
        [LEASES_ROW_PASS] = WITHOUT_ROW_PASS,
        [LEASES_ROW_WORK] = WITHOUT_ROW_WORK,
        [LEASES_ROW_PIECES] = WITHOUT_ROW_PIECES,
        [LEASES_ROW_REPORT] = WITHOUT_ROW_REPORT,
    };
    return kind >= ROW_LEASES ? of_leases[kind - ROW_LEASES] : kinds[kind].bug;
}

uint32_t scheduler_rows_count(const struct scheduler *s, enum row_kind kind)
{
    return kinds[kind].count != NULL ? kinds[kind].count(s) : 1;
}

static void row_any(struct row *r, struct scheduler *s, enum row_kind kind, uint32_t i)
{
    if (kinds[kind].only != NULL)
        kinds[kind].only(r, s);
    else
        kinds[kind].each(r, s, i);
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
    bool (*make)(struct scheduler *, uint32_t) = kinds[kind].make;
    if (make != NULL ? !make(s, i) : i >= scheduler_rows_count(s, kind))
        return TUG_EDATA;
    row_any(&r, s, kind, i);
    return r.bad || r.n != 0 ? TUG_EDATA : 0;
}
