// Data, passes and leases: what leases.h decides, carried to and fro.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cluster/scheduler_internal.h"

static void answer(struct scheduler *s, const struct node *n, uint64_t request, int rc,
                   const struct err *e)
{
    if (rc == 0)
        scheduler_send(s, n->link, MSG_OK, request, &(struct msg_ok){0});
    else
        scheduler_refuse(s, n->link, request, rc, e->text);
}

static void data(struct scheduler *s, struct node *n, const struct van_message *m)
{
    char name[ROSTER_NAME_MAX];
    struct err e = {0};
    int rc = leases_data(s->leases, scheduler_name(n, name), &m->m->data, &e);
    answer(s, n, m->request, rc, &e);
}

static void schema(struct scheduler *s, struct node *n, const struct van_message *m)
{
    struct err e = {0};
    answer(s, n, m->request, leases_schema(s->leases, &m->m->schema, &e), &e);
}

static void data_wanted(struct scheduler *s, struct node *n, const struct van_message *m)
{
    struct buf files = BUF_INIT(WIRE_BYTES_MAX);
    struct msg_data_is is;
    if (leases_data_is(s->leases, &m->m->data_wanted, &is, &files) == 0)
        scheduler_send(s, n->link, MSG_DATA_IS, m->request, &is);
    buf_free(&files); // without memory: it is asked again
}

static void lease(struct scheduler *s, struct node *n, const struct van_message *m)
{
    struct msg_leased leased = {.what = WIRE_LEASE_WAIT};
    if (s->phase != SCHEDULER_GATHERING)
        leases_ask(s->leases, n->n.id, &m->m->lease, &leased);
    scheduler_send(s, n->link, MSG_LEASED, m->request, &leased);
}

// Servers keep who pushed what of a piece until it is done. They may forget it only when
// they know of all deaths before: else a late push of a worker that was given up, and
// whose piece another has done, would be applied once more.
static void piece_done(struct scheduler *s, struct node *n, const struct van_message *m)
{
    const struct msg_piece_done *done = &m->m->piece_done;
    struct forget *f = scheduler_grow(&s->forgets, &s->n_forgets, &s->cap_forgets,
                                      sizeof(*f));
    if (f == NULL)
        return; // it is reported again
    f->msg.pass = done->pass;
    f->msg.piece = (uint64_t)done->file << 40 | done->index;
    f->version = s->roster.version + s->changed;
    if (!leases_done(s->leases, n->n.id, done))
        s->n_forgets--;
    answer(s, n, m->request, 0, NULL);
}

static void pass_state(struct scheduler *s, struct node *n, uint64_t request,
                       uint64_t pass)
{
    if (request < n->state_request)
        return; // an old question that came late
    if (request != n->state_request || s->state_of != n->n.id) {
        buf_clear(&s->reports);
        leases_state(s->leases, pass, &s->state, &s->reports);
        s->state.report = (struct wire_text){s->reports.data, (uint32_t)s->reports.len};
        s->state_of = n->n.id;
        n->state_request = request;
    }
    scheduler_send(s, n->link, MSG_PASS_STATE, request, &s->state);
}

// A run has one driver: others that share its role look on.
static bool refused_for_driver(struct scheduler *s, const struct node *n,
                               const struct van_message *m)
{
    const struct node *driver = NULL;
    char name[ROSTER_NAME_MAX], other[ROSTER_NAME_MAX], why[ERR_TEXT_MAX];
    for (uint32_t i = 0; i < s->n_nodes && driver == NULL; i++)
        if (s->nodes[i].used && s->nodes[i].n.alive && s->nodes[i].drives)
            driver = &s->nodes[i];
    if (driver == n || (driver == NULL && m->type == MSG_PASS))
        return false;
    if (driver == NULL)
        snprintf(why, sizeof(why), "%s of %s, which has opened no pass",
                 wire_name(m->type), scheduler_name(n, name));
    else
        snprintf(why, sizeof(why), "%s of %s, but %s drives this run", wire_name(m->type),
                 scheduler_name(n, name), scheduler_name(driver, other));
    scheduler_refuse(s, n->link, m->request, TUG_EUSAGE, why);
    return true;
}

