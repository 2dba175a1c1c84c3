// Writes the state of the leases to rows (cluster/row.h) and restores it from them, and
// keeps reports for a driver that is started again.
//
// A row is written when it has changed. A row of pieces has LEASES_CHUNK pieces of one
// file, and a list has the rows of pieces that have changed. Leased pieces are kept as
// leased, so that a restarted scheduler does not give a piece to a second worker.
//
// Rows do not contain what can be computed from the rest: the order of pieces, the
// workers for which they are reserved, and all counts of pieces.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "cluster/leases/leases_internal.h"
#include "cluster/row.h"

enum { CHANGED_MAX = 4096 };

int leases_keep(struct leases *l)
{
    l->kept = mem_zalloc(sizeof(*l->kept));
    if (l->kept == NULL)
        return TUG_ENOMEM;
    leases_clear_stages(l);
    l->kept->merged = BUF_INIT(WIRE_BYTES_MAX);
    l->kept->note = BUF_INIT(WIRE_BYTES_MAX);
    l->kept->work = BUF_INIT(SIZE_MAX);
    leases_changed_all(l);
    return 0;
}

void leases_keep_free(struct leases *l)
{
    if (l->kept == NULL)
        return;
    leases_clear_stages(l);
    buf_free(&l->kept->merged);
    buf_free(&l->kept->note);
    buf_free(&l->kept->work);
    mem_free(l->kept->changed);
    mem_free(l->kept);
    l->kept = NULL;
}

void leases_changed_all(struct leases *l)
{
    if (l->kept != NULL)
        l->kept->data = l->kept->pass = l->kept->pieces = true;
}

void leases_changed(struct leases *l, uint32_t file, uint64_t index)
{
    struct kept_leases *k = l->kept;
    uint64_t at = (uint64_t)file << 32 | index / LEASES_CHUNK;
    if (k == NULL || k->pieces ||
        (k->n_changed > 0 && k->changed[k->n_changed - 1] == at))
        return;
    if (k->n_changed == CHANGED_MAX ||
        mem_room(&k->changed, &k->cap_changed, k->n_changed + 1) != 0)
        k->pieces = true;
    else
        k->changed[k->n_changed++] = at;
}

// --------------------------------------------------------------------- kept reports

int leases_note_pass(struct leases *l, struct wire_text note)
{
    if (l->kept == NULL || note.n == 0)
        return 0;
    buf_clear(&l->kept->note);
    return buf_add(&l->kept->note, note.data, note.n);
}

struct wire_text leases_note(const struct leases *l)
{
    if (l->kept == NULL || l->kept->note.len == 0)
        return (struct wire_text){0};
    return (struct wire_text){l->kept->note.data, (uint32_t)l->kept->note.len};
}

void leases_stage_over(struct leases *l, const struct msg_pass *m)
{
    struct kept_leases *k = l->kept;
    if (k == NULL)
        return;
    if (m->pass == l->pass.pass) {
        struct stage *s = &k->stages[l->pass.kind];
        s->examples = l->examples;
        if (leases_by_piece(l))
            leases_pieces_done(l, NULL, &s->pieces);
    } else {
        leases_clear_stages(l);
    }
    k->pass = true;
    k->reading = m->kind;
    k->read = 0;
}

void leases_read_stage(struct leases *l, uint8_t kind)
{
    if (l->kept == NULL)
        return;
    l->kept->reading = kind;
    l->kept->read = 0;
}

// ------------------------------------------------------------------------------- the rows

// Writes or reads a text of any length, which is kept in a buffer.
static void row_buf(struct row *r, struct buf *b)
{
    size_t n = b->len;
    ROW_NUMBER(r, n);
    if (r->to != NULL) {
        row_bytes(r, b->data, n);
        return;
    }
    r->bad |= n > r->n;
    buf_clear(b);
    if (r->bad || n == 0)
        return;
    r->bad |= buf_add(b, r->from, n) != 0;
    r->from += n;
    r->n -= n;
}

static void row_name(struct row *r, char **name)
{
    size_t n = r->to != NULL && *name != NULL ? strlen(*name) : 0;
    ROW_NUMBER(r, n);
    if (r->to == NULL) {
        mem_free(*name);
        *name = NULL;
        r->bad |= n > r->n || (*name = mem_zalloc(n + 1)) == NULL;
    }
    if (!r->bad && n > 0)
        row_bytes(r, *name, n);
}

static void row_file(struct row *r, struct file *f)
{
    ROW_NUMBER(r, f->bytes);
    ROW_NUMBER(r, f->hash);
    ROW_NUMBER(r, f->pieces);
    ROW_NUMBER(r, f->compressed);
    ROW_NUMBER(r, f->use);
    row_name(r, &f->name);
    if (r->to == NULL)
        f->count = f->pieces;
    r->bad |= f->use > FILE_TEST;
}

