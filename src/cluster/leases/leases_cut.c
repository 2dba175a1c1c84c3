// The pieces in a save that is made during a pass, and passes that continue from one.
//
// Every worker marks the save between two of its pieces, and gets no other piece until
// all have marked it. So the save holds exactly the pieces that each worker had done at
// its mark, each in full. The save does not wait for a worker that joins later. But such
// a worker marks the save before its first piece, as long as the save has not ended,
// because some servers may still have to copy their rows. If a worker died without a
// mark, the save contains its finished pieces, and also its pushes for its unfinished
// piece. Unless another worker has done that piece again before its own mark, the save is
// torn: it holds a piece partly.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "cluster/leases/leases_internal.h"

static void each_piece_of(struct leases *l, uint32_t worker,
                          void (*fn)(struct leases *, struct piece *))
{
    for (uint32_t i = 0; i < leases_trained(l); i++)
        for (uint64_t k = 0; k < l->files[i].made; k++) {
            struct piece *p = &l->files[i].p[k];
            if (p->state != PIECE_DONE || (worker != LEASES_NOBODY && p->had != worker))
                continue;
            fn(l, p);
            leases_changed(l, i, k);
        }
}

static void put_in(struct leases *l, struct piece *p)
{
    (void)l;
    p->in_cut = true;
}

static void take_out(struct leases *l, struct piece *p)
{
    (void)l;
    p->in_cut = p->before; // pieces that were done when the pass was opened are in every
                           // save
}

static void leases_cut_begin(struct leases *l, uint64_t save)
{
    l->save = save;
    l->save_workers = l->n_workers;
    l->save_known = l->save_torn = false;
    each_piece_of(l, LEASES_NOBODY, take_out);
}

bool leases_must_mark(const struct leases *l, const struct leases_worker *w)
{
    if (bug_in(l->bugs, WITHOUT_LATE_MARKS) && l->save_known)
        return false;
    return l->save != 0 && !w->holds && w->marked != l->save;
}

bool leases_marking(const struct leases *l)
{
    return l->save != 0 && !l->save_known;
}

void leases_marked(struct leases *l, struct leases_worker *w, uint64_t save)
{
    if (save == 0 || save != l->save || w->marked == save)
        return;
    w->marked = save;
    each_piece_of(l, (uint32_t)(w - l->workers), put_in);
}

static bool all_marked(const struct leases *l)
{
    uint32_t n = bug_in(l->bugs, WITHOUT_LATE_MARKS) ? l->n_workers : l->save_workers;
    for (uint32_t i = 0; i < n; i++)
        if (l->workers[i].alive && l->workers[i].marked != l->save)
            return false;
    return true;
}

// Adds the finished pieces of workers that died without a mark. The save is torn if it
// lacks a piece that a dead worker left unfinished.
static void take_the_dead(struct leases *l)
{
    for (uint32_t i = 0; i < l->n_workers; i++)
        if (!l->workers[i].alive && l->workers[i].marked != l->save)
            each_piece_of(l, i, put_in);
    for (uint32_t i = 0; i < leases_trained(l); i++)
        for (uint64_t k = 0; k < l->files[i].made; k++)
            l->save_torn |= l->files[i].p[k].left && !l->files[i].p[k].in_cut;
}

static int put_file(const struct file *f, struct buf *scratch, struct buf *to,
                    uint64_t *examples)
{
    uint64_t bytes = (f->made + 7) / 8;
    buf_clear(scratch);
    for (uint64_t i = 0; i < bytes; i++) {
        uint8_t bits = 0;
        for (uint64_t k = 8 * i; k < 8 * i + 8 && k < f->made; k++) {
            bits |= (uint8_t)(f->p[k].in_cut << (k % 8));
            *examples += f->p[k].in_cut ? f->p[k].examples : 0;
        }
        TRY(buf_add(scratch, &bits, 1));
    }
    struct wire_file_done done = {.bits = {scratch->data, (uint32_t)scratch->len}};
    return wire_put_file_done(to, &done);
}

int leases_cut(struct leases *l, uint64_t save, struct msg_cut_state *ret, struct buf *to,
               struct err *e)
{
    struct buf scratch = BUF_INIT(LEASES_MAX_PIECES / 8 + 8);
    int rc = 0;
    if (l->save != save)
        leases_cut_begin(l, save);
    if (!l->save_known && all_marked(l)) {
        take_the_dead(l);
        l->save_known = true;
    }
    *ret = (struct msg_cut_state){
        .save = save, .known = l->save_known, .torn = l->save_torn};
    // Every save has the pieces that were done when the pass was opened, and the examples
    // of these pieces. pass.examples is the number of these examples; the driver has read
    // it from the save that it resumed.
    ret->examples = l->save_known ? l->pass.examples : 0;
    // No piece was handed out since the pass was opened, so the save has only the pieces
    // that were done at that time.
    if (l->save_known && !l->prepared)
        rc = l->done.len > 0 ? buf_add(to, l->done.data, l->done.len) : 0;
    for (uint32_t i = 0; i < leases_trained(l) && l->save_known && l->prepared && rc == 0;
         i++)
        rc = put_file(&l->files[i], &scratch, to, &ret->examples);
    buf_free(&scratch);
    ret->done = (struct wire_text){to->data, (uint32_t)to->len};
    return rc == 0 ? 0
                   : err_set(e, TUG_ENOMEM,
                             "a save cannot name that many pieces; make them larger");
}

// ---------------------------------------------------------------- resumed passes

// Checks a list of finished pieces: one bit stands for one piece, and a list with more
// bits than pieces can exist is refused.
static int check_done(const struct leases *l, struct wire_text list, struct err *e)
{
    struct wire_file_done f;
    uint64_t pieces = 0;
    uint32_t n = 0;
    int more;
    for (; (more = wire_next_file_done(&list, &f)) == 1; n++)
        pieces += 8 * (uint64_t)f.bits.n;
    if (more != 0 || pieces > LEASES_MAX_PIECES + 8 * (uint64_t)n ||
        (l->have_data && n > leases_trained(l)))
        return err_set(e, TUG_EDATA, "the list of finished pieces is inconsistent");
    return 0;
}

int leases_keep_done(struct leases *l, const struct msg_pass *m, struct err *e)
{
    TRY(check_done(l, m->done, e));
    buf_clear(&l->done);
    if (m->done.n > 0 && buf_add(&l->done, m->done.data, m->done.n) != 0)
        return err_nomem(e, "the pieces of a pass that are done");
    return 0;
}

struct wire_text leases_done_of(const struct leases *l, uint32_t file)
{
    assert(file < l->n_files);
    struct wire_text list = {l->done.data, (uint32_t)l->done.len};
    struct wire_file_done f = {0};
    for (uint32_t i = 0; i <= file; i++)
        if (wire_next_file_done(&list, &f) != 1)
            return (struct wire_text){0};
    return f.bits;
}
