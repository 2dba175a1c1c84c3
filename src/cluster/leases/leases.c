// The part of the leases for workers, passes and reports. Pieces (leases_pieces.c),
// shares (leases_shares.c) and the data (leases_data.c) have files of their own.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/leases/leases.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/leases/leases_internal.h"

int leases_open(struct leases **ret, struct err *e)
{
    struct leases *l = mem_zalloc(sizeof(*l));
    if (l == NULL)
        return err_nomem(e, "leases");
    l->reports = BUF_INIT(LEASES_MAX_REPORTS);
    l->schema = BUF_INIT(WIRE_BYTES_MAX);
    l->options = BUF_INIT(WIRE_BYTES_MAX);
    l->done = BUF_INIT(WIRE_BYTES_MAX);
    *ret = l;
    return 0;
}

void leases_close(struct leases *l)
{
    if (l == NULL)
        return;
    leases_free_files(l->files, l->n_files);
    leases_keep_free(l);
    mem_free(l->told_by);
    mem_free(l->workers);
    mem_free(l->order);
    buf_free(&l->schema);
    buf_free(&l->options);
    buf_free(&l->reports);
    buf_free(&l->done);
    mem_free(l);
}

void leases_set_bugs(struct leases *l, uint64_t bugs)
{
    l->bugs = bugs;
}

static struct leases_worker *find_worker(struct leases *l, uint32_t id)
{
    for (uint32_t i = 0; i < l->n_workers; i++)
        if (l->workers[i].id == id)
            return &l->workers[i];
    return NULL;
}

int leases_worker_joined(struct leases *l, uint32_t id)
{
    assert(id != 0);
    if (find_worker(l, id) != NULL)
        return 0;
    TRY(mem_room(&l->workers, &l->cap_workers, l->n_workers + 1));
    l->workers[l->n_workers++] = (struct leases_worker){.id = id, .alive = true};
    return 0;
}

bool leases_by_piece(const struct leases *l)
{
    return l->pass.pass != 0 && l->pass.kind != WIRE_PASS_SHARES;
}

static bool by_share(const struct leases *l)
{
    return l->pass.pass != 0 && l->pass.kind == WIRE_PASS_SHARES;
}

void leases_worker_dead(struct leases *l, uint32_t id)
{
    struct leases_worker *w = find_worker(l, id);
    if (w == NULL || !w->alive)
        return;
    w->alive = false;
    if (w->unsure)
        leases_left_unknown(l);
    leases_return_pieces(l, w);
    if (by_share(l))
        leases_divide_without(l, w);
}

void leases_worker_told(struct leases *l, uint32_t id, uint64_t pass, uint64_t piece)
{
    struct leases_worker *w = find_worker(l, id);
    if (w == NULL)
        return;
    w->told = true;
    w->told_pass = pass;
    w->told_piece = piece;
}

static bool pass_done(const struct leases *l)
{
    if (leases_by_piece(l))
        return leases_pieces_done(l, NULL, NULL);
    return l->all_finished;
}

int leases_pass(struct leases *l, const struct msg_pass *m, struct err *e)
{
    // A clock, and a position in the order of passes, have the pass in their upper 32
    // bits and the batch in their lower 32 bits.
    if (m->pass == 0 || m->pass > UINT32_MAX || m->first > UINT32_MAX ||
        m->examples > INT64_MAX || m->kind > WIRE_PASS_TEST_BEST)
        return err_set(e, TUG_EUSAGE, "pass %" PRIu64 " of kind %u is not possible",
                       m->pass, m->kind);
    if (m->pass < l->pass.pass || (m->pass == l->pass.pass && m->kind <= l->pass.kind)) {
        leases_read_stage(l, m->kind);
        return 0;
    }
    if (l->pass.pass != 0 && !pass_done(l))
        return err_set(e, TUG_EUSAGE,
                       "pass %" PRIu64 " cannot begin: pass %" PRIu64 " is not over",
                       m->pass, l->pass.pass);
    TRY(leases_check_data(l, m, e));
    TRY(leases_keep_done(l, m, e));
    if (leases_note_pass(l, m->note) != 0)
        return err_nomem(e, "the note of a pass");
    leases_stage_over(l, m);
    // A worker's last report may arrive after its pass is over, so some reports may be left.
    buf_clear(&l->reports);
    l->n_reports = 0;
    l->pass = *m;
    // These texts point into the message, which is not valid after this call.
    l->pass.done = l->pass.note = (struct wire_text){0};
    l->prepared = false;
    for (uint32_t i = 0; i < l->n_workers; i++)
        l->workers[i].holds =
            // A piece that a worker still holds lies beyond the end of a file, or another
            // worker has finished it.
            false;
    l->examples = leases_by_piece(l) ? m->examples : 0;
    l->all_finished = false;
    if (leases_by_piece(l))
        (void)leases_prepare(l); // on failure, the next request tries again
    else
        leases_divide(l);
    return 0;
}

// The scheduler has answered the worker's reports up to this number, or the one before it
// has: then the reports are in the journal.
static void note_answered(struct leases_worker *w, uint64_t answered)
{
    if (answered > w->reports)
        w->reports = answered;
}

static void answer_worker(struct leases *l, struct leases_worker *w,
                          const struct msg_lease *m, struct msg_leased *ret)
{
    leases_marked(l, w, m->marked);
    if (leases_must_mark(l, w)) {
        ret->what = WIRE_LEASE_MARK;
        ret->save = l->save;
    } else if (leases_marking(l) && !w->holds) {
        // There is nothing to lease: the pass ends when all workers have
        // finished their shares.
        return;
    } else if (leases_by_piece(l))
        leases_ask_piece(l, w, ret);
    else if (by_share(l))
        leases_ask_share(l, w, m, ret);
}

