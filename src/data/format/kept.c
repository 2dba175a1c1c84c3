// See kept.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/format/kept.h"

#include "base/alloc.h"

void kept_clear(struct kept *k)
{
    buf_clear(&k->text);
    k->text.max = KEPT_BYTES;
}

void kept_free(struct kept *k)
{
    buf_free(&k->text);
    mem_free(k->at);
    *k = (struct kept){0};
}

static int kept_reserve(struct kept *k, size_t i, struct err *e)
{
    return mem_room(&k->at, &k->cap, i + 1) == 0 ? 0
                                                 : err_nomem(e, "columns that are kept");
}

int kept_line(struct kept *k, const struct reader *r, const struct reader_layout *layout,
              size_t i, const char *line, size_t len, struct err *e)
{
    static const char nothing[KEPT_COLUMNS];
    if (k->n == 0 || k->layout != layout) {
        TRY(reader_find_columns(r, layout, k->names, k->option, KEPT_COLUMNS, k->column,
                                &k->n, e));
        k->layout = layout;
    }
    TRY(kept_reserve(k, i, e));
    k->at[i] = (uint32_t)k->text.len;
    int rc = line != NULL
                 ? reader_columns(r, layout, line, len, k->column, k->n, &k->text)
                 : buf_add(&k->text, nothing, k->n);
    return rc == 0 ? 0 : err_nomem(e, "columns that are kept");
}
