// Shares: batches are divided among the workers of a pass, and divided again when one of
// them dies.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/leases/leases_internal.h"

// Numbers the slots by ascending node ids, so that they do not depend on which worker
// asked first.
static void give_slots(struct leases *l)
{
    l->slots = 0;
    for (uint32_t i = 0; i < l->n_workers; i++) {
        struct leases_worker *w = &l->workers[i];
        if (!w->alive || !w->taking_part)
            continue;
        w->slot = 0;
        w->finished = false;
        for (uint32_t k = 0; k < l->n_workers; k++)
            w->slot += l->workers[k].alive && l->workers[k].taking_part &&
                       l->workers[k].id < w->id;
        l->slots++;
    }
    if (l->slots == 0)
        return;
    l->view++;
    l->views++;
}

// Makes all living workers take part in the pass.
static void take_all(struct leases *l)
{
    for (uint32_t i = 0; i < l->n_workers; i++)
        l->workers[i].taking_part = l->workers[i].alive;
    give_slots(l);
}

void leases_divide(struct leases *l)
{
    l->views = 0;
    for (uint32_t i = 0; i < l->n_workers; i++) {
        l->workers[i].next_report = 0;
        l->workers[i].view_due = false;
    }
    take_all(l);
}

static void tell_all(struct leases *l)
{
    for (uint32_t i = 0; i < l->n_workers; i++)
        l->workers[i].view_due = l->workers[i].alive && l->workers[i].taking_part &&
                                 !l->workers[i].finished;
}

static void look_for_the_end(struct leases *l)
{
    bool all = l->slots > 0;
    for (uint32_t i = 0; i < l->n_workers; i++)
        all &= !l->workers[i].alive || !l->workers[i].taking_part ||
               l->workers[i].finished;
    l->all_finished |= all;
}

void leases_divide_without(struct leases *l, struct leases_worker *w)
{
    bool mattered = w->taking_part && !w->finished && !l->all_finished;
    w->taking_part = w->view_due = false;
    if (!mattered) {
        if (!l->all_finished)
            look_for_the_end(l); // this worker may have been the last one that the pass
                                 // waited for
        return;
    }
    give_slots(l);
    if (l->slots == 0)
        take_all(l); // workers that joined during the pass repeat it from its beginning
    tell_all(l);
}

void leases_ask_share(struct leases *l, struct leases_worker *w,
                      const struct msg_lease *m, struct msg_leased *ret)
{
    if (l->all_finished)
        return;
    if (l->slots == 0)
        take_all(l); // no worker was alive when the pass was opened
    if (!w->taking_part)
        return;
    if (m->finished == l->pass.pass && (m->view == 0 || m->view == l->view)) {
        w->finished = true;
        w->view_due = false;
        look_for_the_end(l);
        return;
    }
    ret->what = WIRE_LEASE_SHARE;
    ret->view = l->view;
    ret->slot = w->slot;
    ret->slots = l->slots;
    ret->first = l->pass.first;
}

// Takes a report of a share. Returns true if the report is new: reports have ascending
// numbers (`index`).
bool leases_share_done(struct leases *l, struct leases_worker *w,
                       const struct msg_piece_done *m)
{
    (void)l;
    if (!w->taking_part || m->index < w->next_report || m->index == UINT64_MAX)
        return false;
    w->next_report = m->index + 1;
    return true;
}

bool leases_next_view(struct leases *l, uint32_t *ret_worker, struct msg_view *ret)
{
    for (uint32_t i = 0; i < l->n_workers; i++) {
        struct leases_worker *w = &l->workers[i];
        if (!w->view_due)
            continue;
        w->view_due = false;
        *ret_worker = w->id;
        *ret = (struct msg_view){
            .pass = l->pass.pass, .view = l->view, .slot = w->slot, .slots = l->slots};
        return true;
    }
    return false;
}

bool leases_views_again(struct leases *l)
{
    if (l->pass.kind != WIRE_PASS_SHARES || l->views < 2 || l->all_finished)
        return false;
    tell_all(l);
    return true;
}