bool leases_ask(struct leases *l, uint32_t id, const struct msg_lease *m,
                struct msg_leased *ret)
{
    *ret = (struct msg_leased){.what = WIRE_LEASE_WAIT, .pass = l->pass.pass};
    if (l->over) {
        ret->what = WIRE_LEASE_OVER;
        return true;
    }
    if (leases_worker_joined(l, id) != 0)
        return true;
    struct leases_worker *w = find_worker(l, id);
    if (!w->alive)
        return true;
    note_answered(w, m->answered);
    if (m->reports > w->reports)
        return false;
    w->unsure = false;
    answer_worker(l, w, m, ret);
    return true;
}

enum leases_turn leases_turn_of(struct leases *l, uint32_t id,
                                const struct msg_piece_done *m)
{
    struct leases_worker *w = find_worker(l, id);
    if (w == NULL || m->number == 0)
        return LEASES_NEXT;
    note_answered(w, m->answered);
    return m->number <= w->reports       ? LEASES_TAKEN
           : m->number == w->reports + 1 ? LEASES_NEXT
                                         : LEASES_AHEAD;
}

// Keeps a report for the driver. Without a journal the driver fetches reports all the time,
// and a report of training is dropped if memory is short: it is used only for the display and
// the mean loss of the pass, and the reported work counts as done without it.
static void keep_report(struct leases *l, struct wire_text report)
{
    if (report.n == 0)
        return;
    if (l->kept != NULL) {
        leases_report_keep(l, report);
    } else if (leases_report_fits(l, report)) {
        (void)buf_add(&l->reports, &report.n, sizeof(report.n));
        (void)buf_add(&l->reports, report.data, report.n);
        l->n_reports++;
    }
}

bool leases_done(struct leases *l, uint32_t id, const struct msg_piece_done *m,
                 bool *ret_forget)
{
    struct leases_worker *w = find_worker(l, id);
    *ret_forget = false;
    bool counts = w != NULL && w->alive && m->pass == l->pass.pass && m->pass != 0;
    if (counts && (leases_scores(l) || l->kept != NULL) &&
        !leases_report_fits(l, m->report))
        return false; // the worker keeps the piece and reports again
    if (w != NULL && m->number == w->reports + 1)
        w->reports++;
    if (!counts)
        return false;
    bool news = leases_by_piece(l) ? leases_piece_done(l, w, m, ret_forget)
                                   : leases_share_done(l, w, m);
    if (news) {
        uint64_t examples = m->examples < UINT32_MAX ? m->examples : UINT32_MAX;
        w->pieces += leases_by_piece(l);
        w->examples += leases_by_piece(l) ? examples : 0;
        if (leases_by_piece(l))
            l->examples += examples;
        else if (m->examples > l->examples)
            // The examples are not added up, because every worker reports the
            // examples of the whole batch.
            l->examples = m->examples;
        keep_report(l, m->report);
    }
    return news;
}

// Moves as many whole reports as fit into `to`, and counts them in *ret_n. Returns false
// if some reports remain.
static bool move_reports(struct leases *l, struct buf *to, uint64_t *ret_n)
{
    size_t at = 0;
    if (l->kept != NULL)
        return leases_move_kept(l, to, ret_n);
    while (l->n_reports > 0) {
        uint32_t n;
        memcpy(&n, l->reports.data + at, sizeof(n));
        if (buf_add(to, l->reports.data + at + sizeof(n), n) != 0)
            break;
        at += sizeof(n) + n;
        l->n_reports--;
        ++*ret_n;
    }
    if (at > 0) {
        memmove(l->reports.data, l->reports.data + at, l->reports.len - at);
        l->reports.len -= at;
    }
    return l->n_reports == 0;
}

void leases_state(struct leases *l, uint64_t pass, struct msg_pass_state *ret,
                  struct buf *reports)
{
    *ret = (struct msg_pass_state){.pass = pass != 0 ? pass : l->pass.pass};
    ret->done = ret->pass != 0 && ret->pass < l->pass.pass;
    ret->data = leases_data_id(l);
    if (ret->pass == l->pass.pass && ret->pass != 0) {
        ret->done = pass_done(l);
        ret->examples = l->examples;
        if (reports != NULL && l->kept != NULL && l->kept->reading < l->pass.kind) {
            const struct stage *s = &l->kept->stages[l->kept->reading];
            ret->done = 1;
            ret->examples = s->examples;
            ret->pieces = ret->pieces_done = s->pieces;
        } else if (leases_by_piece(l)) {
            leases_pieces_done(l, &ret->pieces_done, &ret->pieces);
            ret->dealing = l->buckets != 0 && !l->dealt;
        } else {
            for (uint32_t i = 0; i < l->n_workers; i++) {
                const struct leases_worker *w = &l->workers[i];
                ret->pieces += w->alive && w->taking_part;
                ret->pieces_done += w->alive && w->taking_part && w->finished;
            }
        }
    }
    if (reports != NULL && !move_reports(l, reports, &ret->reports))
        ret->done = 0; // the pass counts as done only when the driver has fetched all
                       // reports
}

void leases_work(const struct leases *l, uint32_t worker, uint32_t *hint,
                 struct leases_work *ret)
{
    *ret = (struct leases_work){0};
    for (uint32_t i = 0; i < l->n_workers; i++) {
        uint32_t at = (*hint + i) % l->n_workers;
        const struct leases_worker *w = &l->workers[at];
        if (w->id != worker)
            continue;
        *hint = at + 1;
        ret->examples = w->examples;
        ret->pieces = w->pieces;
        if (w->alive)
            ret->holds = leases_by_piece(l)
                             ? w->holds
                             : by_share(l) && w->taking_part && !w->finished;
        return;
    }
}

void leases_over(struct leases *l)
{
    l->over = true;
}
