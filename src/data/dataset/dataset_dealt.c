// Loads a bucket of a global shuffle. Cells of the same file are adjacent; their text,
// which the caller owns, is cut at line ends into chunks.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "data/dataset/dataset_internal.h"
#include "data/dataset/deal_internal.h"
#include "data/input/lines.h"

struct dealt_intake {
    struct intake base;
    const struct dealt *dealt;
    struct reader *reader;
    size_t cell, at; // the cell, and the offset in the text, at which the next chunk
                     // begins
    uint64_t number, line;
};

static size_t cell_end(const struct dealt *x, size_t cell)
{
    return cell + 1 < x->n ? x->cells[cell + 1].at : x->len;
}

static int dealt_next(struct intake *base, struct chunk **ret, struct err *e)
{
    struct dealt_intake *in = (void *)base;
    const struct dealt *x = in->dealt;
    const struct reader_layout *layout;
    *ret = NULL;
    while (in->cell < x->n && cell_end(x, in->cell) <= in->at)
        in->cell++;
    if (in->cell == x->n)
        return 0;
    uint32_t file = x->cells[in->cell].file;
    size_t last = in->cell;
    while (last + 1 < x->n && x->cells[last + 1].file == file)
        last++;
    TRY(dataset_read_headers(in->reader, x->pieces, file, &layout, e));
    struct chunk *c = mem_alloc(sizeof(*c));
    if (c == NULL)
        return err_nomem(e, "a chunk of text");
    *c = (struct chunk){.text = x->text + in->at,
                        .len = chunk_length(x->text + in->at, cell_end(x, last) - in->at),
                        .number = in->number++,
                        .file = file,
                        .line = in->line,
                        .offset = in->at + 1, // not 0, because a cell never begins with a
                                              // header
                        .layout = layout};
    in->line += count_lines(c->text, c->len);
    in->at += c->len;
    *ret = c;
    return 0;
}

static void dealt_release(struct intake *in, struct chunk *c)
{
    (void)in;
    mem_free(c);
}

static const char *dealt_name(const struct intake *in, uint32_t file)
{
    const struct dealt *x = ((const struct dealt_intake *)(const void *)in)->dealt;
    return pieces_file_name(x->pieces, file);
}

static int dealt_line(struct intake *base, const struct chunk *c, uint32_t line,
                      uint64_t *ret_line, struct err *e)
{
    const struct dealt *x = ((const struct dealt_intake *)(const void *)base)->dealt;
    const char *p = c->text;
    for (; line > 0; line--)
        p = (const char *)memchr(p, '\n', (size_t)(c->text + c->len - p)) + 1;
    size_t at = (size_t)(p - x->text), cell = 0;
    while (cell_end(x, cell) <= at)
        cell++;
    const struct dealt_cell *k = &x->cells[cell];
    struct deal_place place = {.file = k->file,
                               .index = k->index,
                               .bucket = x->bucket,
                               .nth = count_lines(x->text + k->at, at - k->at)};
    return deal_find_line(x->deal, x->pieces, &place, ret_line, e);
}

int dataset_load_dealt(struct dataset **ret, const struct dataset_options *o,
                       const struct dealt *x, struct err *e)
{
    struct dealt_intake in = {.base = {.next = dealt_next,
                                       .release = dealt_release,
                                       .name = dealt_name,
                                       .line = dealt_line},
                              .dealt = x,
                              .reader = o->reader,
                              .line = 1};
    struct dataset *d = NULL;
    TRY(dataset_load_from(&d, o, &in.base, e));
    d->dealt = true;
    *ret = d;
    return 0;
}
