// Pieces: chooses the piece that a worker gets next.
//
// A worker first gets free pieces that it had in the previous pass, then free pieces that
// no living worker had. Then it gets a piece of the worker that has the most pieces of
// its own left, as long as that worker has more than one. So no worker idles while
// another has many pieces, and a worker's last piece is left to it, since it may hold
// that piece in memory. With backups an idle worker gets such a last piece, too, and when
// there is none, the unfinished piece that was leased first.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/leases/leases_internal.h"

// Returns the worker for which a piece is reserved: its previous holder, if alive.
static struct leases_worker *keeper(struct leases *l, const struct piece *p)
{
    if (p->had == LEASES_NOBODY || !l->workers[p->had].alive)
        return NULL;
    return &l->workers[p->had];
}

static int by_key(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

// Returns the key by which the pieces of a pass are sorted. Keys are random, because
// models learn less if all passes have the same order. But pieces of a compressed file
// that no worker has in memory keep the order of the file, spread evenly over the pass,
// so that a worker reads the file from its start only once.
static uint64_t piece_key_of(struct leases *l, uint32_t file, uint64_t index)
{
    const struct file *f = &l->files[file];
    const struct piece *p = &f->p[index];
    uint64_t base = random_u64(l->pass.seed, l->pass.pass, file);
    if (!f->compressed || (p->held && keeper(l, p) != NULL))
        return random_u64(base, 0, index);
    uint64_t step = UINT64_MAX / f->count;
    return index * step + base % step;
}

static size_t count_known(const struct leases *l)
{
    size_t n = 0;
    for (uint32_t i = 0; i < l->n_files; i++)
        n += l->files[i].count != LEASES_UNKNOWN ? l->files[i].count : 0;
    return n;
}

static bool make_piece(struct file *f)
{
    if (f->made == f->cap) {
        uint64_t cap = f->cap == 0 ? 64 : 2 * f->cap;
        struct piece *more = cap > LEASES_MAX_PIECES
                                 ? NULL
                                 : mem_realloc_array(f->p, cap, sizeof(*f->p));
        if (more == NULL)
            return false;
        f->p = more;
        f->cap = cap;
    }
    f->p[f->made++] = (struct piece){.had = LEASES_NOBODY, .state = PIECE_FREE};
    return true;
}

void leases_list_file(struct leases *l, uint32_t file)
{
    struct file *f = &l->files[file];
    bool waits = l->buckets != 0 && f->use == FILE_TRAIN && !leases_deals(l, file) &&
                 !l->dealt;
    for (uint64_t i = 0; i < f->count && !f->in_order && !waits; i++) {
        if (f->p[i].before)
            continue;
        struct leases_worker *w = keeper(l, &f->p[i]);
        if (f->p[i].state == PIECE_FREE && w != NULL)
            w->reserved++;
        else if (f->p[i].state == PIECE_FREE)
            l->unreserved++;
        l->order[l->n_order++] = (struct place){piece_key_of(l, file, i), file,
                                                (uint32_t)i};
    }
}

// Marks all pieces of a file as done: the pass trains on the buckets into which the
// file's examples were dealt.
static void skip_file(struct file *f)
{
    f->in_order = false;
    f->holders = 0;
    f->returned = 0;
    f->done = f->count;
    for (uint64_t i = 0; i < f->made; i++) {
        f->p[i].state = PIECE_DONE;
        f->p[i].left = f->p[i].before = f->p[i].in_cut = false;
        f->p[i].holders = 0;
        f->p[i].examples = 0;
    }
}

static int begin_file(struct leases *l, uint32_t file)
{
    struct file *f = &l->files[file];
    bool deals = leases_deals(l, file);
    struct wire_text done = deals || leases_scores(l) ? (struct wire_text){0}
                                                      : leases_done_of(l, file);
    f->in_order = f->count == LEASES_UNKNOWN;
    f->done = f->returned = 0;
    f->holders = 0;
    if (f->in_order)
        f->made = 0;
    for (uint64_t i = 0; f->in_order && i < 8 * (uint64_t)done.n; i++)
        if (!make_piece(f))
            return TUG_ENOMEM;
    for (uint64_t i = 0; i < f->made; i++) {
        bool before = i / 8 < done.n && ((uint8_t)done.data[i / 8] >> (i % 8) & 1) != 0;
        f->p[i].state = before ? PIECE_DONE : PIECE_FREE;
        f->p[i].before = f->p[i].in_cut = before;
        f->p[i].left = false;
        f->p[i].holders = 0;
        f->p[i].examples = 0;
        f->done += before && i < f->count;
        f->returned += f->in_order && !before;
    }
    leases_list_file(l, file);
    return 0;
}

static enum file_use use_of(const struct leases *l)
{
    return !leases_scores(l)                 ? FILE_TRAIN
           : l->pass.kind == WIRE_PASS_VALID ? FILE_VALID
                                             : FILE_TEST;
}

int leases_prepare(struct leases *l)
{
    if (!l->have_data)
        return 0;
    size_t n = count_known(l);
    struct place *order = mem_array(n > 0 ? n : 1, sizeof(*order));
    if (order == NULL)
        return TUG_ENOMEM;
    mem_free(l->order);
    l->order = order;
    l->n_order = 0;
    l->unreserved = 0;
    l->cursor = 0;
    for (uint32_t i = 0; i < l->n_workers; i++) {
        struct leases_worker *w = &l->workers[i];
        w->holds = w->knows_file = false;
        w->reserved = 0;
        w->cursor = 0;
    }
    for (uint32_t i = 0; i < l->n_files; i++) {
        l->files[i].in_pass = l->files[i].use == use_of(l);
        l->files[i].holders = 0;
        if (leases_deals(l, i) && l->dealt)
            skip_file(&l->files[i]);
        else if (l->files[i].in_pass)
            TRY(begin_file(l, i));
    }
    qsort(order, l->n_order, sizeof(*order), by_key);
    l->prepared = true;
    leases_changed_all(l);
    return 0;
}

int leases_order(struct leases *l)
{
    size_t n = count_known(l);
    l->order = mem_array(n > 0 ? n : 1, sizeof(*l->order));
    if (l->order == NULL)
        return TUG_ENOMEM;
    for (uint32_t i = 0; i < l->n_files; i++)
        if (l->files[i].in_pass && !(leases_deals(l, i) && l->dealt))
            leases_list_file(l, i);
    qsort(l->order, l->n_order, sizeof(*l->order), by_key);
    return 0;
}

static void leases_pieces_take(struct leases *l, struct leases_worker *w, uint32_t file,
                               uint64_t index)
{
    struct piece *p = &l->files[file].p[index];
    assert(w->alive && !w->holds);
    assert(p->state == PIECE_FREE ? p->holders == 0 : p->holders == 1);
    p->state = PIECE_LEASED;
    p->holders++;
    l->files[file].holders++;
    w->holds = w->knows_file = true;
    w->file = file;
    w->index = index;
    w->since = l->leased++;
    leases_changed(l, file, index);
}

// Returns the first free piece from *cursor on that is reserved for `whose` (NULL: for
// nobody).
static const struct place *find_in_order(struct leases *l,
                                         const struct leases_worker *whose,
                                         size_t *cursor)
{
    for (; *cursor < l->n_order; ++*cursor) {
        const struct place *at = &l->order[*cursor];
        const struct piece *p = &l->files[at->file].p[at->index];
        if (p->state == PIECE_FREE && keeper(l, p) == whose)
            return at;
    }
    return NULL;
}

static bool take_from_order(struct leases *l, struct leases_worker *w,
                            const struct leases_worker *whose, size_t *cursor)
{
    const struct place *at = find_in_order(l, whose, cursor);
    if (at != NULL)
        leases_pieces_take(l, w, at->file, at->index);
    return at != NULL;
}

static bool take_own(struct leases *l, struct leases_worker *w)
{
    if (w->reserved == 0 || !take_from_order(l, w, w, &w->cursor))
        return false;
    w->reserved--;
    return true;
}

static bool take_unreserved(struct leases *l, struct leases_worker *w)
{
    if (l->unreserved == 0 || !take_from_order(l, w, NULL, &l->cursor))
        return false;
    l->unreserved--;
    return true;
}

// Gives worker w the file's first free piece from `index` on that is reserved for `whose`
// (NULL: for nobody). Returns false if the file has no such piece.
static bool take_from_file(struct leases *l, struct leases_worker *w, uint32_t file,
                           uint64_t index, const struct leases_worker *whose)
{
    const struct file *f = &l->files[file];
    for (; index < f->count && index < f->made; index++)
        if (f->p[index].state == PIECE_FREE && keeper(l, &f->p[index]) == whose) {
            leases_pieces_take(l, w, file, index);
            return true;
        }
    return false;
}

// Gives worker w a piece that is reserved for `rich`. `rich` has its pieces in memory and
// takes them in random order. But if w has to read a compressed file, it gets the pieces
// in file order: a step backwards would make w decompress the file from its beginning
// again. Returns false if no piece is left.
static bool take_of(struct leases *l, struct leases_worker *w, struct leases_worker *rich)
{
    const struct file *f = &l->files[w->file];
    if (w->knows_file && f->in_pass && f->compressed &&
        take_from_file(l, w, w->file, w->index + 1, rich))
        return true;
    const struct place *at = find_in_order(l, rich, &rich->cursor);
    if (at == NULL || !l->files[at->file].compressed)
        return take_from_order(l, w, rich, &rich->cursor);
    return take_from_file(l, w, at->file, 0, rich);
}

// Gives worker w a piece that is reserved for another worker: the one with the most
// reserved pieces, if these are at least `least`.
static bool take_from_richest(struct leases *l, struct leases_worker *w, uint64_t least)
{
    struct leases_worker *rich = NULL;
    for (uint32_t i = 0; i < l->n_workers; i++) {
        struct leases_worker *v = &l->workers[i];
        if (v->alive && v->reserved >= least &&
            (rich == NULL || v->reserved > rich->reserved))
            rich = v;
    }
    if (rich == NULL || !take_of(l, w, rich))
        return false;
    rich->reserved--;
    return true;
}

// Returns whether a file that is leased in order has a piece that can be leased.
static bool can_give(const struct file *f)
{
    return f->in_pass && f->in_order && (f->returned > 0 || f->count == LEASES_UNKNOWN);
}

// Chooses the file from which a worker gets its next piece in file order. The worker
// continues with its current file if possible; otherwise it gets the file with the fewest
// readers, because each reader decompresses the file from its start.
static struct file *choose_file(struct leases *l, const struct leases_worker *w)
{
    struct file *best = NULL;
    if (w->knows_file && can_give(&l->files[w->file]))
        return &l->files[w->file];
    for (uint32_t i = 0; i < l->n_files; i++) {
        struct file *f = &l->files[i];
        if (can_give(f) && (best == NULL || f->holders < best->holders))
            best = f;
    }
    return best;
}

static bool take_in_order(struct leases *l, struct leases_worker *w)
{
    struct file *f = choose_file(l, w);
    if (f == NULL)
        return false;
    uint32_t file = (uint32_t)(f - l->files);
    for (uint64_t i = 0; i < f->made && f->returned > 0; i++) {
        if (f->p[i].state != PIECE_FREE)
            continue;
        f->returned--;
        leases_pieces_take(l, w, file, i);
        return true;
    }
    if (!make_piece(f))
        return false;
    leases_pieces_take(l, w, file, f->made - 1);
    return true;
}

// Returns whether another worker may get, as a backup, the piece that v holds.
static bool may_back_up(const struct leases *l, const struct leases_worker *v)
{
    const struct file *f = &l->files[v->file];
    return v->holds && f->p[v->index].state == PIECE_LEASED &&
           f->p[v->index].holders == 1 && v->index < f->count &&
           !leases_deals(l, v->file);
}

static bool take_backup(struct leases *l, struct leases_worker *w)
{
    const struct leases_worker *first = NULL;
    for (uint32_t i = 0; i < l->n_workers && !leases_marking(l); i++) {
        const struct leases_worker *v = &l->workers[i];
        if (may_back_up(l, v) && (first == NULL || v->since < first->since))
            first = v;
    }
    if (first != NULL)
        leases_pieces_take(l, w, first->file, first->index);
    return first != NULL;
}

static bool take(struct leases *l, struct leases_worker *w)
{
    return take_own(l, w) || take_unreserved(l, w) || take_in_order(l, w) ||
           take_from_richest(l, w, 2) ||
           (l->pass.backups && (take_from_richest(l, w, 1) || take_backup(l, w)));
}

static enum wire_lease kind_of(const struct leases *l)
{
    return !leases_scores(l)                     ? WIRE_LEASE_PIECE
           : l->pass.kind == WIRE_PASS_TEST_BEST ? WIRE_LEASE_SCORE_BEST
                                                 : WIRE_LEASE_SCORE;
}

void leases_ask_piece(struct leases *l, struct leases_worker *w, struct msg_leased *ret)
{
    if (!l->prepared && (leases_prepare(l) != 0 || !l->prepared))
        return;
    if (!w->holds && !take(l, w))
        return;
    ret->what = kind_of(l);
    ret->file = w->file;
    ret->index = w->index;
    leases_pieces_done(l, &ret->pieces_done, &ret->pieces);
}

// Sets a file's number of pieces when it has become known. Leased pieces beyond the end
// do not count.
static void set_end(struct file *f, uint64_t count)
{
    if (!f->in_order || count >= f->count)
        return;
    f->count = count;
    f->done = f->returned = 0;
    for (uint64_t i = 0; i < f->made && i < count; i++) {
        f->done += f->p[i].state == PIECE_DONE;
        f->returned += f->p[i].state == PIECE_FREE;
    }
}

// Continues the pass with the buckets when the last piece has been dealt.
static void look_if_dealt(struct leases *l)
{
    bool all = l->buckets != 0 && !l->dealt;
    for (uint32_t i = 0; i < l->n_files && all; i++)
        all = !leases_deals(l, i) || l->files[i].done == l->files[i].count;
    if (!all)
        return;
    l->dealt = true;
    l->prepared = false;
    (void)leases_prepare(l); // on failure, the next request tries again
}

// Counts a free piece as not free any more.
static void take_from_free(struct leases *l, struct file *f, const struct piece *p)
{
    struct leases_worker *v = keeper(l, p);
    if (f->in_order)
        f->returned--;
    else if (v != NULL)
        v->reserved--;
    else
        l->unreserved--;
}

static void set_done(const struct leases *l, const struct leases_worker *w,
                     struct file *f, uint64_t index, const struct msg_piece_done *m)
{
    struct piece *p = &f->p[index];
    p->state = PIECE_DONE;
    p->had = (uint32_t)(w - l->workers);
    p->held = m->held != 0;
    p->examples = m->examples < UINT32_MAX ? (uint32_t)m->examples : UINT32_MAX;
    f->done += index < f->count;
}

// Takes the report of a piece which a dead scheduler gave to this worker, without a trace
// in the journal. Returns whether the report is new.
static bool unknown_done(struct leases *l, struct leases_worker *w,
                         const struct msg_piece_done *m, bool *ret_forget)
{
    if (w->unknown == LEASES_UNKNOWN_MAX)
        return false;
    if (!l->prepared && (leases_prepare(l) != 0 || !l->prepared))
        return false;
    struct file *f = m->file < l->n_files ? &l->files[m->file] : NULL;
    if (f == NULL || !f->in_pass || m->index >= f->count || m->index >= f->made ||
        m->what != kind_of(l) || l->buckets != 0)
        return false;
    struct piece *p = &f->p[m->index];
    if (p->state == PIECE_DONE)
        return false;
    if (p->state == PIECE_FREE)
        take_from_free(l, f, p);
    *ret_forget = p->holders == 0;
    w->unknown++;
    set_done(l, w, f, m->index, m);
    leases_changed(l, m->file, m->index);
    return true;
}

void leases_left_unknown(struct leases *l)
{
    for (uint32_t i = 0; i < leases_trained(l); i++)
        for (uint64_t k = 0; k < l->files[i].made && leases_early_file(l, i); k++)
            if (l->files[i].in_pass && l->files[i].p[k].state != PIECE_DONE) {
                l->files[i].p[k].left = true;
                leases_changed(l, i, k);
            }
}

bool leases_piece_done(struct leases *l, struct leases_worker *w,
                       const struct msg_piece_done *m, bool *ret_forget)
{
    if (!w->holds || w->file != m->file || w->index != m->index)
        return w->unsure && unknown_done(l, w, m, ret_forget);
    struct file *f = &l->files[w->file];
    struct piece *p = &f->p[w->index];
    bool news = p->state != PIECE_DONE;
    leases_changed(l, w->file, w->index);
    w->holds = false;
    f->holders--;
    p->holders--;
    *ret_forget = p->holders == 0 || bug_in(l->bugs, WITHOUT_SECOND_REPORTS);
    if (!news)
        return false;
    set_done(l, w, f, w->index, m);
    if (m->at_end)
        set_end(f, w->index + 1);
    look_if_dealt(l);
    return true;
}

static void leases_pieces_give_back(struct leases *l, struct leases_worker *w)
{
    assert(w->holds && l->files[w->file].p[w->index].holders > 0);
    struct file *f = &l->files[w->file];
    struct piece *p = &f->p[w->index];
    leases_changed(l, w->file, w->index);
    w->holds = false;
    f->holders--;
    p->holders--;
    if (p->state == PIECE_DONE)
        return; // the other worker with this piece has finished it
    p->left = true;
    if (p->holders > 0)
        return; // the other worker with this piece still trains on it
    p->state = PIECE_FREE;
    if (f->in_order) {
        f->returned += w->index < f->count;
        return;
    }
    struct leases_worker *v = keeper(l, p);
    if (v != NULL) {
        v->reserved++;
        v->cursor = 0;
    } else {
        l->unreserved++;
    }
}

// Sorts the pieces again after a worker has died: the pieces that it held in memory must
// now be read from their files, and in file order if the files are compressed.
static void order_again(struct leases *l)
{
    for (size_t i = 0; i < l->n_order; i++)
        l->order[i].key = piece_key_of(l, l->order[i].file, l->order[i].index);
    if (l->n_order > 0)
        qsort(l->order, l->n_order, sizeof(*l->order), by_key);
    l->cursor = 0;
    for (uint32_t i = 0; i < l->n_workers; i++)
        l->workers[i].cursor = 0;
}

void leases_return_pieces(struct leases *l, struct leases_worker *w)
{
    if (w->holds)
        leases_pieces_give_back(l, w);
    // The worker for which these pieces were reserved is dead.
    l->unreserved += w->reserved;
    order_again(l);
    w->reserved = 0;
}

// Returns the number of pieces per byte in the files that were read to their end; 0 if
// there are no such files yet. This number serves to estimate the number of pieces in the
// other files.
static double pieces_a_byte(const struct leases *l)
{
    double pieces = 0, bytes = 0;
    for (uint32_t i = 0; i < l->n_files; i++) {
        const struct file *f = &l->files[i];
        if (f->in_pass && f->pieces == LEASES_UNKNOWN && f->count != LEASES_UNKNOWN) {
            pieces += (double)f->count;
            bytes += (double)f->bytes;
        }
    }
    return bytes > 0 ? pieces / bytes : 0;
}

bool leases_pieces_done(const struct leases *l, uint64_t *ret_done, uint64_t *ret_pieces)
{
    uint64_t done = 0, pieces = 0;
    double a_byte = pieces_a_byte(l);
    bool all = l->prepared, told = true;
    for (uint32_t i = 0; i < l->n_files && l->prepared; i++) {
        const struct file *f = &l->files[i];
        if (!f->in_pass || leases_deals(l, i))
            continue; // buckets are leased only after all pieces were dealt
        uint64_t guess = (uint64_t)(a_byte * (double)f->bytes + 0.5);
        bool open = f->count == LEASES_UNKNOWN;
        done += f->done;
        pieces += !open ? f->count : guess > f->made ? guess : f->made;
        told &= !open || a_byte > 0;
        all &= f->done == f->count;
    }
    if (ret_done != NULL)
        *ret_done = done;
    if (ret_pieces != NULL)
        *ret_pieces = told ? pieces : 0;
    return all;
}
