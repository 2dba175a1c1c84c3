// Data, passes and leases: receives requests, passes them to the leases (leases.h) and
// sends the answers.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cluster/scheduler/scheduler_internal.h"

static void answer(struct scheduler *s, const struct sched_node *n, uint64_t request,
                   int rc, const struct err *e)
{
    if (rc == 0)
        scheduler_send(s, n->link, MSG_OK, request, &(struct msg_ok){0});
    else
        scheduler_refuse(s, n->link, request, rc, e->text);
}

// Refuses a request that only nodes of another role may send: drivers open passes,
// workers ask for leases. Returns whether it has refused the request.
static bool refused_for_part(struct scheduler *s, const struct sched_node *n,
                             uint64_t request, uint16_t type, enum wire_role role)
{
    char name[ROSTER_NAME_MAX], why[ERR_TEXT_MAX];
    if (n->n.role == role)
        return false;
    snprintf(why, sizeof(why), "%s of %s is refused: only a %s may send it",
             wire_name(type), scheduler_name(n, name), wire_role_name(role));
    scheduler_refuse(s, n->link, request, TUG_EUSAGE, why);
    return true;
}

void scheduler_data_serve(struct scheduler *s, struct sched_node *n, uint64_t request,
                          const struct msg_data *m)
{
    char name[ROSTER_NAME_MAX];
    struct err e = {0};
    if (refused_for_part(s, n, request, MSG_DATA, WIRE_WORKER))
        return;
    int rc = leases_data(s->leases, scheduler_name(n, name), m, &e);
    answer(s, n, request, rc, &e);
}

void scheduler_schema_serve(struct scheduler *s, struct sched_node *n, uint64_t request,
                            const struct msg_schema *m)
{
    struct err e = {0};
    if (!refused_for_part(s, n, request, MSG_SCHEMA, WIRE_DRIVER))
        answer(s, n, request, leases_schema(s->leases, m, &e), &e);
}

void scheduler_data_wanted_serve(struct scheduler *s, struct sched_node *n,
                                 uint64_t request, const struct msg_data_wanted *m)
{
    struct buf files = BUF_INIT(WIRE_BYTES_MAX);
    struct msg_data_is is;
    if (n->n.role != WIRE_DRIVER &&
        refused_for_part(s, n, request, MSG_DATA_WANTED, WIRE_WORKER))
        return;
    if (leases_data_is(s->leases, m, &is, &files) == 0)
        scheduler_send(s, n->link, MSG_DATA_IS, request, &is);
    buf_free(&files); // if memory is short, the worker asks again later
}

void scheduler_lease_serve(struct scheduler *s, struct sched_node *n, uint64_t request,
                           const struct msg_lease *m)
{
    struct msg_leased leased = {.what = WIRE_LEASE_WAIT};
    if (refused_for_part(s, n, request, MSG_LEASE, WIRE_WORKER))
        return;
    n->progress_at = s->now;
    if (s->phase != SCHEDULER_GATHERING && !leases_ask(s->leases, n->n.id, m, &leased))
        return;
    if (leased.what == WIRE_LEASE_MARK)
        leased.saver = s->cut.saver;
    if (leases_tells_early(s->leases, &leased))
        scheduler_send_early(s, n->link, MSG_LEASED, request, &leased);
    else
        scheduler_send(s, n->link, MSG_LEASED, request, &leased);
}

// Takes the report of a finished piece. Until a piece is done, servers remember which
// worker pushed which of its batches. They may forget this only after they have learned
// of all deaths that came before the report: otherwise a late push of a worker that was
// declared dead would be applied although another worker has done its piece again.
void scheduler_piece_done_serve(struct scheduler *s, struct sched_node *n,
                                uint64_t request, const struct msg_piece_done *m)
{
    if (refused_for_part(s, n, request, MSG_PIECE_DONE, WIRE_WORKER))
        return;
    enum leases_turn turn = leases_turn_of(s->leases, n->n.id, m);
    if (turn == LEASES_TAKEN)
        answer(s, n, request, 0, NULL);
    if (turn != LEASES_NEXT)
        return;
    if (scheduler_forgets_room(s) != 0)
        return; // the worker repeats its report
    bool may_forget;
    if (leases_done(s->leases, n->n.id, m, &may_forget))
        n->progress_at = s->now;
    if (may_forget)
        scheduler_forgets_add(s, m->pass, wire_piece(m->file, m->index));
    if (leases_failed(s->leases) == TUG_ENOMEM)
        scheduler_end(s, TUG_EDATA,
                      "the workers' scores of --valid or --test have more bytes than a "
                      "scheduler with --state can keep (48 MB); leave out --state, or "
                      "give fewer examples to score");
    else if (leases_failed(s->leases) != 0)
        scheduler_end(s, TUG_EDATA, "the report of a worker is damaged");
    if (m->number == 0 || leases_turn_of(s->leases, n->n.id, m) == LEASES_TAKEN)
        answer(s, n, request, 0, NULL);
}

