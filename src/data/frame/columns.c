// Takes over Arrow arrays and checks them. The interface does not contain the sizes of
// buffers, so offsets are checked against each other and against the lengths of their
// arrays.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/frame/columns.h"

#include <string.h>

#include "base/alloc.h"
#include "data/format/grow.h"
#include "data/format/reader_ops.h"

static int malformed(const struct column_type *t, const char *why, struct err *e)
{
    return err_set(e, TUG_EDATA, "column '%s': its Arrow array is malformed: %s",
                   show(t->name, strlen(t->name)).text, why);
}

// Returns how many buffers an array of this type has; -1 if their number varies.
static int64_t buffers_of(const struct column_type *t)
{
    switch (t->kind) {
    case COLUMN_NULL:
        return 0;
    case COLUMN_LIST:
        return t->bytes != 0 ? 2 : 1;
    case COLUMN_TEXT:
        return 3;
    case COLUMN_BOOL:
    case COLUMN_WHOLE:
    case COLUMN_REAL:
    case COLUMN_DICTIONARY:
    case COLUMN_DATE:
    case COLUMN_CLOCK:
    case COLUMN_TIME:
    case COLUMN_DECIMAL:
        return 2;
    case COLUMN_VIEW:
    case COLUMN_OTHER:
        break;
    }
    return -1;
}

// Returns whether the length and offset are so small that their sum, counted in bits or
// bytes, cannot overflow.
static bool is_extent(const struct ArrowArray *a)
{
    return a->length >= 0 && a->offset >= 0 && a->length <= INT64_MAX / 64 &&
           a->offset <= INT64_MAX / 64;
}

static int check_shape(const struct column_type *t, const struct ArrowArray *a,
                       struct err *e)
{
    int64_t buffers = buffers_of(t), children = t->kind == COLUMN_LIST;
    if (a->null_count < -1 || a->null_count > a->length)
        return malformed(t, "it has more nulls than values", e);
    if ((buffers >= 0 ? a->n_buffers != buffers : a->n_buffers < 3) ||
        (a->n_buffers > 0 && a->buffers == NULL))
        return malformed(t, "its number of buffers does not fit its format", e);
    if (a->n_children != children ||
        (children > 0 && (a->children == NULL || a->children[0] == NULL)))
        return malformed(t, "its number of children does not fit its format", e);
    if ((a->dictionary != NULL) != (t->kind == COLUMN_DICTIONARY))
        return malformed(t, "its dictionary does not fit its schema", e);
    if (a->null_count > 0 && a->n_buffers > 0 && a->buffers[0] == NULL)
        return malformed(t, "it has nulls, but no bitmap of them", e);
    if (a->n_buffers > 1 && a->buffers[1] == NULL && a->length > 0)
        return malformed(t, "a buffer is missing", e);
    return 0;
}

static int64_t offset_at(const struct column_span *s, int64_t i)
{
    if (s->type->bytes == 4)
        return ((const int32_t *)s->values)[s->offset + i];
    return ((const int64_t *)s->values)[s->offset + i];
}

// Checks that offsets ascend from 0 or more; *ret is the last one.
static int check_offsets(const struct column_span *s, int64_t *ret, struct err *e)
{
    int64_t before = 0;
    for (int64_t i = 0; s->length > 0 && i <= s->length; i++) {
        int64_t at = offset_at(s, i);
        if (at < before)
            return malformed(s->type, "its offsets descend, or are negative", e);
        before = at;
    }
    *ret = before;
    return 0;
}

struct view {
    int32_t len;
    char begin[4];
    int32_t buffer, offset;
};

enum { VIEW_INLINE = 12, VIEW_BEFORE = 2 };

