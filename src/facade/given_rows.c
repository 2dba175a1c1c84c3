// See given_rows.h. What a row holds is looked at when it is read; here only what would
// lead out of the arrays.
//
// SPDX-License-Identifier: Apache-2.0
#include "facade/given_rows.h"

#include <inttypes.h>

bool given_rows_are(const struct tug_data *d)
{
    return d->rows != NULL || d->matrix != NULL;
}

const char *given_rows_format(const struct tug_data *d)
{
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

int given_rows_open(struct given_rows *r, const struct tug_data *d, bool labels,
                    const char *name, struct err *e)
{
    *r = (struct given_rows){.rows = {.name = name, .format = given_rows_format(d)}};
    r->rows.n = d->rows != NULL ? d->rows->n : d->matrix->n;
    r->rows.labels = d->rows != NULL ? d->rows->labels : d->matrix->labels;
    if (r->rows.n == 0)
        return err_set(e, TUG_EUSAGE, "rows: there are none");
    if (labels && r->rows.labels == NULL)
        return err_set(e, TUG_EUSAGE, "rows: labels are missing");
    TRY(d->rows != NULL ? take_sparse(r, d->rows, e) : take_dense(r, d->matrix, e));
    return rows_publish(&r->rows, r->address, e);
}

void given_rows_close(struct given_rows *r)
{
    rows_withdraw(r->address);
    r->address[0] = '\0';
}
