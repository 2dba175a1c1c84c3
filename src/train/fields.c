// See fields.h. The number of fields comes from the header, or from reading the data
// once, in windows that are not kept.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset/dataset.h"
#include "data/source/origins.h"
#include "data/source/source.h"
#include "train/columns.h"

enum { WINDOW_CHUNKS = 32 };

static int count_window(struct dataset_options *o, uint32_t *fields, bool *ret_more,
                        struct err *e)
{
    struct dataset *d;
    TRY(dataset_load(&d, o, e));
    if (dataset_slots(d) > *fields)
        *fields = dataset_slots(d);
    *ret_more = !dataset_at_end(d);
    dataset_close(d);
    return 0;
}

// Sets the error that the data has no field: the error in its first bad line, or else
// that no line has a feature.
static int no_fields(struct dataset_options *o, struct err *e)
{
    uint32_t fields = 0;
    TRY(source_rewind(o->source, SOURCE_START, e));
    o->max_bad_lines = 0;
    for (bool more = true; more;)
        TRY(count_window(o, &fields, &more, e));
    return err_set(e, TUG_EDATA,
                   "%s: no line has a feature (label field:index:value ...)",
                   source_file_name(o->source, 0));
}

static int count_by_reading(struct team *team, const struct path_list *paths,
                            struct reader *reader, const atomic_bool *interrupted,
                            struct model_options *m, struct err *e)
{
    uint64_t bad = 0;
    struct source_options s = {.paths = paths->items,
                               .n_paths = paths->n,
                               .command = paths->command,
                               .interrupted = interrupted};
    struct dataset_options o = {
        .reader = reader,
        .team = team,
        .resolve = dataset_resolve_nothing,
        .max_chunks = WINDOW_CHUNKS,
        // Bad lines are counted when the data is read for training, which may then stop.
        .max_bad_lines = UINT64_MAX,
        .bad_lines = &bad,
    };
    TRY(source_open(&o.source, &s, e));
    int rc = 0;
    if (!source_can_rewind(o.source))
        rc = err_set(e, TUG_EUSAGE,
                     "the model %s needs --fields N when it reads standard input, "
                     "because the fields cannot be counted in advance",
                     m->ops->name);
    if (rc == 0 && reader_has_header(reader)) {
        rc = columns_decide(reader, o.source, e);
        m->fields = reader_slots(reader);
    } else {
        for (bool more = true; rc == 0 && more;)
            rc = count_window(&o, &m->fields, &more, e);
        if (rc == 0 && m->fields == 0)
            rc = no_fields(&o, e);
    }
    source_close(o.source);
    return rc;
}

int fields_count(struct team *team, const struct path_list *paths,
                 const struct reader_options *options, struct reader *reader,
                 const atomic_bool *interrupted, struct model_options *m, struct err *e)
{
    if (!m->ops->needs_fields || m->fields != 0)
        return 0;
    if (reader_format_lacks_fields(options->format))
        return err_set(e, TUG_EUSAGE,
                       "the model %s needs fields, and %s has none: use format "
                       "libffm (label field:index:value ...), criteo, csv or "
                       "multislot",
                       m->ops->name, options->format);
    m->fields = reader_slots(reader);
    return m->fields != 0 ? 0 : count_by_reading(team, paths, reader, interrupted, m, e);
}

// Returns the length of a multislot column: 3 for "price[3]".
static uint32_t numbers_in(const struct schema *s, const char *name)
{
    const char *open = strchr(name, '[');
    return strcmp(s->format, "multislot") == 0 && open != NULL
               ? (uint32_t)strtoul(open + 1, NULL, 10)
               : 1;
}

int fields_numbers(const struct schema *s, struct model_options *m, struct err *e)
{
    struct schema_column c;
    uint32_t field = 0, all = 0;
    m->n_numbers = 0;
    for (size_t at = 0; m->data_norm && schema_next(s, &at, &c);) {
        uint32_t n = c.use == SCHEMA_NUMBERS || c.use == SCHEMA_LOGS
                         ? numbers_in(s, c.name)
                         : 0;
        all += n;
        if (n > 0 && (m->n_numbers == MODEL_MAX_NUMBERS || all > UINT16_MAX))
            return err_set(e, TUG_EUSAGE,
                           "--data-norm: the data has more than %d columns of numbers, "
                           "or more than %d numbers",
                           MODEL_MAX_NUMBERS, UINT16_MAX);
        if (n > 0)
            m->numbers[m->n_numbers++] = (struct model_numbers){field, n};
        field += schema_is_feature(c.use);
    }
    if (!m->data_norm || m->n_numbers > 0)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "--data-norm: no column of the data is numbers; name them with "
                   "--numeric (csv), or give slots the type dense (multislot)");
}

