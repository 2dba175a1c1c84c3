// Keeps the scheduler's state in a journal (cluster/journal).
//
// A scheduler with a journal sends nothing at once. Messages and the closing of links
// wait until the end of the round of events. Then the rows of the state that have changed
// (scheduler_rows.c) are written as one group, and the messages are sent when the group
// is durable. So the next scheduler knows everything that a node was told, whichever event or
// deadline has caused the message, and a round costs at most one group.
//
// A journal in etcd is durable only after some time. Rounds go on meanwhile, and their
// changes and messages belong to the next group. While it is not known whether another
// scheduler has taken over, only answers to heartbeats are sent: they contain no decision.
//
// If the journal cannot be written, nothing is sent any more and the scheduler finishes
// with that error. The members wait for a scheduler that is started again.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/scheduler/scheduler_keep.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/journal/journal.h"
#include "wire/wire.h"

// The journal is replaced by the current rows when, since it was last replaced, it has
// grown by this many bytes and to this many times its size.
enum { GROW_BYTES = 1 << 20, GROW_TIMES = 4 };
// The most numbers that a scheduler that is thought to be dead may still give
// to sessions and moves.
enum { NUMBERS = 1 << 24 };
// Messages that may wait; further ones are lost, as on the network.
enum { OUT_MAX = 1 << 16 };

// The time after a start in which nodes may come back, besides --dead-timeout: an attempt of
// a member to connect that began before the start may hang for that long (MEMBER_TRY_NS).
static const uint64_t rejoin_ns = 10000000000;

// Each row of a group begins with this head.
struct row_head {
    uint32_t kind, index;
    uint64_t n;
};

// Something that waits until the state is durable: a message, an encoded roster, or
// the closing of the link.
struct outgoing {
    van_link link;
    bool closes;
    uint16_t type;
    uint64_t request;
    struct wire_out frame;
    void *body; // the body of the message, or NULL
    struct encoded_roster *roster;
};

struct kept_rows {
    struct buf *rows; // the rows of one kind, as they are in the journal
    uint32_t n, cap;
};

struct keep {
    struct journal *journal;
    struct kept_rows of[ROW_KINDS];
    struct buf group, row;
    // The barrier generation whose collective result the journal has.
    uint64_t collected;
    uint64_t least_bytes; // size of the journal when it was last replaced
    struct outgoing *out;
    uint32_t n_out, cap_out;
    // How many in `out` wait for the last group; the others wait for the next one.
    uint32_t sealed;
    // The cluster has ended or the journal has failed, so nothing is written any more.
    bool over;
    bool loud;    // false once the journal has failed: messages are dropped
    uint32_t pid; // process id of the scheduler that wrote the state
};

// ---------------------------------------------------------------- delayed messages

static void outgoing_free(struct outgoing *o)
{
    buf_free(&o->frame.head);
    mem_free(o->body);
    scheduler_drop_roster(o->roster);
}

static struct outgoing *add_outgoing(struct scheduler *s, van_link link)
{
    struct keep *k = s->keep;
    struct outgoing *o = scheduler_grow(&k->out, &k->n_out, &k->cap_out, sizeof(*o));
    if (o != NULL)
        *o = (struct outgoing){.link = link};
    return o;
}

// Returns whether the message may be sent although a group is not durable: it says that
// the scheduler has heard a heartbeat, and no decision.
static bool says_nothing(const struct keep *k, uint16_t type, const void *msg)
{
    return type == MSG_HEARTBEAT_OK && ((const struct msg_heartbeat_ok *)msg)->known &&
           k->loud && !k->over && journal_speaks(k->journal);
}

