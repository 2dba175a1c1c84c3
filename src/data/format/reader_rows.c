// Turns rows of matrices in memory into the examples that the same lines of libsvm or
// libffm would give.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>

#include "data/format/reader_sparse.h"
#include "data/frame/rows.h"

static int not_finite(uint64_t key, float value, struct err *e)
{
    return err_set(
        e, TUG_EDATA,
        "the value of feature %" PRIu64 " is %s, but values must be finite numbers", key,
        isnan(value) ? "NaN" : "infinite, or beyond 3.4e38, the largest 32-bit float");
}

static int take_sparse(const struct sparse_rows *s, uint64_t i, uint32_t bound,
                       struct examples *x, struct example *new, struct err *e)
{
    uint64_t first = s->offsets[i];
    size_t n = (size_t)(s->offsets[i + 1] - first), to = x->nnz;
    TRY(examples_reserve(x, n, e));
    if (n > 0) // without features, the arrays may be missing
        memcpy(x->key + to, s->keys + first, n * sizeof *x->key);
    for (size_t j = 0; j < n; j++) {
        float value = s->values != NULL ? s->values[first + j] : 1;
        uint32_t field = s->fields != NULL ? s->fields[first + j] : 0;
        if (!isfinite(value))
            return not_finite(s->keys[first + j], value, e);
        if (field >= bound)
            return err_set(e, TUG_EDATA,
                           "field %" PRIu32 " is not below %" PRIu32
                           ", the number of fields",
                           field, bound);
        x->value[to + j] = value;
        x->slot[to + j] = (uint16_t)field;
        new->has_values |= value != 1;
    }
    new->nnz = to + n;
    return 0;
}

static int take_dense(const struct dense_rows *d, uint64_t i, struct examples *x,
                      struct example *new, struct err *e)
{
    size_t k = x->nnz;
    TRY(examples_reserve(x, d->columns, e));
    for (size_t c = 0; c < d->columns; c++) {
        float value = rows_dense_value(d, i, c);
        if (!isfinite(value))
            return not_finite(c, value, e);
        x->key[k] = c;
        x->value[k] = value;
        x->slot[k] = 0;
        k += value != 0; // a value of 0 is overwritten by the next value
        new->has_values |= value != 0 && value != 1;
    }
    new->nnz = k;
    return 0;
}

int sparse_row(const struct reader *r, const struct rows *rows, uint64_t i,
               uint32_t bound, struct examples *x, struct err *e)
{
    struct example new = {.weight = 1};
    TRY(rows->sparse != NULL ? take_sparse(rows->sparse, i, bound, x, &new, e)
                             : take_dense(rows->dense, i, x, &new, e));
    if (rows->labels != NULL)
        TRY(reader_label_number(r, rows->labels[i], new.label, e));
    else if (r->labels)
        return err_set(e, TUG_EDATA, "the label is missing");
    if (rows->weights != NULL && r->labels)
        TRY(rows_weight(rows, i, &new.weight, e));
    examples_commit(x, &new);
    return 0;
}
