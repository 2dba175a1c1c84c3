// Finds columns of lines by name, for code that needs their texts (data/format/kept.h) or their
// features. csv has the columns of its header, criteo those that Kaggle names, libffm its
// fields, multislot its slots.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "data/format/reader_ops.h"
#include "options/options.h"

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

int reader_check_fields(const struct reader *r, const char *names, const char *option,
                        uint32_t first, uint32_t end, struct err *e)
{
    const char *name;
    size_t len;
    uint64_t field;
    while (r->ops->numbers_fields && end > 0 && reader_next_name(&names, &name, &len))
        if (number_u64(name, len, &field) && (field < first || field >= end))
            return err_set(e, TUG_EDATA,
                           "no example has the field %s, which %s names; the data has "
                           "the fields %u to %u",
                           show(name, len).text, option, first, end - 1);
    return 0;
}

int reader_columns(const struct reader *r, const struct reader_layout *layout,
                   const char *line, size_t len, const size_t *columns, size_t n,
                   struct buf *to)
{
    reader_text_trim(&line, &len);
    const char *end = line + len;
    for (size_t k = 0; k < n; k++) {
        TRY(r->ops->column(r, layout, line, end, columns[k], to));
        TRY(buf_add(to, "", 1));
    }
    return 0;
}

bool reader_hashes(const struct reader *r)
{
    return r->ops->word != NULL;
}

bool reader_format_is_numbered(const char *format)
{
    const struct reader_ops *ops = reader_ops_find(format);
    return ops != NULL && ops->word == NULL;
}

bool reader_format_lacks_fields(const char *format)
{
    const struct reader_ops *ops = reader_ops_find(format);
    return ops != NULL && ops->no_fields;
}

// Returns the length of a column's name without "@GROUP" or "[N]", which multislot adds
// to names.
static size_t bare_name(const struct schema *s, const char *name)
{
    return strcmp(s->format, reader_multislot.name) == 0 ? strcspn(name, "@[")
                                                         : strlen(name);
}

int reader_schema_slot_name(const struct schema *s, uint32_t slot, struct buf *ret)
{
    const struct reader_ops *ops = reader_ops_find(s->format);
    struct schema_column c;
    uint32_t n = 0;
    if (ops != NULL && ops->slot_name != NULL)
        return ops->slot_name(slot, ret);
    for (size_t at = 0; schema_next(s, &at, &c);)
        if (schema_is_feature(c.use) && n++ == slot)
            return buf_add(ret, c.name, bare_name(s, c.name));
    return 0;
}

int reader_slot_name(const struct reader *r, uint32_t slot, struct buf *ret)
{
    return reader_schema_slot_name(r->schema, slot, ret);
}

bool reader_slot_is_named(const struct reader *r, uint32_t slot)
{
    const struct reader_ops *ops = reader_ops_find(r->schema->format);
    struct schema_column c;
    uint32_t n = 0;
    if (ops != NULL && ops->slot_name != NULL)
        return true;
    for (size_t at = 0; schema_next(r->schema, &at, &c);)
        if (schema_is_feature(c.use) && n++ == slot)
            return true;
    return false;
}

// Reports a missing column, and suggests a similar name, unless that name has spaces.
static int no_slot(const struct schema *s, const char *name, size_t len, uint32_t slots,
                   struct err *e)
{
    struct buf b = BUF_INIT(2 * SCHEMA_TEXT_MAX);
    struct shown shown = show(name, len);
    char near[OPTION_NAME_MAX] = "";
    for (uint32_t slot = 0; slot < slots; slot++)
        if (reader_schema_slot_name(s, slot, &b) != 0 || buf_add(&b, " ", 1) != 0)
            break;
    if (buf_str(&b) != NULL)
        options_nearest(shown.text, b.data, near);
    buf_free(&b);
    return err_set(e, TUG_EUSAGE, "there is no feature column '%s'%s%s%s", shown.text,
                   near[0] != '\0' ? "; did you mean '" : "", near,
                   near[0] != '\0' ? "'?" : "");
}

// Finds a column in a format whose schema has columns. Returns false if there is no such
// column.
static bool find_column(const struct schema *s, const char *name, size_t len,
                        uint32_t *ret)
{
    struct schema_column c;
    *ret = 0;
    for (size_t at = 0; schema_next(s, &at, &c);) {
        bool feature = schema_is_feature(c.use);
        if (feature && bare_name(s, c.name) == len && memcmp(c.name, name, len) == 0)
            return true;
        *ret += feature;
    }
    return false;
}

// Finds a column in a format whose schema has no columns.
static int find_named(const struct schema *s, const char *name, size_t len,
                      uint32_t slots, uint32_t *ret, bool *ret_found)
{
    struct buf b = BUF_INIT(SCHEMA_TEXT_MAX);
    int rc = 0;
    *ret_found = false;
    for (*ret = 0; *ret < slots && rc == 0; ++*ret) {
        buf_clear(&b);
        rc = reader_schema_slot_name(s, *ret, &b);
        *ret_found = rc == 0 && b.len == len && memcmp(b.data, name, len) == 0;
        if (*ret_found)
            break;
    }
    buf_free(&b);
    return rc;
}

int reader_schema_find_slot(const struct schema *s, const char *name, size_t len,
                            uint32_t slots, uint32_t *ret, struct err *e)
{
    const struct reader_ops *ops = reader_ops_find(s->format);
    bool found = false;
    int rc = 0;
    if (ops != NULL && ops->slot_name != NULL)
        rc = find_named(s, name, len, slots, ret, &found);
    else
        found = find_column(s, name, len, ret) && *ret < slots;
    if (rc != 0)
        return err_nomem(e, "the names of columns");
    return found ? 0 : no_slot(s, name, len, slots, e);
}

int reader_find_slot(const struct reader *r, const char *name, size_t len, uint32_t slots,
                     uint32_t *ret, struct err *e)
{
    return reader_schema_find_slot(r->schema, name, len, slots, ret, e);
}

bool reader_next_word(const struct reader *r, uint32_t slot, const char **text,
                      struct reader_word *ret)
{
    struct err none;
    const char between[2] = {r->between, 0};
    if (*text == NULL)
        return false;
    size_t whole = strlen(*text);
    bool is_word = reader_word(r, slot, *text, whole, ret, &none) == 0;
    // An empty text is a word only in a column of bins.
    if (is_word && (whole > 0 || (ret->len > 0 && !ret->number))) {
        *text = NULL;
        return true;
    }
    while (**text != '\0') {
        const char *word = *text;
        size_t len = strcspn(word, between);
        *text += len + (word[len] == r->between);
        if (len > 0 && reader_word(r, slot, word, len, ret, &none) == 0)
            return true;
    }
    return false;
}

int reader_word(const struct reader *r, uint32_t slot, const char *text, size_t len,
                struct reader_word *ret, struct err *e)
{
    ret->number = false;
    if (r->ops->word != NULL)
        return r->ops->word(r, slot, text, len, ret, e);
    ret->text = text;
    ret->len = len;
    return number_u64(text, len, &ret->key)
               ? 0
               : err_set(e, TUG_EDATA, "'%s' is not an index: an index is a whole number",
                         show(text, len).text);
}
