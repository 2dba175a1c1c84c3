// Loads data sets from a source: takes its chunks in order, each with the layout that the
// header of its file gives.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "data/dataset/dataset_internal.h"
#include "data/dataset/dataset_merge.h"
#include "data/frame/rows.h"
#include "data/input/lines.h"

struct source_intake {
    struct intake base;
    const struct dataset_options *o;
    size_t taken;
    bool ended;
};

// Reads the header of a file for a resumed run, which begins in the middle of the file.
static int missed_header(const struct dataset_options *o, uint32_t file,
                         const struct reader_layout **ret, struct err *e)
{
    struct buf line = BUF_INIT(MAX_LINE_BYTES);
    int rc = source_first_line(o->source, file, &line, e);
    if (rc == 0)
        rc = reader_header(o->reader, buf_str(&line), line.len, ret, e);
    buf_free(&line);
    return rc;
}

// Reads the names of columns in memory. Such columns have names even if the model was
// trained on files without a header.
static int read_names(const struct dataset_options *o, struct chunk *c, struct err *e)
{
    struct buf line = BUF_INIT((size_t)1 << 30);
    reader_see_rows(o->reader, c->rows);
    int rc = columns_header(c->rows, &line);
    rc = rc == 0 ? reader_header(o->reader, buf_str(&line), line.len, &c->layout, e)
                 : buf_error(&line, "the names of columns", e);
    buf_free(&line);
    return rc == TUG_EDATA ? err_wrap(e, "%s", c->rows->name) : rc;
}

static int read_header(const struct dataset_options *o, struct chunk *c, struct err *e)
{
    if (c->rows != NULL && c->rows->columns != NULL)
        return read_names(o, c, e);
    if (!reader_has_header(o->reader))
        return 0;
    reader_see_rows(o->reader, NULL); // a file follows the rows in memory, for example
                                      // for validation
    int rc = 0;
    c->layout = source_layout(o->source, c->file);
    if (c->offset == 0 && reader_is_blank(o->reader, c->text, c->len))
        return 0;
    if (c->offset == 0) {
        const char *end = memchr(c->text, '\n', c->len);
        size_t len = end != NULL ? (size_t)(end - c->text) : c->len;
        rc = reader_header(o->reader, c->text, len, &c->layout, e);
    } else if (c->layout == NULL) {
        rc = missed_header(o, c->file, &c->layout, e);
    }
    if (rc == 0)
        source_set_layout(o->source, c->file, c->layout);
    return rc == TUG_EDATA
               ? reader_wrap_header(o->reader, source_file_name(o->source, c->file), e)
               : rc;
}

static int source_intake_next(struct intake *in, struct chunk **ret, struct err *e)
{
    struct source_intake *s = (void *)in;
    const struct dataset_options *o = s->o;
    *ret = NULL;
    if (o->max_chunks != 0 && s->taken == o->max_chunks)
        return 0;
    TRY(source_next(o->source, ret, e));
    s->ended = *ret == NULL;
    if (s->ended)
        return 0;
    s->taken++;
    int rc = read_header(o, *ret, e);
    if (rc != 0) {
        source_release(o->source, *ret);
        *ret = NULL;
    }
    return rc;
}

static void source_intake_release(struct intake *in, struct chunk *c)
{
    source_release(((struct source_intake *)(void *)in)->o->source, c);
}

static const char *source_intake_name(const struct intake *in, uint32_t file)
{
    return source_file_name(((const struct source_intake *)(const void *)in)->o->source,
                            file);
}

static int source_intake_line(struct intake *in, const struct chunk *c, uint32_t line,
                              uint64_t *ret_line, struct err *e)
{
    (void)in, (void)e;
    *ret_line = c->line + line;
    return 0;
}

int dataset_load(struct dataset **ret, const struct dataset_options *o, struct err *e)
{
    struct source_intake s = {.base = {.next = source_intake_next,
                                       .release = source_intake_release,
                                       .name = source_intake_name,
                                       .line = source_intake_line},
                              .o = o};
    struct dataset *d = NULL;
    TRY(dataset_load_from(&d, o, &s.base, e));
    d->at_end = o->eager ? s.ended
                         : source_place(o->source).file == source_files(o->source);
    int rc = o->merge > 0 ? dataset_merge(&d, o, e) : 0;
    if (rc == 0)
        *ret = d;
    else
        dataset_close(d);
    return rc;
}