static void row_data(struct row *r, struct leases *l)
{
    uint32_t n = l->n_files;
    ROW_NUMBER(r, l->schema_told);
    row_buf(r, &l->schema);
    row_buf(r, &l->options);
    ROW_NUMBER(r, l->have_data);
    row_name(r, &l->told_by);
    ROW_NUMBER(r, l->piece_bytes);
    ROW_NUMBER(r, l->scored);
    ROW_NUMBER(r, l->valid);
    ROW_NUMBER(r, l->buckets);
    ROW_NUMBER(r, n);
    r->bad |= l->scored > n || l->valid > l->scored ||
              (l->buckets != 0 && l->scored >= n) || n > r->n + l->n_files;
    if (r->to == NULL && n != l->n_files && !r->bad) {
        leases_free_files(l->files, l->n_files);
        l->files = mem_zalloc(((size_t)n + 1) * sizeof(*l->files));
        r->bad |= l->files == NULL;
        l->n_files = r->bad ? 0 : n;
    }
    for (uint32_t i = 0; i < n && !r->bad; i++)
        row_file(r, &l->files[i]);
}

static void row_pass(struct row *r, struct leases *l)
{
    struct msg_pass p = l->pass;
    ROW_NUMBER(r, p.pass);
    ROW_NUMBER(r, p.kind);
    ROW_NUMBER(r, p.seed);
    ROW_NUMBER(r, p.first);
    ROW_NUMBER(r, p.examples);
    ROW_NUMBER(r, p.data);
    ROW_NUMBER(r, p.backups);
    row_buf(r, &l->done);
    row_buf(r, &l->kept->note);
    r->bad |= p.kind > WIRE_PASS_TEST_BEST || p.pass > UINT32_MAX;
    if (r->to != NULL || r->bad)
        return;
    if (p.pass != l->pass.pass)
        leases_clear_stages(l);
    l->pass = p;
}

static void row_worker(struct row *r, struct leases_worker *w)
{
    ROW_NUMBER(r, w->id);
    ROW_NUMBER(r, w->alive);
    ROW_NUMBER(r, w->holds);
    ROW_NUMBER(r, w->file);
    ROW_NUMBER(r, w->index);
    ROW_NUMBER(r, w->since);
    ROW_NUMBER(r, w->knows_file);
    ROW_NUMBER(r, w->taking_part);
    ROW_NUMBER(r, w->finished);
    ROW_NUMBER(r, w->slot);
    ROW_NUMBER(r, w->next_report);
    ROW_NUMBER(r, w->marked);
    ROW_NUMBER(r, w->examples);
    ROW_NUMBER(r, w->pieces);
    r->bad |= w->id == 0 || (w->holds && !w->alive);
}

static void row_workers(struct row *r, struct leases *l)
{
    uint32_t n = l->n_workers;
    ROW_NUMBER(r, n);
    if (r->to == NULL) {
        r->bad |= n > r->n || mem_room(&l->workers, &l->cap_workers, n) != 0;
        l->n_workers = r->bad ? 0 : n;
        if (l->n_workers > 0)
            memset(l->workers, 0, n * sizeof(*l->workers));
    }
    for (uint32_t i = 0; i < n && !r->bad; i++)
        row_worker(r, &l->workers[i]);
}

static void row_work(struct row *r, struct leases *l)
{
    row_workers(r, l);
    ROW_NUMBER(r, l->dealt);
    ROW_NUMBER(r, l->prepared);
    ROW_NUMBER(r, l->leased);
    ROW_NUMBER(r, l->examples);
    ROW_NUMBER(r, l->view);
    ROW_NUMBER(r, l->slots);
    ROW_NUMBER(r, l->views);
    ROW_NUMBER(r, l->all_finished);
    ROW_NUMBER(r, l->save);
    ROW_NUMBER(r, l->save_workers);
    ROW_NUMBER(r, l->save_known);
    ROW_NUMBER(r, l->save_torn);
    for (int i = 0; i < LEASES_STAGES; i++) {
        ROW_NUMBER(r, l->kept->stages[i].examples);
        ROW_NUMBER(r, l->kept->stages[i].pieces);
    }
    r->bad |= l->save_workers > l->n_workers;
}

static void row_piece(struct row *r, struct piece *p)
{
    enum { HELD = 4, LEFT = 8, BEFORE = 16, IN_CUT = 32, ALL = 63 };
    uint32_t x[3] = {p->had,
                     p->state | (p->held ? HELD : 0U) | (p->left ? LEFT : 0U) |
                         (p->before ? BEFORE : 0U) | (p->in_cut ? IN_CUT : 0U),
                     p->examples};
    row_bytes(r, x, sizeof(x));
    r->bad |= x[1] > ALL || (x[1] & 3) > PIECE_DONE;
    if (r->to != NULL || r->bad)
        return;
    *p = (struct piece){.had = x[0],
                        .state = x[1] & 3,
                        .held = (x[1] & HELD) != 0,
                        .left = (x[1] & LEFT) != 0,
                        .before = (x[1] & BEFORE) != 0,
                        .in_cut = (x[1] & IN_CUT) != 0,
                        .examples = x[2]};
}

