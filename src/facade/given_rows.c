// See given_rows.h. What a row holds is looked at when it is read; here only what would
// lead out of the arrays.
//
// SPDX-License-Identifier: Apache-2.0
#include "facade/given_rows.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

bool given_rows_are(const struct tug_data *d)
{
    return d->rows != NULL || d->matrix != NULL || d->columns != NULL;
}

const char *given_rows_format(const struct tug_data *d)
{
    if (d->columns != NULL)
        return "csv";
    return d->rows != NULL && d->rows->fields != NULL ? "libffm" : "libsvm";
}

static int check_sparse(const struct tug_rows *r, struct err *e)
{
    if (r->offsets == NULL || (r->keys == NULL && r->offsets[r->n] > r->offsets[0]))
        return err_set(e, TUG_EUSAGE, "rows: offsets or keys are missing");
    for (size_t i = 0; i < r->n; i++)
        if (r->offsets[i + 1] < r->offsets[i])
            return err_set(e, TUG_EUSAGE,
                           "rows: offsets descend from row %zu to the next: %" PRIu64
                           ", %" PRIu64,
                           i, r->offsets[i], r->offsets[i + 1]);
    return 0;
}

static int take_sparse(struct given_rows *to, const struct tug_rows *r, struct err *e)
{
    TRY(check_sparse(r, e));
    to->sparse = (struct sparse_rows){r->offsets, r->keys, r->fields, r->values};
    to->rows.sparse = &to->sparse;
    return 0;
}

static int take_dense(struct given_rows *to, const struct tug_matrix *m, struct err *e)
{
    if (m->values == NULL && m->columns > 0)
        return err_set(e, TUG_EUSAGE, "rows: the values of the matrix are missing");
    to->dense = (struct dense_rows){m->values, m->doubles, m->columns, m->row_bytes,
                                    m->column_bytes};
    to->rows.dense = &to->dense;
    return 0;
}

static int open_columns(struct given_rows *to, const struct tug_columns *c, struct err *e)
{
    if (c->stream != NULL)
        return columns_open_stream(&to->columns, c->stream, e);
    if (c->schema == NULL || c->array == NULL)
        return err_set(e, TUG_EUSAGE, "columns: there is neither a stream nor an array");
    return columns_open_array(&to->columns, c->schema, c->array, e);
}

static const char *label_of(const struct given_as *as)
{
    const char *of_model = as->schema != NULL && schema_labels(as->schema) > 0
                               ? schema_label(as->schema, 0)
                               : NULL;
    return of_model != NULL ? of_model : as->label != NULL ? as->label : "label";
}

static int take_columns(struct given_rows *to, const struct tug_columns *c,
                        const struct given_as *as, struct err *e)
{
    struct rows *r = &to->rows;
    TRY(open_columns(to, c, e));
    r->columns = to->columns;
    r->n = to->columns->rows;
    r->labels = c->labels;
    to->label_name = mem_strdup(label_of(as));
    if (to->label_name == NULL)
        return err_nomem(e, "the rows");
    r->label_name = to->label_name;
    r->separator = as->schema != NULL && as->schema->separator != 0
                       ? as->schema->separator
                       : ',';
    r->list_separator = '|';
    r->categorical = c->categorical;
    r->n_categorical = c->n_categorical;
    if (c->labels != NULL && c->n_labels != r->n)
        return err_set(e, TUG_EUSAGE, "there are %zu labels, and %llu rows", c->n_labels,
                       (unsigned long long)r->n);
    for (size_t i = 0; c->labels != NULL && i < to->columns->n; i++)
        if (strcmp(to->columns->type[i].name, r->label_name) == 0)
            return err_set(e, TUG_EUSAGE,
                           "there are labels beside the columns, and a column '%s', too: "
                           "give only one of them",
                           r->label_name);
    return r->n > 0 ? 0 : err_set(e, TUG_EUSAGE, "%s: there are no rows", r->name);
}

static int take_matrix(struct given_rows *r, const struct tug_data *d, bool labels,
                       struct err *e)
{
    r->rows.n = d->rows != NULL ? d->rows->n : d->matrix->n;
    r->rows.labels = d->rows != NULL ? d->rows->labels : d->matrix->labels;
    r->rows.weights = d->rows != NULL ? d->rows->weights : d->matrix->weights;
    if (r->rows.n == 0)
        return err_set(e, TUG_EUSAGE, "%s: there are no rows", r->rows.name);
    if (labels && r->rows.labels == NULL)
        return err_set(e, TUG_EUSAGE, "%s: labels are missing", r->rows.name);
    return d->rows != NULL ? take_sparse(r, d->rows, e) : take_dense(r, d->matrix, e);
}

int given_rows_open(struct given_rows *r, const struct tug_data *d,
                    const struct given_as *as, struct err *e)
{
    *r = (struct given_rows){.rows = {.name = as->name, .format = given_rows_format(d)}};
    int rc = d->columns != NULL ? take_columns(r, d->columns, as, e)
                                : take_matrix(r, d, as->labels, e);
    if (rc == 0)
        rc = rows_publish(&r->rows, r->address, e);
    if (rc != 0)
        given_rows_close(r);
    return rc;
}

void given_rows_close(struct given_rows *r)
{
    rows_withdraw(r->address);
    columns_close(r->columns);
    r->columns = NULL;
    mem_free(r->label_name);
    r->label_name = NULL;
    r->address[0] = '\0';
}

void given_rows_forget(const struct tug_data *d)
{
    const struct tug_columns *c = d != NULL ? d->columns : NULL;
    if (c == NULL)
        return;
    if (c->stream != NULL && c->stream->release != NULL)
        c->stream->release(c->stream);
    if (c->schema != NULL && c->schema->release != NULL)
        c->schema->release(c->schema);
    if (c->array != NULL && c->array->release != NULL)
        c->array->release(c->array);
}
