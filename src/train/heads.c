// Checks the first lines of --test and --valid.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/heads.h"

#include <string.h>

#include "data/format/kept.h"
#include "data/source/origins.h"
#include "data/source/source.h"

enum { HEAD_BYTES = 1 << 20 };

// Splits a whole line off the text; returns false if the text has no line end.
static bool next_line(const char **text, size_t *len, const char **ret, size_t *ret_len)
{
    const char *end = memchr(*text, '\n', *len);
    if (end == NULL)
        return false;
    *ret = *text;
    *ret_len = (size_t)(end - *text);
    *text = end + 1;
    *len -= *ret_len + 1;
    return true;
}

static int check_columns(const struct train_config *c, const struct reader *r,
                         const struct reader_layout *layout, struct err *e)
{
    size_t columns[KEPT_COLUMNS], n;
    if (c->group == NULL)
        return 0;
    return reader_find_columns(r, layout, c->group, "--group", KEPT_COLUMNS, columns, &n,
                               e);
}

static int check_lines(const struct train_config *c, struct reader *r, const char *text,
                       size_t len, uint64_t *ret_line, struct err *e)
{
    const struct reader_layout *layout = NULL;
    struct examples x = {0};
    const char *line;
    size_t n;
    int rc = 0;
    for (*ret_line = 1; rc == 0 && x.n == 0 && next_line(&text, &len, &line, &n);
         ++*ret_line) {
        bool header = *ret_line == 1 && reader_has_header(r);
        rc = header ? reader_header(r, line, n, &layout, e)
                    : reader_line(r, layout, line, n, &x, e);
        if (rc == TUG_EDATA && !header && c->max_bad_lines > 0)
            rc = 0; // bad lines count when the whole file is read
        else if (rc == TUG_EDATA && *ret_line == 1)
            reader_explain_first(r, line, n, e);
        if (rc == 0 && x.n > 0)
            rc = check_columns(c, r, layout, e);
        if (rc != 0)
            break;
    }
    examples_free(&x);
    return rc;
}

static int check_file(const struct train_config *c, struct reader *r,
                      const struct source *s, uint32_t file, struct err *e)
{
    struct buf b = BUF_INIT(HEAD_BYTES + READER_PADDING);
    uint64_t line = 0;
    char where[ORIGIN_TEXT_MAX];
    int rc = source_head(s, file, HEAD_BYTES, &b, e);
    size_t len = b.len;
    if (rc == 0 && buf_add(&b, (char[READER_PADDING]){0}, READER_PADDING) != 0)
        rc = err_nomem(e, "the beginning of a file");
    if (rc == 0 && !reader_is_blank(r, b.data, len)) {
        rc = check_lines(c, r, b.data, len, &line, e);
        if (rc == TUG_EDATA) {
            origins_text(source_file_name(s, file), line, where);
            err_wrap(e, "%s", where);
        }
    }
    buf_free(&b);
    return rc;
}

int heads_check(const struct train_config *c, struct reader *r,
                const struct path_list *paths, const char *option, struct err *e)
{
    struct source *s = NULL;
    struct source_options o = {.paths = paths->items,
                               .n_paths = paths->n,
                               .command = paths->command,
                               .interrupted = c->interrupted};
    if (paths->n == 0)
        return 0;
    TRY(source_open(&s, &o, e));
    int rc = 0;
    unsigned labels = reader_begin_labels(r, 0);
    if (paths == &c->valid && !source_can_rewind(s) && c->epochs > 1)
        rc = err_set(
            e, TUG_EUSAGE,
            "%s names a pipe, but its data is read after every pass: write it to a file",
            option);
    for (uint32_t i = 0; rc == 0 && i < source_files(s); i++)
        if (!source_is_pipe(s, i))
            rc = check_file(c, r, s, i, e);
    (void)reader_begin_labels(r, labels);
    source_close(s);
    return rc;
}