// A message for which memory is short is lost, as on the network, and is asked for again.
void scheduler_keep_send(struct scheduler *s, van_link link, uint16_t type,
                         uint64_t request, const void *msg)
{
    if (says_nothing(s->keep, type, msg)) {
        (void)van_send(s->van, link, type, request, msg, NULL);
        return;
    }
    struct outgoing *o = s->keep->n_out < OUT_MAX ? add_outgoing(s, link) : NULL;
    if (o == NULL)
        return;
    o->type = type;
    o->request = request;
    o->frame = WIRE_OUT_INIT;
    bool ok = wire_encode(&o->frame, type, request, msg, false) == 0;
    if (ok && o->frame.body_bytes > 0) {
        o->body = mem_alloc(o->frame.body_bytes);
        ok = o->body != NULL;
        if (ok)
            wire_copy_body(&o->frame, o->body);
    }
    if (!ok) {
        outgoing_free(o);
        s->keep->n_out--;
    }
}

void scheduler_keep_send_roster(struct scheduler *s, van_link link, uint64_t request,
                                struct encoded_roster *x)
{
    struct outgoing *o = s->keep->n_out < OUT_MAX ? add_outgoing(s, link) : NULL;
    if (o == NULL) {
        scheduler_drop_roster(x);
        return;
    }
    o->type = MSG_ROSTER;
    o->request = request;
    o->roster = x;
}

void scheduler_keep_close_link(struct scheduler *s, van_link link)
{
    struct outgoing *o = add_outgoing(s, link);
    if (o != NULL)
        o->closes = true;
    else
        van_close_link(s->van, link);
}

static void send_frame(struct scheduler *s, const struct outgoing *o)
{
    struct wire_frame f;
    union wire_any any;
    const char *bytes = o->frame.head.data;
    const unsigned char *head = (const unsigned char *)bytes;
    if (wire_frame_read(head, &f, NULL) == 0 &&
        wire_decode(head, &f, bytes + WIRE_FRAME_BYTES, &any, NULL) == 0 &&
        (o->body == NULL || wire_body(&f, o->body, &any, NULL) == 0))
        (void)van_send(s->van, o->link, o->type, o->request, &any, NULL);
}

static void send_one(struct scheduler *s, struct outgoing *o)
{
    if (o->closes) {
        van_close_link(s->van, o->link);
    } else if (o->roster != NULL) {
        const struct van_release release = {scheduler_drop_roster, o->roster};
        (void)van_send(s->van, o->link, o->type, o->request, &o->roster->msg, &release);
        o->roster = NULL;
    } else {
        send_frame(s, o);
    }
}

// Sends the first n messages, or drops them.
static void send_first(struct scheduler *s, uint32_t n, bool loud)
{
    struct keep *k = s->keep;
    for (uint32_t i = 0; i < n; i++) {
        if (loud)
            send_one(s, &k->out[i]);
        outgoing_free(&k->out[i]);
    }
    k->n_out -= n;
    k->sealed = 0;
    if (n > 0 && k->n_out > 0)
        memmove(k->out, k->out + n, k->n_out * sizeof(*k->out));
}

static void send_all(struct scheduler *s, bool loud)
{
    send_first(s, s->keep->n_out, loud);
}

// ------------------------------------------------------------------- changed rows

static int add_row(struct keep *k, uint32_t kind, uint32_t i)
{
    const struct row_head head = {kind, i, k->row.len};
    TRY(buf_add(&k->group, &head, sizeof(head)));
    return buf_add(&k->group, k->row.data, k->row.len);
}

// Adds a row to the group if the journal's copy differs or if `all` is set.
static int keep_row(struct scheduler *s, enum row_kind kind, uint32_t i, bool all)
{
    struct keep *k = s->keep;
    struct kept_rows *of = &k->of[kind];
    if (kind == ROW_COLLECTED && !all &&
        k->collected == s->groups[WIRE_GROUP_WORKERS].completed)
        return 0; // the result has up to a megabyte, so it is not compared each time
    if (i == of->n) {
        struct buf *row = scheduler_grow(&of->rows, &of->n, &of->cap, sizeof(*of->rows));
        if (row == NULL)
            return TUG_ENOMEM;
        *row = BUF_INIT(JOURNAL_GROUP_MAX);
    }
    struct buf *had = &of->rows[i];
    buf_clear(&k->row);
    TRY(scheduler_row_write(s, kind, i, &k->row));
    if (!all && had->len == k->row.len && memcmp(had->data, k->row.data, k->row.len) == 0)
        return 0;
    buf_clear(had);
    TRY(buf_add(had, k->row.data, k->row.len));
    return add_row(k, kind, i);
}

