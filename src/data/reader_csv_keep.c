// Columns of csv files by their names, for who wants their text (data/kept.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "data/reader_csv.h"

// The column of a header that has the name; `columns` if none.
static int find(const struct csv *c, const struct reader_layout *l, const char *name,
                size_t len, size_t *ret, struct err *e)
{
    char *text = mem_alloc(l->header_len + 1);
    if (text == NULL)
        return err_nomem(e, "the columns of a csv file");
    const char *p = l->header, *end = p + l->header_len;
    int rc = 0;
    for (*ret = 0; *ret < l->columns; ++*ret, p++) {
        struct field f;
        p = csv_next_field(p, end, c->separator, &f, e);
        if (p == NULL) {
            rc = TUG_EDATA;
            break;
        }
        if (csv_unquote(&f, text) == len && memcmp(text, name, len) == 0)
            break;
    }
    mem_free(text);
    return rc;
}

int reader_find_columns(const struct reader *r, const struct reader_layout *l,
                        const char *names, size_t max, size_t *ret, size_t *ret_n,
                        struct err *e)
{
    const struct csv *c = (const void *)r;
    const char *name;
    size_t len;
    *ret_n = 0;
    if (r->ops != &reader_csv)
        return err_set(
            e, TUG_EUSAGE,
            "--keep works only with csv data, whose columns have names, not with %s",
            r->ops->name);
    while (reader_next_name(&names, &name, &len)) {
        if (*ret_n == max)
            return err_set(e, TUG_EUSAGE, "--keep takes at most %zu columns", max);
        TRY(find(c, l, name, len, &ret[*ret_n], e));
        if (ret[*ret_n] == l->columns)
            return err_set(e, TUG_EDATA,
                           "the data has no column '%s', which --keep names",
                           show(name, len).text);
        ++*ret_n;
    }
    return 0;
}

static int put_column(struct buf *to, const struct field *f)
{
    TRY(buf_reserve(to, f->len + 1));
    to->len += csv_unquote(f, to->data + to->len);
    to->data[to->len++] = '\0';
    return 0;
}

int reader_columns(const struct reader *r, const char *line, size_t len,
                   const size_t *columns, size_t n, struct buf *to)
{
    const struct csv *c = (const void *)r;
    const char *end = line + (len > 0 && line[len - 1] == '\r' ? len - 1 : len);
    for (size_t k = 0; k < n; k++) {
        const char *p = line;
        struct field f = {0};
        for (size_t i = 0; i <= columns[k] && p != NULL && p <= end; i++, p++)
            p = csv_next_field(p, end, c->separator, &f, NULL);
        TRY(put_column(to, &f));
    }
    return 0;
}
