// Counting fields by reading the data once, in windows, with nothing kept.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/fields.h"

#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "data/source.h"

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

static int count_by_reading(struct team *team, const struct path_list *paths,
                            struct reader *reader, const atomic_bool *interrupted,
                            struct model_options *m, struct err *e)
{
    bool headed = reader_has_header(reader);
    uint64_t bad = 0;
    struct source_options s = {.paths = paths->items,
                               .n_paths = paths->n,
                               .command = paths->command,
                               .interrupted = interrupted};
    struct dataset_options o = {
        .reader = reader,
        .team = team,
        .resolve = dataset_resolve_nothing,
        .max_chunks = headed ? 1 : WINDOW_CHUNKS,
        .max_bad_lines = UINT64_MAX, // the real reading judges them
        .bad_lines = &bad,
    };
    TRY(source_open(&o.source, &s, e));
    int rc = 0;
    if (!source_can_rewind(o.source))
        rc = err_set(e, TUG_EUSAGE,
                     "the model %s needs --fields N when it reads standard input, "
                     "because the fields cannot be counted in advance",
                     m->ops->name);
    for (bool more = true; rc == 0 && more;) {
        rc = count_window(&o, &m->fields, &more, e);
        if (headed)
            break;
    }
    source_close(o.source);
    if (headed)
        m->fields = reader_slots(reader);
    return rc;
}

int fields_count(struct team *team, const struct path_list *paths,
                 const struct reader_options *options, struct reader *reader,
                 const atomic_bool *interrupted, struct model_options *m, struct err *e)
{
    if (!m->ops->needs_fields || m->fields != 0)
        return 0;
    if (strcmp(options->format, "libsvm") == 0)
        return err_set(e, TUG_EUSAGE,
                       "the model %s needs fields, and libsvm has none: use format "
                       "libffm (label field:index:value ...), criteo, csv or "
                       "multislot",
                       m->ops->name);
    m->fields = reader_slots(reader);
    return m->fields != 0 ? 0 : count_by_reading(team, paths, reader, interrupted, m, e);
}

// Of a multislot column "price[3]" 3.
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

static uint32_t highest_slot(const struct batch *b)
{
    uint32_t max = 0;
    for (size_t j = 0; j < b->nnz; j++)
        max = b->slot[j] > max ? b->slot[j] : max;
    return max;
}

// Of an example whose field is too high, and there is one.
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
    batch_free(&b);
    if (rc != 0)
        return err_nomem(e, "a batch");
    dataset_where(d, i, &file, &line);
    return err_set(e, TUG_EDATA,
                   "%s:%llu: field %u is not below %u, the number of the model's fields: "
                   "give --fields N when training, or data with the same fields",
                   s != NULL ? source_file_name(s, file) : pieces_file_name(p, file),
                   (unsigned long long)line, slot, fields);
}

int fields_check(const struct dataset *d, const struct source *s, const struct pieces *p,
                 const struct model_options *m, struct err *e)
{
    if (!m->ops->needs_fields || dataset_slots(d) <= m->fields)
        return 0;
    return explain_field(d, s, p, m->fields, e);
}
