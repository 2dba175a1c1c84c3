// Reads text in the format of the model's data, columns in memory, and names of features,
// as the training data was read.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "data/format/grow.h"
#include "data/frame/rows.h"
#include "serve/score_internal.h"

enum { LINE_MAX_BYTES = 64 << 20 };

void score_close_text(struct scratch *x)
{
    reader_close(x->reader);
    x->reader = NULL;
    x->layout = NULL;
    buf_free(&x->header);
    buf_free(&x->line);
    examples_free(&x->examples);
    mem_free(x->offsets);
    mem_free(x->fields);
    x->offsets = NULL;
    x->fields = NULL;
    x->cap_offsets = x->cap_fields = 0;
}

static int open_reader(const struct served *s, struct scratch *x, struct err *e)
{
    const struct reader_options o = {.schema = &s->run->schema,
                                     .fields = s->run->options.model.fields,
                                     .no_options = true};
    if (x->reader != NULL)
        return 0;
    x->header = BUF_INIT(LINE_MAX_BYTES);
    x->line = BUF_INIT(LINE_MAX_BYTES + READER_PADDING);
    x->layout = NULL;
    return reader_open(&x->reader, &o, e);
}

// Takes a header. A reader can have only one header, so a different one gets a new
// reader.
static int take_header(const struct served *s, struct scratch *x, const char *line,
                       size_t len, struct err *e)
{
    if (x->layout != NULL && x->header.len == len &&
        memcmp(x->header.data, line, len) == 0)
        return 0;
    score_close_text(x);
    TRY(open_reader(s, x, e));
    if (buf_add(&x->header, line, len) != 0)
        return buf_error(&x->header, "a header", e);
    int rc = reader_header(x->reader, line, len, &x->layout, e);
    if (rc != 0)
        x->layout = NULL;
    return rc;
}

static int take_line(struct scratch *x, const char *line, size_t len, struct err *e)
{
    static const char padding[READER_PADDING] = "\n";
    buf_clear(&x->line);
    if (len > LINE_MAX_BYTES)
        return err_set(e, TUG_EDATA, "it has more than %d bytes", LINE_MAX_BYTES);
    if (buf_add(&x->line, line, len) != 0 ||
        buf_add(&x->line, padding, sizeof(padding)) != 0)
        return err_nomem(e, "a line");
    return reader_line(x->reader, x->layout, x->line.data, len, &x->examples, e);
}

static int score_text_take_text(const struct served *s, struct scratch *x,
                                const char *text, size_t bytes, struct err *e)
{
    const char *end = text + bytes;
    TRY(open_reader(s, x, e));
    bool header = reader_has_header(x->reader);
    if (!header &&
        x->layout != NULL) { // only columns in memory have a layout without a header
        score_close_text(x);
        TRY(open_reader(s, x, e));
    }
    examples_clear(&x->examples);
    for (size_t number = 1; text < end; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((stop != NULL ? stop : end) - text);
        int rc = header && number == 1 ? take_header(s, x, text, len, e)
                                       : take_line(x, text, len, e);
        if (rc != 0)
            return rc == TUG_EDATA ? err_wrap(e, "line %zu", number) : rc;
        text += len + (stop != NULL);
    }
    return 0;
}

// Takes the names of columns in memory, even if the text that the model was trained on
// had no header.
static int take_names(const struct served *s, struct scratch *x, const struct rows *rows,
                      struct err *e)
{
    struct buf names = BUF_INIT(LINE_MAX_BYTES);
    int rc = columns_header(rows, &names) == 0
                 ? take_header(s, x, buf_str(&names), names.len, e)
                 : buf_error(&names, "the names of columns", e);
    buf_free(&names);
    return rc == TUG_EDATA ? err_wrap(e, "%s", rows->name) : rc;
}

static int take_columns(const struct served *s, struct scratch *x,
                        const struct rows *rows, struct err *e)
{
    TRY(take_names(s, x, rows, e));
    examples_clear(&x->examples);
    for (uint64_t i = 0; i < rows->n; i++) {
        int rc = reader_row(x->reader, x->layout, rows, i, &x->examples, e);
        if (rc != 0)
            return rc == TUG_EDATA
                       ? err_wrap(e, "%s: row %llu", rows->name, (unsigned long long)i)
                       : rc;
    }
    return 0;
}