static void pass_state(struct scheduler *s, struct sched_node *n, uint64_t request,
                       uint64_t pass)
{
    if (request < n->state_request)
        return; // an old request that arrived late
    if (request != n->state_request || s->state_of != n->n.id) {
        buf_clear(&s->reports);
        leases_state(s->leases, pass, &s->state, &s->reports);
        s->state.report = (struct wire_text){s->reports.data, (uint32_t)s->reports.len};
        s->state_of = n->n.id;
        n->state_request = request;
    }
    scheduler_send(s, n->link, MSG_PASS_STATE, request, &s->state);
}

// Refuses requests of drivers other than the one that drives the run. Returns whether it
// has refused the request.
static bool refused_for_driver(struct scheduler *s, const struct sched_node *n,
                               uint64_t request, uint16_t type)
{
    const struct sched_node *driver = NULL;
    char name[ROSTER_NAME_MAX], other[ROSTER_NAME_MAX], why[ERR_TEXT_MAX];
    for (uint32_t i = 0; i < s->n_nodes && driver == NULL; i++)
        if (s->nodes[i].used && s->nodes[i].n.alive && s->nodes[i].drives)
            driver = &s->nodes[i];
    if (driver == n || (driver == NULL && type == MSG_PASS))
        return false;
    if (driver == NULL)
        snprintf(why, sizeof(why), "%s was sent by %s, which has opened no pass",
                 wire_name(type), scheduler_name(n, name));
    else
        snprintf(why, sizeof(why), "%s was sent by %s, but %s drives this run",
                 wire_name(type), scheduler_name(n, name), scheduler_name(driver, other));
    scheduler_refuse(s, n->link, request, TUG_EUSAGE, why);
    return true;
}

void scheduler_pass_serve(struct scheduler *s, struct sched_node *n, uint64_t request,
                          const struct msg_pass *m)
{
    struct err e = {0};
    if (refused_for_part(s, n, request, MSG_PASS, WIRE_DRIVER))
        return;
    if (s->phase == SCHEDULER_GATHERING)
        return; // the driver asks again
    if (refused_for_driver(s, n, request, MSG_PASS))
        return;
    if (s->phase == SCHEDULER_RUNNING)
        s->driven = n->drives = true;
    if (request > n->state_request) {
        int rc = leases_pass(s->leases, m, &e);
        if (rc != 0) {
            answer(s, n, request, rc, &e);
            return;
        }
    }
    pass_state(s, n, request, m->pass);
}

void scheduler_cut_serve(struct scheduler *s, struct sched_node *n, uint64_t request,
                         const struct msg_cut *m)
{
    struct buf done = BUF_INIT(WIRE_BYTES_MAX);
    struct msg_cut_state state;
    struct err e = {0};
    if (refused_for_part(s, n, request, MSG_CUT, WIRE_DRIVER))
        return;
    if (request < n->cut_request)
        return; // an old request that arrived late must not restart a save that is over
    if (refused_for_driver(s, n, request, MSG_CUT))
        return; // a second driver must not restart the driver's save
    n->cut_request = request;
    if (m->save != s->cut.save)
        s->cut = (struct cut_of){m->save, s->roster.version + s->changed, s->session,
                                 n->n.session};
    int rc = leases_cut(s->leases, m->save, &state, &done, &e);
    state.roster = s->cut.roster;
    state.newest = s->cut.newest;
    if (rc == 0)
        scheduler_send(s, n->link, MSG_CUT_STATE, request, &state);
    else
        answer(s, n, request, rc, &e);
    buf_free(&done);
}

void scheduler_pass_wanted_serve(struct scheduler *s, struct sched_node *n,
                                 uint64_t request, const struct msg_pass_wanted *m)
{
    if (!refused_for_part(s, n, request, MSG_PASS_WANTED, WIRE_DRIVER))
        pass_state(s, n, request, m->pass);
}

// Sends new views at once. Views are not acknowledged, so the views of the running pass
// are repeated.
static uint64_t send_views(struct scheduler *s)
{
    if (s->views_at != 0 && s->now >= s->views_at + SCHEDULER_RESEND_NS)
        s->views_at = leases_views_again(s->leases) ? s->now : 0;
    uint32_t worker;
    struct msg_view view;
    while (leases_next_view(s->leases, &worker, &view)) {
        s->views_at = s->now > 0 ? s->now : 1;
        for (uint32_t i = 0; i < s->n_nodes; i++)
            if (s->nodes[i].n.id == worker)
                scheduler_send(s, s->nodes[i].link, MSG_VIEW, 0, &view);
    }
    return s->views_at == 0 ? VAN_NEVER : s->views_at + SCHEDULER_RESEND_NS;
}

struct wire_text scheduler_note_of_pass(const struct scheduler *s)
{
    return leases_note(s->leases);
}

bool scheduler_over(const struct scheduler *s)
{
    return s->phase >= SCHEDULER_OVER;
}

uint64_t scheduler_work_tick(struct scheduler *s)
{
    scheduler_forgets_send(s);
    return send_views(s);
}