// Parses one "COLUMN=N" of `len` characters. The name of a column may contain '='.
static int read_dim(const struct schema *s, const char *text, size_t len, uint32_t fields,
                    struct model_dim *ret, struct err *e)
{
    size_t at = len;
    while (at > 0 && text[at - 1] != '=')
        at--;
    char *end = NULL;
    bool digit = text[at] >= '0' && text[at] <= '9';
    unsigned long n = digit ? strtoul(text + at, &end, 10) : 0;
    if (at < 2 || n < 1 || n > MODEL_MAX_DIM || end != text + len)
        return err_set(e, TUG_EUSAGE,
                       "--dims: '%.*s' is not COLUMN=N, where N, the length of the "
                       "column's vectors, is 1 to %d",
                       (int)(len < 100 ? len : 100), text, MODEL_MAX_DIM);
    ret->dim = (uint32_t)n;
    int rc = reader_schema_find_slot(s, text, at - 1, fields, &ret->field, e);
    return rc != 0 ? err_wrap(e, "--dims") : 0;
}

static int by_field(const void *a, const void *b)
{
    const struct model_dim *x = a, *y = b;
    return x->field < y->field ? -1 : x->field > y->field;
}

static int read_dims(const struct schema *s, const char *text, struct model_options *m,
                     struct err *e)
{
    const char *item;
    for (size_t len; reader_next_name(&text, &item, &len); m->n_dims++) {
        if (m->n_dims == MODEL_MAX_DIMS)
            return err_set(e, TUG_EUSAGE, "--dims has more than %d columns",
                           MODEL_MAX_DIMS);
        struct model_dim *d = &m->dims[m->n_dims];
        TRY(read_dim(s, item, len, m->fields, d, e));
        for (uint32_t i = 0; i < m->n_dims; i++)
            if (m->dims[i].field == d->field)
                return err_set(e, TUG_EUSAGE,
                               "--dims: the column of '%.*s' has a length already",
                               (int)(len < 100 ? len : 100), item);
    }
    return 0;
}

int fields_dims(const struct schema *s, const char *text, struct model_options *m,
                struct err *e)
{
    m->n_dims = 0;
    if (text == NULL)
        return 0;
    if (strnlen(text, FIELDS_DIMS_MAX) == FIELDS_DIMS_MAX)
        return err_set(e, TUG_EUSAGE, "--dims has %d characters or more",
                       FIELDS_DIMS_MAX);
    if (strcmp(s->format, "csv") == 0 && s->columns == 0)
        return err_set(e, TUG_EUSAGE,
                       "--dims and --fields cannot be used together with csv: in csv "
                       "data the columns decide the number of fields");
    TRY(read_dims(s, text, m, e));
    qsort(m->dims, m->n_dims, sizeof(*m->dims), by_field);
    return 0;
}

void fields_dims_print(const struct schema *s, const struct model_options *m,
                       char ret[FIELDS_DIMS_MAX])
{
    struct buf b = BUF_INIT(FIELDS_DIMS_MAX);
    int rc = 0;
    for (uint32_t i = 0; i < m->n_dims && rc == 0; i++) {
        rc = buf_add(&b, ",", i > 0);
        if (rc == 0)
            rc = reader_schema_slot_name(s, m->dims[i].field, &b);
        if (rc == 0)
            rc = buf_printf(&b, "=%u", m->dims[i].dim);
    }
    const char *text = rc == 0 ? buf_str(&b) : NULL;
    snprintf(ret, FIELDS_DIMS_MAX, "%s", text != NULL ? text : "");
    buf_free(&b);
}

static uint32_t highest_slot(const struct batch *b)
{
    uint32_t max = 0;
    for (size_t j = 0; j < b->nnz; j++)
        max = b->slot[j] > max ? b->slot[j] : max;
    return max;
}

// Reports the first example with a field that is too high; the caller knows that one
// exists.
static int explain_field(const struct dataset *d, const struct source *s,
                         const struct pieces *p, uint32_t fields, struct err *e)
{
    struct batch b = {0};
    uint64_t i = 0;
    int rc = dataset_gather(d, &i, 1, &b);
    while (rc == 0 && highest_slot(&b) < fields && ++i < dataset_size(d))
        rc = dataset_gather(d, &i, 1, &b);
    uint32_t slot = rc == 0 ? highest_slot(&b) : 0, file;
    uint64_t line;
    char where[ORIGIN_TEXT_MAX];
    batch_free(&b);
    if (rc != 0)
        return err_nomem(e, "a batch");
    dataset_where(d, i, &file, &line);
    origins_text(s != NULL ? source_file_name(s, file) : pieces_file_name(p, file), line,
                 where);
    return err_set(e, TUG_EDATA,
                   "%s: field %u is not below %u, the number of the model's fields: "
                   "give --fields N when training, or data with the same fields%s",
                   where, slot, fields, slot == fields ? READER_FIELDS_FROM_1 : "");
}

int fields_check(const struct dataset *d, const struct source *s, const struct pieces *p,
                 const struct model_options *m, struct numbering *seen, struct err *e)
{
    if (!m->ops->needs_fields)
        return 0;
    if (seen != NULL)
        numbering_add_fields(seen, dataset_first_slot(d), dataset_slots(d));
    if (dataset_slots(d) <= m->fields)
        return 0;
    return explain_field(d, s, p, m->fields, e);
}
