// Removes a column of numbers from columns in memory: labels or weights that a data frame
// has among its feature columns.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "data/format/number.h"
#include "data/format/reader_csv.h"
#include "data/frame/columns.h"

static int read_number(const struct column_span *s, int64_t i, float *ret, struct err *e)
{
    struct cell cell;
    TRY(column_cell(s, i, &cell, e));
    if (cell.kind == CELL_MISSING)
        return err_set(e, TUG_EDATA, "it is missing");
    if (cell.kind == CELL_LIST)
        return err_set(e, TUG_EDATA, "a list is not a number");
    if (cell.kind == CELL_NUMBER)
        *ret = cell_float(&cell);
    else if (cell.is_bool)
        *ret = cell.text[0] == 't' || cell.text[0] == 'T';
    else if (number_parse(cell.text, cell.len, ret) != NUMBER_OK)
        return err_set(e, TUG_EDATA, "'%s' is not a number",
                       show(cell.text, cell.len).text);
    return 0;
}

static int read_all(const struct columns *c, size_t column, float *ret, struct err *e)
{
    for (size_t b = 0; b < c->batches; b++) {
        const struct columns_batch *batch = &c->batch[b];
        for (int64_t i = 0; i < batch->array.length; i++, ret++) {
            int rc = read_number(&batch->span[column], i, ret, e);
            if (rc != 0)
                return err_wrap(
                    e, "row %llu: column '%s'",
                    (unsigned long long)batch->first + (unsigned long long)i,
                    show(c->type[column].name, strlen(c->type[column].name)).text);
        }
    }
    return 0;
}

// Removes a column: moves the later columns to the place before, and makes the later
// columns' spans point to the moved types.
static void remove_column(struct columns *c, size_t column)
{
    columns_free_types(c->type[column].of, c->type[column].of != NULL);
    for (size_t k = column; k + 1 < c->n; k++)
        c->type[k] = c->type[k + 1];
    c->type[c->n - 1].of = NULL;
    for (size_t b = 0; b < c->batches; b++) {
        struct column_span *span = c->batch[b].span;
        columns_free_spans(span[column].of, span[column].of != NULL);
        for (size_t k = column; k + 1 < c->n; k++) {
            span[k] = span[k + 1];
            span[k].type = &c->type[k];
        }
        span[c->n - 1].of = NULL;
    }
    c->n--;
}

int columns_take_out(struct columns *c, const char *name, float **ret, struct err *e)
{
    size_t column = 0;
    while (column < c->n &&
           !csv_same_name(c->type[column].name, strlen(c->type[column].name), name,
                          strlen(name)))
        column++;
    if (column == c->n)
        return err_set(e, TUG_EUSAGE, "there is no column '%s'",
                       show(name, strlen(name)).text);
    float *number = mem_array((size_t)c->rows + 1, sizeof(*number));
    if (number == NULL)
        return err_nomem(e, "a column of numbers");
    int rc = read_all(c, column, number, e);
    if (rc != 0) {
        mem_free(number);
        return rc;
    }
    remove_column(c, column);
    *ret = number;
    return 0;
}