static int check_views(const struct column_span *s, const struct ArrowArray *a,
                       struct err *e)
{
    int64_t texts = a->n_buffers - VIEW_BEFORE - 1;
    const int64_t *sizes = a->buffers[a->n_buffers - 1];
    const struct view *view = s->values;
    for (int64_t i = s->offset; i < s->offset + s->length; i++) {
        struct view v = view[i];
        if (s->valid != NULL && (s->valid[i >> 3] >> (i & 7) & 1) == 0)
            continue;
        if (v.len < 0)
            return malformed(s->type, "a text's length is negative", e);
        if (v.len > VIEW_INLINE &&
            (v.buffer < 0 || v.buffer >= texts || v.offset < 0 || sizes == NULL ||
             a->buffers[VIEW_BEFORE + v.buffer] == NULL ||
             (int64_t)v.offset + v.len > sizes[v.buffer]))
            return malformed(s->type, "a text lies outside of its buffers", e);
    }
    return 0;
}

static int take_span(const struct column_type *t, const struct ArrowArray *a,
                     struct column_span *ret, struct err *e);

static int take_inner(const struct ArrowArray *a, struct column_span *s, struct err *e)
{
    s->of = mem_zalloc(sizeof(*s->of));
    return s->of != NULL ? take_span(s->type->of, a, s->of, e) : err_nomem(e, "columns");
}

static int take_list(const struct ArrowArray *a, struct column_span *s, struct err *e)
{
    int64_t last = 0;
    TRY(take_inner(a->children[0], s, e));
    if (s->type->bytes != 0)
        TRY(check_offsets(s, &last, e));
    else if (__builtin_mul_overflow(s->offset + s->length, s->type->each, &last))
        return malformed(s->type, "its length or offset is negative, or too large", e);
    return last <= s->of->length
               ? 0
               : malformed(s->type, "its lists extend beyond the array of items", e);
}

static int columns_take_text(const struct ArrowArray *a, struct column_span *s,
                             struct err *e)
{
    int64_t last;
    TRY(check_offsets(s, &last, e));
    s->text = a->buffers[2];
    return s->text != NULL || last == 0 ? 0
                                        : malformed(s->type, "a buffer is missing", e);
}

static int take_span(const struct column_type *t, const struct ArrowArray *a,
                     struct column_span *ret, struct err *e)
{
    *ret = (struct column_span){.type = t, .offset = a->offset, .length = a->length};
    if (!is_extent(a))
        return malformed(t, "its length or offset is negative, or too large", e);
    if (t->kind == COLUMN_OTHER)
        return 0;
    TRY(check_shape(t, a, e));
    if (a->n_buffers > 0 && a->null_count != 0)
        ret->valid = a->buffers[0];
    if (a->n_buffers > 1)
        ret->values = a->buffers[1];
    if (t->kind == COLUMN_DICTIONARY)
        return take_inner(a->dictionary, ret, e);
    if (t->kind == COLUMN_LIST)
        return take_list(a, ret, e);
    if (t->kind == COLUMN_TEXT)
        return columns_take_text(a, ret, e);
    if (t->kind == COLUMN_VIEW) {
        ret->texts = (const void *const *)a->buffers + VIEW_BEFORE;
        return check_views(ret, a, e);
    }
    return 0;
}

void columns_free_spans(struct column_span *span, size_t n)
{
    for (size_t i = 0; i < n && span != NULL; i++)
        columns_free_spans(span[i].of, span[i].of != NULL);
    mem_free(span);
}

static int check_rows(const struct columns *c, const struct ArrowArray *a, struct err *e)
{
    if (!is_extent(a) || c->rows > INT64_MAX / 64 || a->null_count < -1 ||
        a->n_buffers != 1 || a->buffers == NULL || a->children == NULL)
        return err_set(e, TUG_EDATA, "the Arrow array of the rows is malformed");
    if (a->n_children != (int64_t)c->n)
        return err_set(e, TUG_EDATA,
                       "the Arrow array has %lld columns, and its schema %zu",
                       (long long)a->n_children, c->n);
    if (a->null_count > 0 || (a->null_count < 0 && a->buffers[0] != NULL))
        return err_set(e, TUG_EDATA,
                       "the Arrow array has rows that are null as a whole: leave them "
                       "out, or make their values null");
    return 0;
}

// Takes the columns of a struct array. The offset of the struct array applies to each
// column.
static int take_columns(const struct columns *c, const struct ArrowArray *a,
                        struct column_span *span, struct err *e)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct ArrowArray *child = a->children[i];
        if (child == NULL)
            return malformed(&c->type[i], "it is missing", e);
        TRY(take_span(&c->type[i], child, &span[i], e));
        if (child->length < a->offset + a->length)
            return malformed(&c->type[i], "it has fewer values than there are rows", e);
        span[i].offset += a->offset;
        span[i].length = a->length;
    }
    return 0;
}