// Makes room for the pieces of a file. Rows with these pieces follow.
static bool make_pieces(struct file *f, uint64_t made)
{
    if (made > LEASES_MAX_PIECES)
        return false;
    if (made > f->cap) {
        struct piece *more = mem_realloc_array(f->p, made, sizeof(*f->p));
        if (more == NULL)
            return false;
        f->p = more;
        f->cap = made;
    }
    for (uint64_t i = f->made; i < made; i++)
        f->p[i] = (struct piece){.had = LEASES_NOBODY};
    f->made = made;
    return true;
}

static void row_pieces(struct row *r, struct leases *l, uint32_t file, uint64_t first)
{
    uint64_t made = file < l->n_files ? l->files[file].made : 0;
    ROW_NUMBER(r, file);
    ROW_NUMBER(r, first);
    ROW_NUMBER(r, made);
    r->bad |= file >= l->n_files || first % LEASES_CHUNK != 0;
    if (r->bad)
        return;
    struct file *f = &l->files[file];
    ROW_NUMBER(r, f->count);
    ROW_NUMBER(r, f->in_pass);
    ROW_NUMBER(r, f->in_order);
    if (r->to == NULL)
        r->bad |= !make_pieces(f, made);
    for (uint64_t i = first; i < made && i < first + LEASES_CHUNK && !r->bad; i++)
        row_piece(r, &f->p[i]);
}

// ------------------------------------------------------------------- writing and reading

struct putting {
    struct buf *row;
    int (*put)(void *ctx, enum leases_row kind);
    void *ctx;
};

static int put_pieces(struct leases *l, const struct putting *to, uint64_t chunk)
{
    struct row r = {.to = to->row};
    buf_clear(to->row);
    row_pieces(&r, l, (uint32_t)(chunk >> 32), (uint64_t)(uint32_t)chunk * LEASES_CHUNK);
    return r.bad ? TUG_ENOMEM : to->put(to->ctx, LEASES_ROW_PIECES);
}

static int put_all_pieces(struct leases *l, const struct putting *to)
{
    for (uint64_t i = 0; i < l->n_files; i++) {
        uint64_t chunks = (l->files[i].made + LEASES_CHUNK - 1) / LEASES_CHUNK;
        for (uint64_t k = 0; k < chunks || k == 0; k++)
            TRY(put_pieces(l, to, i << 32 | k));
    }
    return 0;
}

static int put_changed_pieces(struct leases *l, const struct putting *to, bool all)
{
    struct kept_leases *k = l->kept;
    if (all || k->pieces)
        TRY(put_all_pieces(l, to));
    for (uint32_t i = 0; i < k->n_changed && !all && !k->pieces; i++)
        TRY(put_pieces(l, to, k->changed[i]));
    k->pieces = false;
    k->n_changed = 0;
    return 0;
}

static int put_reports(struct leases *l, const struct putting *to, bool all)
{
    for (uint32_t i = 0; i < LEASES_STAGES; i++) {
        struct stage *s = &l->kept->stages[i];
        if (all)
            s->written = 0;
        if (s->written == s->reports.len && s->fresh.len == 0)
            continue;
        struct row r = {.to = to->row};
        buf_clear(to->row);
        leases_row_report(&r, l, i);
        TRY(r.bad ? TUG_ENOMEM : to->put(to->ctx, LEASES_ROW_REPORT));
    }
    return 0;
}

static int put_one(struct leases *l, const struct putting *to, enum leases_row kind,
                   void (*write)(struct row *r, struct leases *l))
{
    struct row r = {.to = to->row};
    buf_clear(to->row);
    write(&r, l);
    return r.bad ? TUG_ENOMEM : to->put(to->ctx, kind);
}

static int put_work(struct leases *l, const struct putting *to, bool all)
{
    struct row r = {.to = to->row};
    struct buf *had = &l->kept->work;
    buf_clear(to->row);
    row_work(&r, l);
    if (r.bad)
        return TUG_ENOMEM;
    if (!all && had->len == to->row->len &&
        memcmp(had->data, to->row->data, had->len) == 0)
        return 0;
    buf_clear(had);
    TRY(buf_add(had, to->row->data, to->row->len));
    return to->put(to->ctx, LEASES_ROW_WORK);
}

static uint64_t stage_id(const struct leases *l)
{
    return l->pass.pass * LEASES_STAGES + l->pass.kind;
}

