// See deal.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/deal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "data/dataset/dataset_internal.h"
#include "data/dataset/deal_internal.h"
#include "data/format/kept.h"
#include "data/input/lines.h"

enum { LEAST_BUCKETS = 16, CELL_BYTES = 2 << 10 };

struct deal {
    struct deal_options o;
    struct piece_text piece;
    struct buf *cells; // the text of the piece's cell for each bucket
    // The parsed line from which `columns` is filled; used only with deal_options.by.
    struct examples x;
    struct kept columns; // the texts of the columns in deal_options.by
};

static uint64_t at_least(uint64_t x, uint64_t least)
{
    return x > least ? x : least;
}

static uint64_t at_most(uint64_t x, uint64_t most)
{
    return x < most ? x : most;
}

uint32_t deal_buckets(const struct pieces *p, uint64_t text_bytes)
{
    uint64_t pieces = 0;
    bool exact;
    for (uint32_t i = 0; i < pieces_files(p); i++)
        pieces += at_least(pieces_count(p, i, &exact), 1);
    uint64_t by_cells = at_least(text_bytes / pieces / CELL_BYTES, LEAST_BUCKETS);
    return (uint32_t)at_most(at_most(pieces, by_cells), DEAL_MAX_BUCKETS);
}

int deal_open(struct deal **ret, const struct deal_options *o, struct err *e)
{
    assert(o->buckets > 0);
    struct deal *d = mem_zalloc(sizeof(*d));
    if (d == NULL)
        return err_nomem(e, "buckets of data");
    d->o = *o;
    d->columns.names = o->by;
    d->columns.option = o->option;
    d->cells = mem_array(o->buckets, sizeof(*d->cells));
    for (uint32_t i = 0; d->cells != NULL && i < o->buckets; i++)
        d->cells[i] = BUF_INIT(SIZE_MAX);
    if (d->cells == NULL) {
        deal_close(d);
        return err_nomem(e, "buckets of data");
    }
    *ret = d;
    return 0;
}

void deal_close(struct deal *d)
{
    if (d == NULL)
        return;
    for (uint32_t i = 0; d->cells != NULL && i < d->o.buckets; i++)
        buf_free(&d->cells[i]);
    mem_free(d->cells);
    piece_free(&d->piece);
    examples_free(&d->x);
    kept_free(&d->columns);
    mem_free(d);
}

// A line of the current piece.
struct dealt_line {
    const char *text;
    size_t len;      // length of the line without its newline
    uint64_t number; // line number in the piece, from 0
    uint32_t bucket;
};

// Assigns lines with equal texts in the columns `by` to the same bucket. A line that
// cannot be read gets its bucket by its line number, and loading that bucket reports the
// reason.
static int bucket_by(struct deal *d, const struct reader_layout *layout,
                     struct dealt_line *l, struct err *e)
{
    examples_clear(&d->x);
    int rc = reader_line(d->o.reader, layout, l->text, l->len, &d->x, NULL);
    if (rc == TUG_EDATA)
        return 0;
    if (rc != 0)
        return err_nomem(e, "a line of data");
    kept_clear(&d->columns);
    TRY(kept_line(&d->columns, d->o.reader, layout, 0, l->text, l->len, e));
    uint64_t h = hash_bytes(d->columns.text.data, d->columns.text.len, d->o.seed);
    l->bucket = (uint32_t)(h % d->o.buckets);
    return 0;
}

typedef int (*line_fn)(void *ctx, const struct dealt_line *l, struct err *e);

// Calls `fn` for each line of the current piece, with the line's bucket.
static int walk(struct deal *d, const struct reader_layout *layout, uint64_t stream,
                line_fn fn, void *ctx, struct err *e)
{
    const char *p = d->piece.text, *end = p + d->piece.len;
    bool header = d->piece.offset == 0 && reader_has_header(d->o.reader);
    uint64_t dealt = 0;
    struct shuffle order = {0};
    for (struct dealt_line l = {0}; p < end; l.number++, p = l.text + l.len + 1) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        l.text = p;
        l.len = (size_t)((stop != NULL ? stop : end) - p);
        if ((header && l.number == 0) || reader_skips(d->o.reader, p, l.len))
            continue;
        uint64_t turn = dealt++ % d->o.buckets;
        if (turn == 0)
            order = shuffle_make(d->o.buckets, stream, dealt);
        l.bucket = (uint32_t)shuffle_at(&order, turn);
        if (d->o.by != NULL)
            TRY(bucket_by(d, layout, &l, e));
        TRY(fn(ctx, &l, e));
    }
    return 0;
}

static int walk_piece(struct deal *d, struct pieces *p, uint32_t file, uint64_t index,
                      line_fn fn, void *ctx, struct err *e)
{
    const struct reader_layout *layout;
    TRY(dataset_read_headers(d->o.reader, p, file, &layout, e));
    TRY(piece_read(p, file, index, &d->piece, e));
    if (d->piece.rows != NULL)
        return err_set(e, TUG_EUSAGE,
                       "%s: rows in memory cannot be divided among workers, which read "
                       "files: write them to a file",
                       pieces_file_name(p, file));
    uint64_t stream = mix64(mix64(d->o.seed ^ file) ^ index);
    int rc = walk(d, layout, stream, fn, ctx, e);
    return rc == TUG_EDATA ? err_wrap(e, "%s", pieces_file_name(p, file)) : rc;
}

static int put_line(void *ctx, const struct dealt_line *l, struct err *e)
{
    struct deal *d = ctx;
    struct buf *cell = &d->cells[l->bucket];
    if (buf_add(cell, l->text, l->len) != 0 || buf_add(cell, "\n", 1) != 0)
        return err_nomem(e, "buckets of data");
    return 0;
}

int deal_piece(struct deal *d, struct pieces *p, uint32_t file, uint64_t index,
               bool *ret_at_end, struct err *e)
{
    for (uint32_t i = 0; i < d->o.buckets; i++)
        buf_clear(&d->cells[i]);
    TRY(walk_piece(d, p, file, index, put_line, d, e));
    *ret_at_end = d->piece.at_end;
    return 0;
}

const char *deal_cell(const struct deal *d, uint32_t bucket, size_t *ret_len)
{
    *ret_len = d->cells[bucket].len;
    return d->cells[bucket].data;
}

struct search {
    uint32_t bucket;
    uint64_t left; // number of the bucket's lines that come before the wanted line
    uint64_t found;
    bool known;
};

static int look_at_line(void *ctx, const struct dealt_line *l, struct err *e)
{
    (void)e;
    struct search *s = ctx;
    if (s->known || l->bucket != s->bucket)
        return 0;
    s->known = s->left == 0;
    s->found = l->number;
    s->left--;
    return 0;
}

int deal_find_line(struct deal *d, struct pieces *p, const struct deal_place *at,
                   uint64_t *ret_line, struct err *e)
{
    struct search s = {.bucket = at->bucket, .left = at->nth};
    TRY(walk_piece(d, p, at->file, at->index, look_at_line, &s, e));
    uint64_t first = d->piece.line;
    if (first == 0)
        TRY(pieces_line(p, at->file, d->piece.offset, &first, e));
    *ret_line = s.known ? first + s.found : 0;
    return 0;
}
