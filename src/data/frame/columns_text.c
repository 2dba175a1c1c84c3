// Writes columns in memory as lines of csv, for code that looks at a few of them.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "data/frame/columns.h"
#include "data/frame/rows.h"

static int put_quoted(const char *text, size_t len, char separator, struct buf *to)
{
    if (len == 0) // `text` may be NULL
        return 0;
    bool plain = memchr(text, separator, len) == NULL && memchr(text, '"', len) == NULL &&
                 memchr(text, '\n', len) == NULL && memchr(text, '\r', len) == NULL;
    if (plain)
        return buf_add(to, text, len);
    TRY(buf_add(to, "\"", 1));
    for (size_t i = 0; i < len; i++)
        TRY(text[i] == '"' ? buf_add(to, "\"\"", 2) : buf_add(to, text + i, 1));
    return buf_add(to, "\"", 1);
}

// Writes a cell. A cell that cannot be read is written as empty: only unused columns have
// such cells.
static int put_cell(struct cell *cell, char between, struct buf *to)
{
    struct cell item;
    struct err none;
    if (cell->kind == CELL_MISSING)
        return 0;
    if (cell->kind == CELL_NUMBER)
        cell_write(cell);
    if (cell->kind != CELL_LIST)
        return buf_add(to, cell->text, cell->len);
    for (int64_t i = cell->from; i < cell->to; i++) {
        if (i > cell->from)
            TRY(buf_add(to, &between, 1));
        if (column_cell(cell->list, i, &item, &none) == 0)
            TRY(put_cell(&item, between, to));
    }
    return 0;
}

int cell_join(struct cell *cell, char between, struct buf *to)
{
    buf_clear(to);
    return put_cell(cell, between, to);
}

static int put_columns(const struct rows *r, uint64_t i, struct buf *cells,
                       struct buf *to)
{
    const struct columns_batch *b = columns_find(r->columns, i);
    for (size_t k = 0; k < r->columns->n; k++) {
        struct cell cell;
        struct err none;
        if (k > 0)
            TRY(buf_add(to, &r->separator, 1));
        if (column_cell(&b->span[k], (int64_t)(i - b->first), &cell, &none) != 0)
            continue;
        TRY(cell_join(&cell, r->list_separator, cells));
        TRY(put_quoted(cells->data, cells->len, r->separator, to));
    }
    return 0;
}

int columns_text(const struct rows *r, uint64_t i, struct buf *to)
{
    struct buf cells = BUF_INIT((size_t)1 << 40);
    int rc = 0;
    if (r->labels != NULL)
        rc = buf_printf(to, "%.9g%c", (double)r->labels[i], r->separator);
    if (rc == 0)
        rc = put_columns(r, i, &cells, to);
    buf_free(&cells);
    return rc;
}

int columns_header(const struct rows *r, struct buf *to)
{
    if (r->labels != NULL) {
        TRY(put_quoted(r->label_name, strlen(r->label_name), r->separator, to));
        TRY(buf_add(to, &r->separator, 1));
    }
    for (size_t k = 0; k < r->columns->n; k++) {
        const char *name = r->columns->type[k].name;
        if (k > 0)
            TRY(buf_add(to, &r->separator, 1));
        TRY(put_quoted(name, strlen(name), r->separator, to));
    }
    return 0;
}
