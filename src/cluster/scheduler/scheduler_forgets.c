// Finished pieces: for each of them, servers remember which pushes they have applied, until
// the scheduler tells them to forget the piece.
//
// A server may forget a piece once no more of its pushes can come. So FORGET waits until
// all servers have a roster that lists the deaths from before the piece was done. After a
// restart it also waits for the workers that may have got the piece from the previous
// scheduler (leases_may_push): each worker tells in JOIN which piece it has, or is declared
// dead.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "cluster/scheduler/scheduler_internal.h"

// Most places that a journal can have, far above the number of pieces that are finished
// while the workers join again.
enum { FORGETS_MAX = 1 << 22 };

static void note(struct scheduler *s, uint32_t i)
{
    struct forgets *f = &s->forgets;
    if (s->keep == NULL || f->list[i].changed)
        return;
    f->list[i].changed = true;
    f->changed[f->n_changed++] = i;
}

static int make_room(struct forgets *f, uint32_t n)
{
    uint32_t had = f->cap;
    TRY(mem_room(&f->list, &f->cap, n));
    memset(f->list + had, 0, (f->cap - had) * sizeof(*f->list));
    return mem_room(&f->changed, &f->cap_changed, f->cap);
}

int scheduler_forgets_room(struct scheduler *s)
{
    const struct forgets *f = &s->forgets;
    if (f->n == FORGETS_MAX && f->used == f->n)
        return TUG_ENOMEM;
    return make_room(&s->forgets, f->n + 1);
}

void scheduler_forgets_free(struct scheduler *s)
{
    mem_free(s->forgets.list);
    mem_free(s->forgets.changed);
}

void scheduler_forgets_add(struct scheduler *s, uint64_t pass, uint64_t piece)
{
    struct forgets *f = &s->forgets;
    uint32_t i = f->free_from;
    while (i < f->n && f->list[i].msg.pass != 0)
        i++;
    f->list[i].msg = (struct msg_forget){.pass = pass, .piece = piece};
    f->list[i].version = leases_may_push(s->leases, pass, piece)
                             ? FORGET_HELD
                             : s->roster.version + s->changed;
    f->free_from = i + 1;
    f->n += i == f->n;
    f->used++;
    note(s, i);
}

static void trim(struct forgets *f)
{
    while (f->n > 0 && f->list[f->n - 1].msg.pass == 0)
        f->n--;
    if (f->free_from > f->n)
        f->free_from = f->n;
}

static void take_out(struct scheduler *s, uint32_t i)
{
    struct forgets *f = &s->forgets;
    f->list[i].msg = (struct msg_forget){0};
    f->list[i].version = 0;
    f->used--;
    if (i < f->free_from)
        f->free_from = i;
    note(s, i);
}

// Returns the newest version of the roster that all living servers have acknowledged.
static uint64_t known_to_servers(const struct scheduler *s)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        if (n->n.role == WIRE_SERVER && n->n.alive && n->roster_version < least)
            least = n->roster_version;
    }
    return least;
}

// Counts deaths from now on for a piece that was held: the worker that may have pushed it
// has asked for work since, or has died.
static void let_go(struct scheduler *s, uint32_t i)
{
    struct forget *x = &s->forgets.list[i];
    if (x->version != FORGET_HELD ||
        leases_may_push(s->leases, x->msg.pass, x->msg.piece))
        return;
    x->version = s->roster.version + s->changed;
    note(s, i);
}

void scheduler_forgets_send(struct scheduler *s)
{
    struct forgets *f = &s->forgets;
    uint64_t known = f->used > 0 ? known_to_servers(s) : 0;
    bool all_held = f->used > 0 && leases_may_push(s->leases, 0, 0);
    for (uint32_t i = 0; i < f->n && f->used > 0; i++) {
        struct forget *x = &f->list[i];
        if (!all_held)
            let_go(s, i);
        if (x->msg.pass == 0 || x->version == FORGET_HELD || x->version > known)
            continue;
        x->msg.generation = s->generation;
        for (uint32_t k = 0; k < s->n_nodes; k++)
            if (s->nodes[k].n.role == WIRE_SERVER)
                scheduler_send(s, s->nodes[k].link, MSG_FORGET, 0, &x->msg);
        take_out(s, i);
    }
    trim(f);
}

bool scheduler_forgets_make(struct scheduler *s, uint32_t i)
{
    struct forgets *f = &s->forgets;
    if (i >= FORGETS_MAX || (i >= f->n && make_room(f, i + 1) != 0))
        return false;
    f->n = i >= f->n ? i + 1 : f->n;
    return true;
}

void scheduler_forgets_restored(struct scheduler *s)
{
    struct forgets *f = &s->forgets;
    trim(f);
    f->used = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        f->used += f->list[i].msg.pass != 0;
        f->list[i].kept = f->list[i].msg.pass != 0;
    }
    f->free_from = 0;
}

void scheduler_forgets_hold(struct scheduler *s)
{
    for (uint32_t i = 0; i < s->forgets.n; i++)
        if (s->forgets.list[i].msg.pass != 0) {
            s->forgets.list[i].version = FORGET_HELD;
            note(s, i);
        }
}