// Returns whether the changes of these rows are not kept, because of an injected bug.
static bool left_out(const struct scheduler *s, uint32_t kind, bool all)
{
    static const uint8_t bugs[ROW_LEASES + LEASES_ROWS] = {
        [ROW_CLUSTER] = WITHOUT_ROW_CLUSTER,
        [ROW_GROUP] = WITHOUT_ROW_GROUP,
        [ROW_OWNERS] = WITHOUT_ROW_OWNERS,
        [ROW_WANTED] = WITHOUT_ROW_WANTED,
        [ROW_MOVES] = WITHOUT_ROW_MOVES,
        [ROW_PROCESS] = WITHOUT_ROW_PROCESS,
        [ROW_NODE] = WITHOUT_ROW_NODE,
        [ROW_COLLECTED] = WITHOUT_ROW_COLLECTED,
        [ROW_FORGETS] = WITHOUT_ROW_FORGETS,
        [ROW_LEASES + LEASES_ROW_DATA] = WITHOUT_ROW_DATA,
        [ROW_LEASES + LEASES_ROW_PASS] = WITHOUT_ROW_PASS,
        [ROW_LEASES + LEASES_ROW_WORK] = WITHOUT_ROW_WORK,
        [ROW_LEASES + LEASES_ROW_PIECES] = WITHOUT_ROW_PIECES,
        [ROW_LEASES + LEASES_ROW_REPORT] = WITHOUT_ROW_REPORT,
    };
    return !all && bugs[kind] != NO_BUG && bug_in(s->o.bugs, bugs[kind]);
}

struct adding {
    struct scheduler *s;
    bool all;
};

static int add_lease_row(void *ctx, enum leases_row kind)
{
    const struct adding *a = ctx;
    if (left_out(a->s, ROW_LEASES + kind, a->all))
        return 0;
    return add_row(a->s->keep, ROW_LEASES + kind, 0);
}

static int collect_rows(struct scheduler *s, bool all)
{
    struct keep *k = s->keep;
    buf_clear(&k->group);
    for (enum row_kind kind = ROW_META; kind < ROW_KINDS; kind++)
        for (uint32_t i = 0; i < scheduler_rows_count(s, kind) && !left_out(s, kind, all);
             i++)
            TRY(keep_row(s, kind, i, all));
    k->collected = s->groups[WIRE_GROUP_WORKERS].completed;
    return leases_rows(s->leases, all, &k->row, add_lease_row, &(struct adding){s, all});
}

static int keep_all(struct scheduler *s, struct err *e)
{
    struct keep *k = s->keep;
    if (collect_rows(s, true) != 0)
        return err_nomem(e, "the journal of the scheduler");
    TRY(journal_replace(k->journal, k->group.data, k->group.len, e));
    k->least_bytes = journal_bytes(k->journal);
    return 0;
}

static int keep_changes(struct scheduler *s, struct err *e)
{
    struct keep *k = s->keep;
    uint64_t bytes = journal_bytes(k->journal);
    if (bytes > k->least_bytes + GROW_BYTES && bytes > GROW_TIMES * k->least_bytes)
        return keep_all(s, e);
    if (collect_rows(s, false) != 0)
        return err_nomem(e, "the journal of the scheduler");
    if (k->group.len == 0)
        return 0;
    return journal_commit(k->journal, k->group.data, k->group.len, e);
}

// The journal has failed: this scheduler sends no more messages.
static void keep_failed(struct scheduler *s, const struct err *why)
{
    struct keep *k = s->keep;
    k->over = true;
    k->loud = false;
    if (!s->finished)
        s->end = *why;
    s->finished = true;
    s->phase = SCHEDULER_ENDING;
    send_all(s, false);
}

