// Invariants of the leases between two calls, in builds with assertions: every piece is
// free, done, or with a living worker, and the counts agree with that.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/leases/leases_internal.h"

#ifndef NDEBUG

#include <assert.h>

#include "base/sampled.h"

bool leases_has_worker(const struct leases *l, uint32_t id)
{
    for (uint32_t i = 0; i < l->n_workers; i++)
        if (l->workers[i].id == id)
            return l->workers[i].alive;
    return false;
}

// A worker holds at most one piece, and only while it is alive: when the worker dies, its
// piece must become free at once, because no report will ever return the piece.
static void held_piece_is_leased(const struct leases *l, const struct leases_worker *w)
{
    if (!w->holds)
        return;
    assert(w->alive && w->knows_file);
    assert(w->file < l->n_files && w->index < l->files[w->file].made);
    const struct piece *p = &l->files[w->file].p[w->index];
    assert(p->state == PIECE_LEASED ||
           (p->state == PIECE_DONE && (l->pass.backups || l->restored)));
}

// No piece is reserved for a worker whose session has ended, because it will not ask for
// pieces.
static void dead_have_nothing(const struct leases_worker *w)
{
    assert(w->alive || (!w->holds && w->reserved == 0));
}

// No two workers have the same id, because the id identifies the pieces of a worker.
static void worker_is_the_only_one(const struct leases *l, uint32_t one)
{
    for (uint32_t i = 0; i < l->n_workers; i++)
        assert(i == one || l->workers[i].id != l->workers[one].id);
}

static void workers_hold(const struct leases *l)
{
    assert(l->n_workers <= l->cap_workers);
    for (uint32_t i = 0; i < l->n_workers; i++) {
        held_piece_is_leased(l, &l->workers[i]);
        dead_have_nothing(&l->workers[i]);
    }
}

// f->holders is the number of workers that read this file. A worker that needs a file
// chooses the file with the fewest holders.
static void holders_are_counted(const struct leases *l, uint32_t file)
{
    uint32_t holders = 0;
    for (uint32_t i = 0; i < l->n_workers; i++)
        holders += l->workers[i].holds && l->workers[i].file == file;
    assert(holders == l->files[file].holders);
}

// A leased piece has one holder, or two if backups are handed out: with no holder, no worker
// would train on it. When a piece is done, the slower of its two workers may still train
// on it. After a restart both may: a third worker, whose lease the scheduler does not know,
// may have done the piece.
static void holders_of_piece_are_counted(const struct leases *l, uint32_t file,
                                         uint64_t index)
{
    const struct piece *p = &l->files[file].p[index];
    uint32_t holders = 0, most = l->pass.backups || l->restored ? 2 : 1;
    for (uint32_t i = 0; i < l->n_workers; i++)
        holders += l->workers[i].holds && l->workers[i].file == file &&
                   l->workers[i].index == index;
    assert(holders == p->holders);
    assert(p->state != PIECE_LEASED || (holders > 0 && holders <= most));
    assert(p->state != PIECE_FREE || holders == 0);
    assert(p->state != PIECE_DONE || holders < most || (l->restored && holders <= most));
}

// f->done counts the finished pieces before the end of a file: a pass is done when
// f->done equals the number of pieces for every file. f->returned counts the free pieces
// of a file that is handed out in order.
static void pieces_are_counted(const struct file *f)
{
    uint64_t done = 0, free = 0;
    for (uint64_t i = 0; i < f->made && i < f->count; i++) {
        done += f->p[i].state == PIECE_DONE;
        free += f->p[i].state == PIECE_FREE;
    }
    assert(f->done == done);
    assert(f->returned == (f->in_order ? free : 0));
}

static void file_holds(const struct leases *l, uint32_t file, uint64_t turn)
{
    const struct file *f = &l->files[file];
    assert(f->made <= f->cap);
    if (!f->in_pass)
        return;
    assert(f->in_order || f->count <= f->made);
    holders_are_counted(l, file);
    if (f->made > 0)
        holders_of_piece_are_counted(l, file, turn % f->made);
    if (sampled_now(turn, f->made))
        pieces_are_counted(f);
}

static uint32_t keeper_of(const struct leases *l, const struct piece *p)
{
    bool kept = p->had != LEASES_NOBODY && l->workers[p->had].alive;
    return kept ? p->had : LEASES_NOBODY;
}

// The count of free pieces reserved for a worker (or for no worker) is exact, and no such
// piece lies before the cursor. The search for a free piece starts at the cursor, and is
// skipped if the count is 0. A wrong cursor or count would therefore hide a piece from
// training.
static void free_pieces_are_found(const struct leases *l, uint32_t whose)
{
    bool nobody = whose == LEASES_NOBODY;
    size_t cursor = nobody ? l->cursor : l->workers[whose].cursor;
    uint64_t reserved = 0;
    for (size_t i = 0; i < l->n_order; i++) {
        const struct piece *p = &l->files[l->order[i].file].p[l->order[i].index];
        if (p->state != PIECE_FREE || keeper_of(l, p) != whose)
            continue;
        assert(i >= cursor);
        reserved++;
    }
    assert(reserved == (nobody ? l->unreserved : l->workers[whose].reserved));
}

// If the pieces of a save are known, every living worker that had joined at the start of
// the save has marked it, because the save's pieces become known with the last mark.
static void save_is_marked(const struct leases *l)
{
    for (uint32_t i = 0; i < l->save_workers && l->save != 0 && l->save_known; i++)
        assert(!l->workers[i].alive || l->workers[i].marked == l->save);
}

// No two workers of a pass of shares have the same slot: otherwise they would train on
// the same examples.
static void shares_hold(const struct leases *l, uint32_t one)
{
    const struct leases_worker *w = &l->workers[one];
    if (l->slots == 0 || !w->alive || !w->taking_part)
        return;
    assert(w->slot < l->slots);
    for (uint32_t i = 0; i < l->n_workers; i++) {
        const struct leases_worker *other = &l->workers[i];
        assert(i == one || !other->alive || !other->taking_part ||
               other->slot != w->slot);
    }
}

static void check_work(struct leases *l, uint64_t turn)
{
    uint32_t one = (uint32_t)(turn % (l->n_workers + 1));
    if (one < l->n_workers) {
        worker_is_the_only_one(l, one);
        shares_hold(l, one);
    }
    if (l->prepared && sampled_now(turn, l->n_order))
        free_pieces_are_found(l, one < l->n_workers ? one : LEASES_NOBODY);
    if (l->prepared && l->n_files > 0)
        file_holds(l, (uint32_t)(turn % l->n_files), turn / l->n_files);
}

void leases_check(struct leases *l)
{
    l->events++;
    assert((l->n_reports == 0) == (l->reports.len == 0));
    assert(l->save_workers <= l->n_workers);
    assert(!l->prepared || (l->have_data && l->pass.kind != WIRE_PASS_SHARES));
    if (!sampled_now(l->events, l->n_workers))
        return;
    workers_hold(l);
    save_is_marked(l);
    check_work(l, l->events);
}

#endif
