// Settings of csv besides columns: the words for a missing value, the separator of words
// in a cell, and the names of columns for files without a header.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "data/format/reader_csv.h"
#include "data/frame/columns.h"
#include "data/frame/rows.h"

enum { EMPTIES_MAX = 64 };

static bool has_list_columns(const struct rows *rows)
{
    for (size_t i = 0; rows != NULL && i < rows->columns->n; i++)
        if (rows->columns->type[i].kind == COLUMN_LIST)
            return true;
    return false;
}

int csv_add_settings(struct csv *c, struct err *e)
{
    const char *list = c->missing, *word;
    const char separator = c->list_separator != 0 ? c->list_separator : '|';
    struct schema *s = c->base.schema;
    size_t len;
    TRY(schema_add(s, SCHEMA_WRITTEN, "1", 1, e));
    while (reader_next_name(&list, &word, &len))
        TRY(schema_add(s, SCHEMA_MISSING, word, len, e));
    if (c->lists != NULL || has_list_columns(c->base.rows))
        TRY(schema_add(s, SCHEMA_LIST_SEPARATOR, &separator, 1, e));
    if (c->unquoted)
        TRY(schema_add(s, SCHEMA_QUOTE, "none", 4, e));
    if (c->decimal_comma)
        TRY(schema_add(s, SCHEMA_DECIMAL, ",", 1, e));
    return c->names != NULL ? schema_add(s, SCHEMA_HEADER, c->names, strlen(c->names), e)
                            : 0;
}

int csv_take_settings(struct csv *c, struct err *e)
{
    const struct schema *s = c->base.schema;
    const char *text;
    size_t n = 0;
    for (size_t at = 0; schema_next_setting(s, SCHEMA_MISSING, &at, &text);)
        n++;
    if (n > EMPTIES_MAX)
        return err_set(e, TUG_EUSAGE, "--missing names more than %d words", EMPTIES_MAX);
    mem_free(c->empty);
    c->empties = 0;
    c->empty = mem_array(n + 1, sizeof *c->empty);
    if (c->empty == NULL)
        return err_nomem(e, "a reader");
    for (size_t at = 0; schema_next_setting(s, SCHEMA_MISSING, &at, &text);)
        c->empty[c->empties++] = (struct empty_word){text, strlen(text)};
    for (size_t at = 0; schema_next_setting(s, SCHEMA_LIST_SEPARATOR, &at, &text);)
        c->base.between = c->list_separator = text[0];
    for (size_t at = 0; schema_next_setting(s, SCHEMA_QUOTE, &at, &text);)
        c->unquoted = strcmp(text, "none") == 0;
    for (size_t at = 0; schema_next_setting(s, SCHEMA_DECIMAL, &at, &text);)
        c->decimal_comma = text[0] == ',';
    return 0;
}

// Makes a header from --columns: names without quotes, separated by commas.
int csv_take_names(struct csv *c, struct err *e)
{
    struct buf line = BUF_INIT(SCHEMA_TEXT_MAX);
    const char *list = c->names, *name;
    size_t len;
    int rc = 0;
    for (bool first = true; rc == 0 && reader_next_name(&list, &name, &len);
         first = false) {
        if (memchr(name, c->separator, len) != NULL || memchr(name, '"', len) != NULL)
            rc = err_set(e, TUG_EUSAGE,
                         "the name '%s' has a quote or the separator in it",
                         show(name, len).text);
        else if ((!first && buf_add(&line, &c->separator, 1) != 0) ||
                 buf_add(&line, name, len) != 0)
            rc = buf_error(&line, "the names of columns", e);
    }
    if (rc == 0)
        rc = csv_header(&c->base, line.data, line.len, &c->only, e);
    if (rc == 0)
        csv_note_names(c);
    buf_free(&line);
    if (rc != TUG_EDATA && rc != TUG_EUSAGE)
        return rc;
    if (e != NULL)
        err_wrap(e, "--columns");
    return TUG_EUSAGE;
}
