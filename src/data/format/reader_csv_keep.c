// Finds columns of csv files by name, their texts, and the features of texts.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "data/format/reader_csv.h"

int csv_find_column(const struct reader *r, const struct reader_layout *l,
                    const char *name, size_t len, size_t *ret, struct err *e)
{
    const struct csv *c = (const void *)r;
    l = l != NULL ? l : c->only;
    for (size_t i = 0; i < c->crosses; i++) {
        const char *cross = c->cross[i].column->name;
        *ret = l->columns + i;
        if (strlen(cross) == len && memcmp(cross, name, len) == 0)
            return 0;
    }
    char *text = mem_alloc(l->header_len + 1);
    if (text == NULL)
        return err_nomem(e, "the columns of a csv file");
    const char *p = l->header, *end = p + l->header_len;
    int rc = 0;
    *ret = READER_NO_COLUMN;
    for (size_t i = 0; i < l->columns && *ret == READER_NO_COLUMN; i++, p++) {
        struct field f;
        p = csv_next_field(p, end, c->separator, csv_quote(c), &f, e);
        if (p == NULL) {
            rc = TUG_EDATA;
            break;
        }
        if (csv_same_name(text, csv_unquote(&f, text), name, len))
            *ret = i;
    }
    mem_free(text);
    return rc;
}

int csv_column(const struct reader *r, const struct reader_layout *l, const char *line,
               const char *end, size_t column, struct buf *to)
{
    const struct csv *c = (const void *)r;
    l = l != NULL ? l : c->only;
    if (column >= l->columns)
        return csv_cross_text(c, l, column - l->columns, line, end, to);
    const char *p = line;
    struct field f = {0};
    for (size_t i = 0; i <= column && p != NULL && p <= end; i++, p++)
        p = csv_next_field(p, end, c->separator, csv_quote(c), &f, NULL);
    TRY(buf_reserve(to, f.len + 1));
    to->len += csv_unquote(&f, to->data + to->len);
    return 0;
}

// Computes the key of a text; returns false if the text is not exactly one word of the
// column.
static bool word_key(const struct csv *c, const struct column *column, const char *text,
                     size_t len, uint64_t *ret)
{
    if (column->use == SCHEMA_CROSSES)
        return csv_cross_word(c, column, text, len, ret);
    char own[CELL_OWN];
    size_t folded_len = len;
    const char *folded = csv_fold(column, text, &folded_len, own);
    *ret = hash_bytes(folded, folded_len, column->seed);
    return !csv_is_empty(c, text, len) &&
           (column->use != SCHEMA_LISTS || memchr(text, c->base.between, len) == NULL);
}

// Finds the feature of a text. All numbers of a column are one feature.
int csv_word(const struct reader *r, uint32_t slot, const char *text, size_t len,
             struct reader_word *ret, struct err *e)
{
    const struct csv *c = (const void *)r;
    for (size_t i = 0; i < c->columns; i++) {
        const struct column *column = &c->column[i];
        if (column->slot != slot || !schema_is_feature(column->use))
            continue;
        if (column->use == SCHEMA_BINS) {
            *ret = (struct reader_word){.text = text, .len = len};
            return csv_bin_word(c, column, ret, e);
        }
        bool words = column->use != SCHEMA_NUMBERS && column->use != SCHEMA_LOGS;
        ret->text = text;
        ret->len = words ? len : 0;
        ret->number = !words;
        ret->key = column->seed;
        float ignored;
        struct field f = {.text = text, .len = len};
        if (!words && len > 0) // an empty text stands for the whole column
            TRY(csv_number("value", column, &f, &ignored, e));
        if (!words || word_key(c, column, text, len, &ret->key))
            return 0;
        return err_set(e, TUG_EDATA, "'%s' is not one word of column '%s'",
                       show(text, len).text,
                       show(column->name, strlen(column->name)).text);
    }
    return err_set(e, TUG_EDATA, "there is no feature column %u", slot);
}
