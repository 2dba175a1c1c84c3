// Loads one piece. Its text is cut at line ends into chunks, so that all members of the
// team parse. The cuts depend only on the text, which is freed when the data set is
// packed.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "data/dataset/dataset_internal.h"
#include "data/frame/rows.h"
#include "data/input/lines.h"

struct piece_intake {
    struct intake base;
    const struct pieces *pieces;
    struct piece_text piece;
    uint32_t file;
    const struct reader_layout *layout; // layout of the file
    size_t at;                          // the offset of the next chunk
    uint64_t number;
    // Number of the next chunk's first line in the file, or in the piece if that number
    // is unknown.
    uint64_t line;
};

// Cuts rows in memory into chunks.
static int rows_next(struct piece_intake *in, struct chunk **ret, struct err *e)
{
    const struct piece_text *p = &in->piece;
    uint64_t most = rows_within(p->rows, CHUNK_BYTES), left = p->n_rows - in->at;
    uint64_t first = p->offset + in->at;
    *ret = NULL;
    if (left == 0)
        return 0;
    struct chunk *c = mem_alloc(sizeof *c);
    if (c == NULL)
        return err_nomem(e, "a chunk of rows");
    *c = (struct chunk){.rows = p->rows,
                        .n_rows = left < most ? left : most,
                        .text = "",
                        .number = in->number++,
                        .file = in->file,
                        .line = first,
                        .offset = first,
                        .layout = in->layout};
    in->at += c->n_rows;
    *ret = c;
    return 0;
}

static int piece_next(struct intake *base, struct chunk **ret, struct err *e)
{
    struct piece_intake *in = (void *)base;
    if (in->piece.rows != NULL)
        return rows_next(in, ret, e);
    const char *text = in->piece.text + in->at;
    size_t len = chunk_length(text, in->piece.len - in->at);
    *ret = NULL;
    if (len == 0)
        return 0;
    struct chunk *c = mem_alloc(sizeof *c);
    if (c == NULL)
        return err_nomem(e, "a chunk of text");
    *c = (struct chunk){.text = text,
                        .len = len,
                        .number = in->number++,
                        .file = in->file,
                        .line = in->line,
                        .offset = in->piece.offset + in->at,
                        .layout = in->layout};
    in->line += count_lines(c->text, c->len);
    in->at += len;
    *ret = c;
    return 0;
}

static void piece_release(struct intake *in, struct chunk *c)
{
    (void)in;
    mem_free(c);
}

static const char *piece_name(const struct intake *in, uint32_t file)
{
    return pieces_file_name(((const struct piece_intake *)(const void *)in)->pieces,
                            file);
}

static int piece_line(struct intake *base, const struct chunk *c, uint32_t line,
                      uint64_t *ret_line, struct err *e)
{
    const struct piece_intake *in = (const void *)base;
    *ret_line = c->line;
    if (in->piece.rows == NULL && in->piece.line == 0)
        TRY(pieces_line(in->pieces, in->file, c->offset, ret_line, e));
    *ret_line += line;
    return 0;
}

static int read_header(struct reader *r, const struct pieces *p, uint32_t file,
                       const struct reader_layout **ret, struct err *e)
{
    struct buf line = BUF_INIT(MAX_LINE_BYTES);
    int rc = pieces_first_lines(p, file, 1, MAX_LINE_BYTES, &line, e);
    // A file of empty lines has no header and no example that needs a header.
    if (rc == 0 && !reader_is_blank(r, line.data, line.len)) {
        rc = reader_header(r, buf_str(&line), line.len, ret, e);
        if (rc == TUG_EDATA)
            reader_wrap_header(r, pieces_file_name(p, file), e);
    }
    buf_free(&line);
    return rc;
}

// Reads two headers: that of the first file, which decides the schema even if this worker
// never gets a piece of that file, and that of `file`, because another worker may get the
// piece with the header.
int dataset_read_headers(struct reader *r, const struct pieces *p, uint32_t file,
                         const struct reader_layout **ret, struct err *e)
{
    *ret = NULL;
    TRY(dataset_decide_schema(r, p, e));
    return reader_has_header(r) ? read_header(r, p, file, ret, e) : 0;
}

int dataset_decide_schema(struct reader *r, const struct pieces *p, struct err *e)
{
    struct buf lines = BUF_INIT(READER_LOOK_BYTES + READER_PADDING);
    reader_see_rows(r, pieces_rows(p, 0));
    size_t wanted = reader_wants(r);
    if (wanted == 0)
        return 0;
    uint32_t file = 0, files = (uint32_t)pieces_files(p);
    int rc = pieces_first_lines(p, 0, wanted, READER_LOOK_BYTES, &lines, e);
    while (rc == 0 && file + 1 < files && reader_is_blank(r, lines.data, lines.len)) {
        buf_clear(&lines);
        rc = pieces_first_lines(p, ++file, wanted, READER_LOOK_BYTES, &lines, e);
    }
    if (rc == 0)
        rc = reader_decide(r, pieces_file_name(p, file), &lines, e);
    buf_free(&lines);
    return rc;
}

int dataset_load_piece(struct dataset **ret, const struct dataset_options *o,
                       struct pieces *p, uint32_t file, uint64_t index, struct err *e)
{
    struct piece_intake in = {.base = {.next = piece_next,
                                       .release = piece_release,
                                       .name = piece_name,
                                       .line = piece_line},
                              .pieces = p,
                              .file = file};
    struct dataset *d = NULL;
    TRY(dataset_read_headers(o->reader, p, file, &in.layout, e));
    int rc = piece_read(p, file, index, &in.piece, e);
    in.line = in.piece.line > 0 ? in.piece.line : 1;
    if (rc == 0)
        rc = dataset_load_from(&d, o, &in.base, e);
    if (rc == 0) {
        d->at_end = in.piece.at_end;
        d->pieces = in.piece.rows == NULL && in.piece.line == 0 ? p : NULL;
        d->offset = in.piece.offset;
        *ret = d;
    }
    piece_free(&in.piece);
    return rc;
}
