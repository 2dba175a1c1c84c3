// Columns of lines by their names, for who wants their text (data/kept.h). What is a column
// depends on the format: of csv those of the header, of criteo those that Kaggle names, of
// libffm the fields, of multislot the slots.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "data/reader_ops.h"

static int no_column(const struct reader *r, const char *name, size_t len,
                     const char *option, struct err *e)
{
    bool known = r->ops->columns != NULL;
    return err_set(e, TUG_EDATA, "the data has no column '%s', which %s names%s%s",
                   show(name, len).text, option, known ? "; its columns are " : "",
                   known ? r->ops->columns : "");
}

int reader_find_columns(const struct reader *r, const struct reader_layout *l,
                        const char *names, const char *option, size_t max, size_t *ret,
                        size_t *ret_n, struct err *e)
{
    const char *name;
    size_t len;
    *ret_n = 0;
    if (r->ops->find_column == NULL)
        return err_set(
            e, TUG_EUSAGE,
            "%s works with csv, criteo, libffm and multislot data, whose columns have "
            "names, not with %s",
            option, r->ops->name);
    while (reader_next_name(&names, &name, &len)) {
        if (*ret_n == max)
            return err_set(e, TUG_EUSAGE, "%s takes at most %zu columns", option, max);
        TRY(r->ops->find_column(r, l, name, len, &ret[*ret_n], e));
        if (ret[*ret_n] == READER_NO_COLUMN)
            return no_column(r, name, len, option, e);
        ++*ret_n;
    }
    return 0;
}

int reader_columns(const struct reader *r, const char *line, size_t len,
                   const size_t *columns, size_t n, struct buf *to)
{
    const char *end = line + (len > 0 && line[len - 1] == '\r' ? len - 1 : len);
    for (size_t k = 0; k < n; k++) {
        TRY(r->ops->column(r, line, end, columns[k], to));
        TRY(buf_add(to, "", 1));
    }
    return 0;
}