static void pass(struct scheduler *s, struct node *n, const struct van_message *m)
{
    struct err e = {0};
    if (s->phase == SCHEDULER_GATHERING)
        return; // it is asked again
    if (refused_for_driver(s, n, m))
        return;
    if (s->phase == SCHEDULER_RUNNING)
        s->driven = n->drives = true;
    if (m->request > n->state_request) {
        int rc = leases_pass(s->leases, &m->m->pass, &e);
        if (rc != 0) {
            answer(s, n, m->request, rc, &e);
            return;
        }
    }
    pass_state(s, n, m->request, m->m->pass.pass);
}

static void cut(struct scheduler *s, struct node *n, const struct van_message *m)
{
    struct buf done = BUF_INIT(WIRE_BYTES_MAX);
    struct msg_cut_state state;
    struct err e = {0};
    if (m->request < n->cut_request)
        return; // an old question that came late must not begin a save again that is over
    if (refused_for_driver(s, n, m))
        return; // the driver's save would begin anew
    n->cut_request = m->request;
    if (m->m->cut.save != s->cut.save)
        s->cut = (struct cut_of){m->m->cut.save, s->roster.version + s->changed,
                                 s->session};
    int rc = leases_cut(s->leases, m->m->cut.save, &state, &done, &e);
    state.roster = s->cut.roster;
    state.newest = s->cut.newest;
    if (rc == 0)
        scheduler_send(s, n->link, MSG_CUT_STATE, m->request, &state);
    else
        answer(s, n, m->request, rc, &e);
    buf_free(&done);
}

bool scheduler_work(struct scheduler *s, struct node *n, const struct van_message *m)
{
    bool worker = n->n.role == WIRE_WORKER, driver = n->n.role == WIRE_DRIVER;
    if (m->type == MSG_DATA && worker)
        data(s, n, m);
    else if (m->type == MSG_SCHEMA && driver)
        schema(s, n, m);
    else if (m->type == MSG_DATA_WANTED && (worker || driver))
        data_wanted(s, n, m);
    else if (m->type == MSG_LEASE && worker)
        lease(s, n, m);
    else if (m->type == MSG_PIECE_DONE && worker)
        piece_done(s, n, m);
    else if (m->type == MSG_PASS && driver)
        pass(s, n, m);
    else if (m->type == MSG_CUT && driver)
        cut(s, n, m);
    else if (m->type == MSG_PASS_WANTED && driver)
        pass_state(s, n, m->request, m->m->pass_wanted.pass);
    else
        return false;
    return true;
}

// The version of the roster that all servers have.
static uint64_t known_to_servers(const struct scheduler *s)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct node *n = &s->nodes[i];
        if (n->n.role == WIRE_SERVER && n->n.alive && n->roster_version < least)
            least = n->roster_version;
    }
    return least;
}

static void send_forgets(struct scheduler *s)
{
    uint64_t known = known_to_servers(s);
    uint32_t n = 0;
    while (n < s->n_forgets && s->forgets[n].version <= known)
        n++;
    for (uint32_t i = 0; i < s->n_nodes && n > 0; i++)
        for (uint32_t k = 0; k < n && s->nodes[i].n.role == WIRE_SERVER; k++)
            scheduler_send(s, s->nodes[i].link, MSG_FORGET, 0, &s->forgets[k].msg);
    for (uint32_t k = n; k < s->n_forgets && n > 0; k++)
        s->forgets[k - n] = s->forgets[k];
    s->n_forgets -= n;
}

// New divisions at once, those of the running pass again and again: nobody acknowledges
// them.
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

uint64_t scheduler_work_tick(struct scheduler *s)
{
    if (s->n_forgets > 0)
        send_forgets(s);
    return send_views(s);
}