void leases_durable(struct leases *l)
{
    l->kept->pass_durable = l->kept->pass_written;
}

// Pieces that the next scheduler may not have (of files whose ends are not known), and
// pieces and buckets of a shuffle, which may be dealt only once, are not told early.
bool leases_tells_early(const struct leases *l, const struct msg_leased *m)
{
    bool piece = m->what == WIRE_LEASE_PIECE || m->what == WIRE_LEASE_SCORE ||
                 m->what == WIRE_LEASE_SCORE_BEST;
    return piece && l->kept != NULL && leases_early_file(l, m->file) &&
           l->kept->pass_durable == stage_id(l);
}

bool leases_may_push(const struct leases *l, uint64_t pass, uint64_t piece)
{
    for (uint32_t i = 0; i < l->n_workers; i++) {
        const struct leases_worker *w = &l->workers[i];
        if (w->alive && w->unsure && !bug_in(l->bugs, WITHOUT_UNSURE_WORKERS) &&
            (!w->told || (pass != 0 && w->told_pass == pass && w->told_piece == piece)))
            return true;
    }
    return false;
}

int leases_rows(struct leases *l, bool all, struct buf *row,
                int (*put)(void *ctx, enum leases_row kind), void *ctx)
{
    struct putting to = {row, put, ctx};
    struct kept_leases *k = l->kept;
    if (all || k->data)
        TRY(put_one(l, &to, LEASES_ROW_DATA, row_data));
    if (all || k->pass)
        TRY(put_one(l, &to, LEASES_ROW_PASS, row_pass));
    k->data = k->pass = false;
    k->pass_written = stage_id(l);
    TRY(put_work(l, &to, all));
    TRY(put_changed_pieces(l, &to, all));
    return put_reports(l, &to, all);
}

int leases_row_read(struct leases *l, enum leases_row kind, const void *bytes, size_t n)
{
    struct row r = {.from = bytes, .n = n};
    if (kind == LEASES_ROW_DATA)
        row_data(&r, l);
    else if (kind == LEASES_ROW_PASS)
        row_pass(&r, l);
    else if (kind == LEASES_ROW_WORK)
        row_work(&r, l);
    else if (kind == LEASES_ROW_PIECES)
        row_pieces(&r, l, 0, 0);
    else if (kind == LEASES_ROW_REPORT)
        leases_row_report(&r, l, 0);
    else
        return TUG_EDATA;
    return r.bad || r.n != 0 ? TUG_EDATA : 0;
}

// Computes the counts of a file from its restored pieces. Returns false if the pieces
// contradict each other.
static bool count_file(struct leases *l, struct file *f)
{
    if (f->count != LEASES_UNKNOWN ? f->count > f->made : f->in_pass && !f->in_order)
        return false;
    f->done = f->returned = 0;
    f->holders = 0;
    for (uint64_t i = 0; i < f->made; i++) {
        struct piece *p = &f->p[i];
        p->holders = 0;
        if (p->had != LEASES_NOBODY && p->had >= l->n_workers)
            return false;
        f->done += p->state == PIECE_DONE && i < f->count;
        f->returned += f->in_order && p->state == PIECE_FREE && i < f->count;
    }
    return true;
}

static bool count_worker(struct leases *l, const struct leases_worker *w)
{
    if (!w->holds && (!w->knows_file || w->file < l->n_files))
        return true;
    if (w->file >= l->n_files || w->index >= l->files[w->file].made)
        return false;
    struct piece *p = &l->files[w->file].p[w->index];
    l->files[w->file].holders++;
    return p->state != PIECE_FREE && ++p->holders <= 2;
}

static bool count_pieces(struct leases *l)
{
    for (uint32_t i = 0; i < l->n_files; i++)
        if (!count_file(l, &l->files[i]))
            return false;
    for (uint32_t i = 0; i < l->n_workers; i++)
        if (!count_worker(l, &l->workers[i]))
            return false;
    for (uint32_t i = 0; i < l->n_files; i++)
        for (uint64_t k = 0; k < l->files[i].made && l->files[i].in_pass && l->prepared;
             k++)
            if (l->files[i].p[k].state == PIECE_LEASED && l->files[i].p[k].holders == 0)
                return false;
    return true;
}

int leases_restored(struct leases *l)
{
    if (!leases_reports_hold(l) || !count_pieces(l) || (l->prepared && !l->have_data) ||
        (l->prepared && !leases_by_piece(l)))
        return TUG_EDATA;
    l->kept->reading = l->pass.kind;
    l->restored = true;
    for (uint32_t i = 0; i < l->n_workers; i++)
        l->workers[i].unsure = true;
    leases_changed_all(l);
    return l->prepared ? leases_order(l) : 0;
}