// The cluster has ended: a later scheduler begins a new one.
static void keep_nothing(struct scheduler *s)
{
    struct keep *k = s->keep;
    struct err why = {0};
    k->over = true;
    k->loud = journal_wait(k->journal, &why) == 0;
    if (k->loud && journal_replace(k->journal, "", 0, &why) == 0)
        (void)journal_wait(k->journal, &why);
    send_all(s, k->loud);
}

void scheduler_keep_tick(struct scheduler *s)
{
    struct keep *k = s->keep;
    struct err why = {0};
    if (k == NULL)
        return;
    if (k->over) {
        send_all(s, k->loud);
        return;
    }
    int ready = journal_ready(k->journal, &why);
    if (ready == 1 && s->finished) {
        keep_nothing(s);
        return;
    }
    if (ready == 1) {
        send_first(s, k->sealed, true);
        ready = keep_changes(s, &why);
        k->sealed = k->n_out;
        if (ready == 0)
            ready = journal_ready(k->journal, &why);
    }
    if (ready < 0)
        keep_failed(s, &why);
    else if (ready == 1)
        send_all(s, true);
    else if (s->finished)
        keep_nothing(s);
}

// ----------------------------------------------------------------- reading the state

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
    if (s->roster.epoch == 0 || s->roster.owners[x->space][x->partition] != x->from)
        return "a move's source does not own the partition";
    return NULL;
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
    for (uint32_t i = 0; i < s->moving.n && odd == NULL; i++)
        odd = odd_move(s, &s->moving.list[i]);
    if (odd == NULL && s->roster.epoch == 0 &&
        (s->phase == SCHEDULER_RUNNING || s->phase == SCHEDULER_OVER))
        odd = "the cluster runs without a placement";
    return odd;
}

// Restores what follows from the rows.
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
        scheduler_plan_count(s);
    }
    for (uint32_t i = 0; i < m->n; i++)
        scheduler_moves_count(s, &m->list[i], 1);
    if (s->phase >= SCHEDULER_OVER)
        leases_over(s->leases);
    s->views_at = 1; // views were perhaps lost, so they are sent again
    return scheduler_list(s);
}

static int restore(struct scheduler *s, struct err *e)
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

int scheduler_keep_open(struct scheduler *s, struct err *e)
{
    if (s->o.journal == NULL)
        return 0;
    struct keep *k = mem_zalloc(sizeof(*k));
    if (k == NULL)
        return err_nomem(e, "the journal of the scheduler");
    s->keep = k;
    k->journal = s->o.journal;
    k->loud = true;
    k->group = k->row = BUF_INIT(JOURNAL_GROUP_MAX);
    if (leases_keep(s->leases) != 0)
        return err_nomem(e, "the journal of the scheduler");
    leases_set_merge(s->leases, s->o.merge);
    TRY(restore(s, e));
    s->roster.generation = ++s->generation;
    TRY(keep_all(s, e));
    return journal_wait(k->journal, e);
}

void scheduler_keep_close(struct scheduler *s)
{
    struct keep *k = s->keep;
    if (k == NULL)
        return;
    send_all(s, false);
    for (int kind = 0; kind < ROW_KINDS; kind++) {
        for (uint32_t i = 0; i < k->of[kind].n; i++)
            buf_free(&k->of[kind].rows[i]);
        mem_free(k->of[kind].rows);
    }
    buf_free(&k->group);
    buf_free(&k->row);
    mem_free(k->out);
    mem_free(k);
    s->keep = NULL;
}

// Returns whether the node was in the process of the killed scheduler. Processes of other
// machines and containers may have the same number.
static bool was_here(const struct scheduler *s, const struct sched_node *n)
{
    return n->n.role == WIRE_DRIVER && n->n.pid == s->keep->pid &&
           (s->o.host == NULL || strcmp(n->n.host, s->o.host) == 0);
}

// Declares the run's driver dead, since it was a thread of the killed scheduler. The next
// driver opens the same pass again.
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

void scheduler_keep_serve(struct scheduler *s)
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
    s->rejoin_until = s->now + s->o.dead_timeout_ns + rejoin_ns;
    m->planned_at = m->told_at = m->look_at = s->now;
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