// On success, the columns own the array; on failure, the caller still owns it.
int columns_take_array(struct columns *c, struct ArrowArray *a, struct err *e)
{
    TRY(check_rows(c, a, e));
    if (!grow(&c->batch, c->batches + 1, sizeof(*c->batch)))
        return err_nomem(e, "columns");
    struct column_span *span = mem_zalloc(c->n * sizeof(*span));
    if (span == NULL)
        return err_nomem(e, "columns");
    int rc = take_columns(c, a, span, e);
    if (rc != 0) {
        columns_free_spans(span, c->n);
        return rc;
    }
    c->batch[c->batches++] = (struct columns_batch){*a, c->rows, span};
    c->rows += (uint64_t)a->length;
    a->release = NULL;
    return 0;
}

// ---------------------------------------------------------------- opening

static int producer_failed(struct columns *c, int code, struct err *e)
{
    const char *why = c->stream.get_last_error != NULL
                          ? c->stream.get_last_error(&c->stream)
                          : NULL;
    return err_set(e, TUG_EDATA, "the producer of the Arrow stream failed: %s",
                   why != NULL ? why : strerror(code));
}

static int read_stream(struct columns *c, struct err *e)
{
    int code = c->stream.get_schema(&c->stream, &c->schema);
    if (code != 0) {
        c->schema.release = NULL;
        return producer_failed(c, code, e);
    }
    TRY(columns_take_schema(c, e));
    for (;;) {
        struct ArrowArray a = {0};
        code = c->stream.get_next(&c->stream, &a);
        if (code != 0)
            return producer_failed(c, code, e);
        if (a.release == NULL)
            return 0;
        int rc = a.length != 0 ? columns_take_array(c, &a, e) : 0;
        if (a.release != NULL)
            a.release(&a);
        TRY(rc);
    }
}

static int columns_finish(struct columns *c, int rc, struct columns **ret)
{
    if (rc == 0)
        *ret = c;
    else
        columns_close(c);
    return rc;
}

int columns_open_stream(struct columns **ret, struct ArrowArrayStream *s, struct err *e)
{
    if (s->release == NULL)
        return err_set(e, TUG_EUSAGE, "the Arrow stream was read already");
    if (s->get_schema == NULL || s->get_next == NULL) {
        s->release(s);
        return err_set(e, TUG_EDATA,
                       "the Arrow stream is malformed: it lacks a function");
    }
    struct columns *c = mem_zalloc(sizeof(*c));
    if (c == NULL) {
        s->release(s);
        return err_nomem(e, "columns");
    }
    c->stream = *s;
    s->release = NULL;
    return columns_finish(c, read_stream(c, e), ret);
}

int columns_open_array(struct columns **ret, struct ArrowSchema *s, struct ArrowArray *a,
                       struct err *e)
{
    if (s->release == NULL || a->release == NULL)
        return err_set(e, TUG_EUSAGE, "the Arrow array was read already");
    struct columns *c = mem_zalloc(sizeof(*c));
    int rc = c != NULL ? 0 : err_nomem(e, "columns");
    if (c != NULL) {
        c->schema = *s;
        s->release = NULL;
        rc = columns_take_schema(c, e);
    }
    if (rc == 0 && a->length != 0)
        rc = columns_take_array(c, a, e);
    if (s->release != NULL)
        s->release(s);
    if (a->release != NULL)
        a->release(a);
    return columns_finish(c, rc, ret);
}

void columns_close(struct columns *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->batches; i++) {
        columns_free_spans(c->batch[i].span, c->n);
        c->batch[i].array.release(&c->batch[i].array);
    }
    mem_free(c->batch);
    columns_free_types(c->type, c->n);
    if (c->schema.release != NULL)
        c->schema.release(&c->schema);
    if (c->stream.release != NULL)
        c->stream.release(&c->stream);
    mem_free(c);
}