static int score_text_reserve(struct scratch *x, size_t n, size_t nnz, struct err *e)
{
    if (n > x->cap_offsets) {
        if (!grow(&x->offsets, n + n / 2, sizeof(*x->offsets)))
            return err_nomem(e, "examples");
        x->cap_offsets = n + n / 2;
    }
    if (nnz > x->cap_fields) {
        if (!grow(&x->fields, nnz + nnz / 2, sizeof(*x->fields)))
            return err_nomem(e, "examples");
        x->cap_fields = nnz + nnz / 2;
    }
    return 0;
}

static int rows_of(struct scratch *x, struct score_rows *ret, struct err *e)
{
    const struct examples *a = &x->examples;
    TRY(score_text_reserve(x, a->n + 1, a->nnz + 1, e));
    for (size_t i = 0; i <= a->n; i++)
        x->offsets[i] = a->n > 0 ? a->start[i] : 0;
    for (size_t j = 0; j < a->nnz; j++)
        x->fields[j] = a->slot[j];
    *ret = (struct score_rows){.n = a->n,
                               .offsets = x->offsets,
                               .keys = a->key,
                               .fields = x->fields,
                               .values = a->has_values ? a->value : NULL};
    return 0;
}

// Scores the examples that the reader has parsed so far.
static int score_taken(struct served *s, struct served_reader *r,
                       const struct score_given *given, bool raw, float *ret, size_t room,
                       size_t *ret_n, uint32_t *ret_number, struct err *e)
{
    struct score_rows rows;
    TRY(rows_of(r->scratch, &rows, e));
    *ret_n = rows.n;
    if (rows.n * s->model.options.tasks > room)
        return err_set(e, TUG_EUSAGE, "there are %zu predictions, and room for %zu",
                       rows.n * s->model.options.tasks, room);
    TRY(score_count_begin(r->scratch, e));
    int rc = score_by(s, r, &rows, raw, ret, ret_number, e);
    score_count_end(s, served_pin(s, r), r->scratch, given);
    served_unpin(r);
    return rc;
}

int score_text(struct served *s, const char *text, size_t bytes, bool raw, float *ret,
               size_t room, size_t *ret_n, uint32_t *ret_number, struct err *e)
{
    struct served_reader *r;
    *ret_n = 0;
    TRY(score_enter(s, &r, e));
    const struct score_given given = {.text = text, .bytes = bytes};
    int rc = score_text_take_text(s, r->scratch, text, bytes, e);
    if (rc == 0)
        rc = score_taken(s, r, &given, raw, ret, room, ret_n, ret_number, e);
    served_leave(r);
    return rc;
}

int score_columns(struct served *s, const struct rows *rows, bool raw, float *ret,
                  size_t room, size_t *ret_n, uint32_t *ret_number, struct err *e)
{
    struct served_reader *r;
    *ret_n = 0;
    TRY(score_enter(s, &r, e));
    const struct score_given given = {.rows = rows};
    int rc = take_columns(s, r->scratch, rows, e);
    if (rc == 0)
        rc = score_taken(s, r, &given, raw, ret, room, ret_n, ret_number, e);
    served_leave(r);
    return rc;
}

static int find_feature(const struct served *s, struct scratch *x, const char *name,
                        uint64_t *ret_key, uint32_t *ret_field, struct err *e)
{
    struct reader_word w = {0};
    TRY(open_reader(s, x, e));
    const char *equals = strchr(name, '=');
    if (equals == NULL)
        return err_set(e, TUG_EUSAGE,
                       "'%.200s' is not the name of a feature: names are COLUMN=WORD",
                       name);
    if (!reader_hashes(x->reader))
        return err_set(
            e, TUG_EUSAGE,
            "'%.200s': features of %s data are numbers and have no names: use their keys",
            name, s->run->schema.format);
    int rc = reader_find_slot(x->reader, name, (size_t)(equals - name),
                              reader_slots(x->reader), ret_field, e);
    if (rc == TUG_EUSAGE)
        (void)err_wrap(e, "the data of the model");
    TRY(rc);
    TRY(reader_word(x->reader, *ret_field, equals + 1, strlen(equals + 1), &w, e));
    *ret_key = w.key;
    return 0;
}

int score_feature(struct served *s, const char *name, uint64_t *ret_key,
                  uint32_t *ret_field, struct err *e)
{
    struct served_reader *r;
    TRY(score_enter(s, &r, e));
    int rc = find_feature(s, r->scratch, name, ret_key, ret_field, e);
    served_leave(r);
    return rc;
}
