// Turns rows of columns in memory into the examples that the same lines of csv would
// give. Numbers are used directly, other cells by their texts.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/alloc.h"
#include "data/format/reader_csv.h"
#include "data/frame/columns.h"
#include "data/frame/rows.h"

static int read_cell(const struct csv *c, const struct column_span *s, int64_t i,
                     struct cell *ret, struct err *e)
{
    TRY(column_cell(s, i, ret, e));
    if (c->old_cells)
        cell_make_old(ret);
    return 0;
}

// Adds the number of a cell; returns false if the cell must be read as text.
static bool take_number(const struct csv *c, const struct column *column,
                        const struct cell *cell, struct examples *x, struct example *new)
{
    if (column->use == SCHEMA_WORDS) // in a column of words, digits form a word
        return false;
    float v = cell_float(cell);
    if (c->empties > 0 || !isfinite(v)) // the number may mean an empty cell
        return false;
    switch (column->use) {
    case SCHEMA_NUMBERS:
    case SCHEMA_LOGS:
        csv_take_number(column, v, x, new);
        return true;
    case SCHEMA_LABEL:
        new->label[column->slot] = v;
        if (v == 0)
            reader_note_label(&c->base, v);
        return v == 0 || v == 1;
    case SCHEMA_WEIGHT:
        if (c->base.labels)
            new->weight = v;
        return v >= 0;
    default:
        return false;
    }
}

// Makes room for the words of a text, in addition to the other columns and the space for
// sorting.
static int reserve_words(const struct csv *c, size_t len, struct examples *x,
                         const struct example *new, struct err *e)
{
    size_t slots = atomic_load_explicit(&c->slots, memory_order_relaxed);
    return examples_reserve(x, new->nnz - x->nnz + len + 1 + 2 * slots, e);
}

static int reader_csv_rows_take_text(const struct csv *c, const struct column *column,
                                     const struct cell *cell, struct examples *x,
                                     struct example *new, struct err *e)
{
    struct field f = {.text = "", .len = 0};
    struct column either;
    if (column->mark == DECIMAL_COMMA) {
        either = *column;
        either.mark = DECIMAL_EITHER;
        column = &either;
    }
    if (cell->kind != CELL_MISSING)
        f = (struct field){.text = cell->text, .len = cell->len};
    if (column->use == SCHEMA_LISTS)
        TRY(reserve_words(c, f.len, x, new, e));
    return csv_take_field(c, column, &f, x, new, e);
}

static int take_items(const struct csv *c, const struct column *column,
                      const struct cell *cell, struct examples *x, struct example *new,
                      struct err *e)
{
    for (int64_t i = cell->from; i < cell->to; i++) {
        struct cell item;
        TRY(read_cell(c, cell->list, i, &item, e));
        if (item.kind == CELL_NUMBER)
            cell_write(&item);
        TRY(reader_csv_rows_take_text(c, column, &item, x, new, e));
    }
    return 0;
}

// Reads a list in a column that is not a column of lists: the whole list is one text.
static int take_joined(const struct csv *c, const struct column *column,
                       struct cell *cell, struct examples *x, struct example *new,
                       struct err *e)
{
    struct buf text = BUF_INIT((size_t)1 << 40);
    int rc = cell_join(cell, c->base.between, &text) == 0 ? 0 : err_nomem(e, "a cell");
    if (rc == 0) {
        const struct cell joined = {
            .kind = CELL_TEXT, .text = text.len > 0 ? text.data : "", .len = text.len};
        rc = reader_csv_rows_take_text(c, column, &joined, x, new, e);
    }
    buf_free(&text);
    return rc;
}

static int take_cell(const struct csv *c, const struct column *column, struct cell *cell,
                     struct examples *x, struct example *new, struct err *e)
{
    if (cell->kind == CELL_NUMBER) {
        if (take_number(c, column, cell, x, new))
            return 0;
        cell_write(cell);
    }
    if (cell->kind != CELL_LIST)
        return reader_csv_rows_take_text(c, column, cell, x, new, e);
    return column->use == SCHEMA_LISTS ? take_items(c, column, cell, x, new, e)
                                       : take_joined(c, column, cell, x, new, e);
}

int csv_row(const struct reader *r, const struct reader_layout *l,
            const struct rows *rows, uint64_t i, struct examples *x, struct err *e)
{
    const struct csv *c = (const void *)r;
    size_t labels = rows->labels != NULL;
    if (l == NULL || l->columns != rows->columns->n + labels)
        return err_set(e, TUG_EINTERNAL, "the columns in memory have no layout");
    const struct columns_batch *b = columns_find(rows->columns, i);
    struct example new;
    TRY(csv_begin(c, l, 0, x, &new, e));
    for (size_t k = 0; k < l->columns; k++) {
        struct cell cell; // not set to zeros, because most of it stays unused
        if (l->column[k].use == SCHEMA_DROPPED)
            continue;
        if (k >= labels)
            TRY(read_cell(c, &b->span[k - labels], (int64_t)(i - b->first), &cell, e));
        else
            cell = (struct cell){
                .kind = CELL_NUMBER, .number = (double)rows->labels[i], .single = true};
        TRY(take_cell(c, &l->column[k], &cell, x, &new, e));
    }
    if (rows->weights != NULL && c->base.labels)
        TRY(rows_weight(rows, i, &new.weight, e));
    return csv_end(c, l, x, &new, e);
}

enum schema_use csv_row_use(const struct rows *rows, size_t column, const char *name)
{
    size_t labels = rows->labels != NULL;
    if (column < labels || column - labels >= rows->columns->n)
        return SCHEMA_WORDS;
    const struct column_type *t = &rows->columns->type[column - labels];
    for (size_t i = 0; i < rows->n_categorical; i++)
        if (strcmp(rows->categorical[i], name) == 0)
            return t->kind == COLUMN_LIST ? SCHEMA_LISTS : SCHEMA_WORDS;
    return column_is_number(t)      ? SCHEMA_NUMBERS
           : t->kind == COLUMN_LIST ? SCHEMA_LISTS
                                    : SCHEMA_WORDS;
}
