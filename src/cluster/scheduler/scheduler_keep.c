// Keeps the scheduler's state in a journal (cluster/journal).
//
// A scheduler with a journal sends nothing at once. Messages and the closing of links
// wait until the end of the round of events. Then the rows of the state that have changed
// (scheduler_rows.c) are written as one group, and the messages are sent when the group
// is durable. So the next scheduler knows everything that a node was told, whichever event or
// deadline has caused the message, and a round costs at most one group. Leases of pieces
// are an exception (leases_tells_early): a worker gets its next piece at once.
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

#include <string.h>

#include "base/alloc.h"
#include "cluster/journal/journal.h"

// The journal is replaced by the current rows when it has grown by this many bytes, and
// to this many times its size, since it was last replaced.
enum { GROW_BYTES = 1 << 20, GROW_TIMES = 4 };

bool scheduler_keep_speaks(const struct scheduler *s)
{
    return s->keep->state == KEEP_WRITES && journal_speaks(s->keep->journal);
}

void scheduler_keep_send(struct scheduler *s, van_link link, uint16_t type,
                         uint64_t request, const void *msg)
{
    bool confirms = type == MSG_HEARTBEAT_OK &&
                    ((const struct msg_heartbeat_ok *)msg)->known;
    if (confirms && scheduler_keep_speaks(s))
        (void)van_send(s->van, link, type, request, msg, NULL);
    else
        outbox_send(&s->keep->out, link, type, request, msg);
}

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

// Adds the rows of pieces to be forgotten that have changed, or all of them.
static int keep_forgets(struct scheduler *s, bool all)
{
    struct forgets *f = &s->forgets;
    bool left_out = !all && bug_in(s->o.bugs, WITHOUT_ROW_FORGETS);
    uint32_t n = all ? f->n : f->n_changed;
    for (uint32_t k = 0; k < n && !left_out; k++) {
        uint32_t i = all ? k : f->changed[k];
        const struct forget *x = &f->list[i];
        bool writes = x->msg.pass != 0 || (x->kept && !all);
        buf_clear(&s->keep->row);
        if (writes)
            TRY(scheduler_row_write(s, ROW_FORGETS, i, &s->keep->row));
        if (writes)
            TRY(add_row(s->keep, ROW_FORGETS, i));
    }
    for (uint32_t k = 0; k < f->n_changed; k++) {
        struct forget *x = &f->list[f->changed[k]];
        x->changed = false;
        x->kept = x->msg.pass != 0;
    }
    f->n_changed = 0;
    return 0;
}

// Returns whether the changes of these rows are not kept, because of an injected bug.
static bool left_out(const struct scheduler *s, uint32_t kind, bool all)
{
    enum bug bug = scheduler_row_bug(kind);
    return !all && bug != NO_BUG && bug_in(s->o.bugs, bug);
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
    for (enum row_kind kind = ROW_META; kind < ROW_KINDS; kind++) {
        bool skips = kind == ROW_FORGETS || left_out(s, kind, all);
        uint32_t n = skips ? 0 : scheduler_rows_count(s, kind);
        for (uint32_t i = 0; i < n; i++)
            TRY(keep_row(s, kind, i, all));
    }
    TRY(keep_forgets(s, all));
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

// Sends all messages that wait, or drops them if the journal has failed.
static void send_all(struct scheduler *s)
{
    struct keep *k = s->keep;
    if (k->state == KEEP_FAILED)
        outbox_drop(&k->out);
    else
        outbox_release(&k->out, s->van);
}

// The journal has failed: this scheduler sends no more messages.
static void keep_failed(struct scheduler *s, const struct err *why)
{
    struct keep *k = s->keep;
    k->state = KEEP_FAILED;
    if (!s->finished)
        s->end = *why;
    s->finished = true;
    s->phase = SCHEDULER_ENDING;
    outbox_drop(&k->out);
}

// Called when the cluster has ended. Waits until the journal has recorded the end,
// because no later tick may come to record it.
static void keep_end(struct scheduler *s)
{
    struct keep *k = s->keep;
    struct err why = {0};
    int rc = journal_wait(k->journal, &why);
    if (rc == 0)
        rc = keep_changes(s, &why);
    if (rc == 0)
        rc = journal_wait(k->journal, &why);
    k->state = rc == 0 ? KEEP_ENDED : KEEP_FAILED;
    send_all(s);
}

void scheduler_forget(struct scheduler *s)
{
    struct keep *k = s != NULL ? s->keep : NULL;
    struct err why = {0};
    if (k != NULL && k->state == KEEP_ENDED &&
        journal_replace(k->journal, "", 0, &why) == 0)
        (void)journal_wait(k->journal, &why);
}

void scheduler_keep_tick(struct scheduler *s)
{
    struct keep *k = s->keep;
    struct err why = {0};
    if (k == NULL)
        return;
    if (k->state != KEEP_WRITES) {
        send_all(s);
        return;
    }
    int ready = journal_ready(k->journal, &why);
    if (ready == 1) {
        leases_durable(s->leases);
        outbox_release_sealed(&k->out, s->van);
        ready = keep_changes(s, &why);
        outbox_seal(&k->out);
        if (ready == 0)
            ready = journal_ready(k->journal, &why);
    }
    if (ready == 1)
        leases_durable(s->leases);
    if (ready < 0)
        keep_failed(s, &why);
    else if (s->finished)
        keep_end(s);
    else if (ready == 1)
        send_all(s);
}

bool scheduler_cannot_write(const struct scheduler *s)
{
    return s->keep != NULL && s->keep->state == KEEP_FAILED;
}

bool scheduler_is_mute(const struct scheduler *s)
{
    return s->keep != NULL && s->keep->state == KEEP_WRITES &&
           !journal_speaks(s->keep->journal);
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
    k->group = k->row = BUF_INIT(JOURNAL_GROUP_MAX);
    if (leases_keep(s->leases) != 0)
        return err_nomem(e, "the journal of the scheduler");
    leases_set_merge(s->leases, s->o.merge);
    TRY(scheduler_restore(s, e));
    s->roster.generation = ++s->generation;
    TRY(keep_all(s, e));
    return journal_wait(k->journal, e);
}

void scheduler_keep_close(struct scheduler *s)
{
    struct keep *k = s->keep;
    if (k == NULL)
        return;
    for (int kind = 0; kind < ROW_KINDS; kind++) {
        for (uint32_t i = 0; i < k->of[kind].n; i++)
            buf_wipe(&k->of[kind].rows[i]); // one row has the key of sessions
        mem_free(k->of[kind].rows);
    }
    buf_wipe(&k->group);
    buf_wipe(&k->row);
    outbox_free(&k->out);
    mem_free(k);
    s->keep = NULL;
}
