// Checks the arrays of rows in memory, as far as wrong indices would lead outside of
// them. The reader of the format checks the contents of the rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/models/given_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/format/reader_csv.h"

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
    to->sparse = (struct sparse_rows){r->offsets, r->keys, r->fields, r->values,
                                      r->fields == NULL ? r->columns : 0};
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
        return err_set(e, TUG_EUSAGE, "columns: neither a stream nor an array was given");
    return columns_open_array(&to->columns, c->schema, c->array, e);
}

static const char *label_of(const struct given_as *as)
{
    const char *of_model = as->schema != NULL && schema_labels(as->schema) > 0
                               ? schema_label(as->schema, 0)
                               : NULL;
    return of_model != NULL ? of_model : as->label;
}

static bool has_column(const struct columns *c, const char *name)
{
    for (size_t i = 0; i < c->n && name != NULL; i++)
        if (csv_same_name(c->type[i].name, strlen(c->type[i].name), name, strlen(name)))
            return true;
    return false;
}

// Chooses a name for the label if the labels are not a column of the frame: the name in
// the model or in the options; without one, the first of "label", "label2" and so on that
// is not the name of a column.
static int name_label(struct given_rows *to, const struct given_as *as, struct err *e)
{
    char free_name[32] = "label";
    const char *name = label_of(as);
    for (int i = 2; name == NULL && has_column(to->columns, free_name); i++)
        snprintf(free_name, sizeof(free_name), "label%d", i);
    to->label_name = mem_strdup(name != NULL ? name : free_name);
    to->rows.label_name = to->label_name;
    return to->label_name != NULL ? 0 : err_nomem(e, "the rows");
}

// Checks that a column has the label, unless the labels were given as an array. If there
// are several labels, one column is enough: the reader reports missing columns.
static int check_label(const struct given_rows *to, const struct given_as *as,
                       struct err *e)
{
    uint32_t labels = as->schema != NULL ? schema_labels(as->schema) : 0;
    for (uint32_t i = 0; i < labels; i++)
        if (has_column(to->columns, schema_label(as->schema, i)))
            return 0;
    return labels == 0 ? 0
                       : err_set(e, TUG_EUSAGE,
                                 "%s: labels are missing: give them as an array of "
                                 "their own, or add a column '%s'",
                                 to->rows.name,
                                 show(to->label_name, strlen(to->label_name)).text);
}

static int take_labels(struct given_rows *to, const struct tug_columns *c,
                       const struct given_as *as, struct err *e)
{
    struct rows *r = &to->rows;
    TRY(name_label(to, as, e));
    r->labels = c->labels;
    if (c->labels == NULL)
        return as->labels ? check_label(to, as, e) : 0;
    if (c->n_labels != r->n)
        return err_set(e, TUG_EUSAGE, "there are %zu labels, and %llu rows", c->n_labels,
                       (unsigned long long)r->n);
    if (has_column(to->columns, r->label_name))
        return err_set(e, TUG_EUSAGE,
                       "labels are given twice, beside the columns and in the column "
                       "'%s': give only one of them",
                       show(r->label_name, strlen(r->label_name)).text);
    return 0;
}

// Returns the name of the column of weights: that of the model's schema, else that of the
// options; NULL if the weights are not a column.
static const char *weight_of(const struct given_as *as)
{
    struct schema_column c;
    for (size_t at = 0; as->schema != NULL && schema_next(as->schema, &at, &c);)
        if (c.use == SCHEMA_WEIGHT)
            return c.name;
    return as->schema == NULL ? as->weight : NULL;
}

static int both_weights(const char *column, struct err *e)
{
    return err_set(e, TUG_EUSAGE,
                   "weights are given twice, beside the columns and in the column '%s': "
                   "give only one of them",
                   show(column, strlen(column)).text);
}

static int take_weights(struct given_rows *to, const struct tug_columns *c,
                        const struct given_as *as, struct err *e)
{
    const char *column = weight_of(as);
    bool there = has_column(to->columns, column);
    if (c->weight != NULL && column != NULL && there && strcmp(c->weight, column) == 0)
        return 0; // the reader reports if the column is missing
    if ((c->weight != NULL || c->weights != NULL) && column != NULL &&
        (there || as->schema == NULL))
        return both_weights(column, e);
    if (c->weight != NULL) {
        if (columns_take_out(to->columns, c->weight, &to->weights, e) != 0)
            return err_wrap(e, "weight");
        to->rows.weights = to->weights;
    } else if (c->weights != NULL) {
        if (c->n_weights != to->rows.n)
            return err_set(e, TUG_EUSAGE, "there are %zu weights, and %llu rows",
                           c->n_weights, (unsigned long long)to->rows.n);
        to->rows.weights = c->weights;
    } else if (column != NULL && !there && as->schema != NULL)
        return err_set(e, TUG_EUSAGE,
                       "the weights are missing: the model was trained with those in the "
                       "column '%s'; give this column, or weights beside the columns",
                       show(column, strlen(column)).text);
    return 0;
}

static int take_columns(struct given_rows *to, const struct tug_columns *c,
                        const struct given_as *as, struct err *e)
{
    struct rows *r = &to->rows;
    TRY(open_columns(to, c, e));
    r->columns = to->columns;
    r->n = to->columns->rows;
    r->separator = as->schema != NULL && as->schema->separator != 0
                       ? as->schema->separator
                       : ',';
    r->list_separator = '|';
    r->categorical = c->categorical;
    r->n_categorical = c->n_categorical;
    TRY(take_labels(to, c, as, e));
    if (as->labels)
        TRY(take_weights(to, c, as, e));
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

// Checks that not all weights are 0. With such weights no example would count, and means
// would divide by 0.
static int check_weights(const struct rows *r, struct err *e)
{
    for (uint64_t i = 0; r->weights != NULL && i < r->n; i++)
        if (r->weights[i] != 0)
            return 0;
    return r->weights == NULL ? 0
                              : err_set(e, TUG_EUSAGE,
                                        "%s: all weights are 0: at least one example has "
                                        "to count",
                                        r->name);
}

// Refuses data whose keys are computed in another way than those of the model's data. The
// error describes the data in memory instead of a format, because the caller named none.
static int check_kind(const struct tug_data *d, const struct given_as *as, struct err *e)
{
    if (as->schema == NULL || schema_same_keys(given_rows_format(d), as->schema->format))
        return 0;
    const char *trained = as->schema->format;
    bool slots = strcmp(trained, "multislot") == 0;
    return d->columns != NULL
               ? err_set(e, TUG_EUSAGE,
                         "%s: the data is a frame, and the model was trained on %s data, "
                         "whose features have numbers and no names: give %s",
                         as->name, trained, slots ? "files" : "a matrix or rows")
               : err_set(
                     e, TUG_EUSAGE,
                     "%s: the features of a matrix have numbers and no names, and the "
                     "model was trained on %s data: give %s",
                     as->name, trained, slots ? "files" : "a data frame or a file");
}

int given_rows_open(struct given_rows *r, const struct tug_data *d,
                    const struct given_as *as, struct err *e)
{
    TRY(check_kind(d, as, e));
    *r = (struct given_rows){.rows = {.name = as->name, .format = given_rows_format(d)}};
    int rc = d->columns != NULL ? take_columns(r, d->columns, as, e)
                                : take_matrix(r, d, as->labels, e);
    if (rc == 0 && as->labels)
        rc = check_weights(&r->rows, e);
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
    mem_free(r->weights);
    r->weights = NULL;
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
