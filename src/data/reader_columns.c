// Columns of lines by their names, for who wants their text (data/kept.h) or to know what
// feature it is. What is a column depends on the format: of csv those of the header, of
// criteo those that Kaggle names, of libffm the fields, of multislot the slots.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/options.h"
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

int reader_columns(const struct reader *r, const struct reader_layout *layout,
                   const char *line, size_t len, const size_t *columns, size_t n,
                   struct buf *to)
{
    const char *end = line + (len > 0 && line[len - 1] == '\r' ? len - 1 : len);
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

// The name of a schema's column without what multislot puts behind it: "@GROUP" or "[N]".
static size_t bare_name(const struct schema *s, const char *name)
{
    return strcmp(s->format, reader_multislot.name) == 0 ? strcspn(name, "@[")
                                                         : strlen(name);
}

int reader_slot_name(const struct reader *r, uint32_t slot, struct buf *ret)
{
    struct schema_column c;
    uint32_t n = 0;
    if (r->ops->slot_name != NULL)
        return r->ops->slot_name(slot, ret);
    for (size_t at = 0; schema_next(r->schema, &at, &c);)
        if (schema_is_feature(c.use) && n++ == slot)
            return buf_add(ret, c.name, bare_name(r->schema, c.name));
    return 0;
}

// A name that was perhaps meant is told; those with spaces are not looked at.
static int no_slot(const struct reader *r, const char *name, size_t len, uint32_t slots,
                   struct err *e)
{
    struct buf b = BUF_INIT(2 * SCHEMA_TEXT_MAX);
    struct shown shown = show(name, len);
    char near[OPTION_NAME_MAX] = "";
    for (uint32_t slot = 0; slot < slots; slot++)
        if (reader_slot_name(r, slot, &b) != 0 || buf_add(&b, " ", 1) != 0)
            break;
    if (buf_str(&b) != NULL)
        options_nearest(shown.text, b.data, near);
    buf_free(&b);
    return err_set(e, TUG_EUSAGE, "there is no feature column '%s'%s%s%s", shown.text,
                   near[0] != '\0' ? "; did you mean '" : "", near,
                   near[0] != '\0' ? "'?" : "");
}

int reader_find_slot(const struct reader *r, const char *name, size_t len, uint32_t slots,
                     uint32_t *ret, struct err *e)
{
    struct buf b = BUF_INIT(SCHEMA_TEXT_MAX);
    bool found = false;
    int rc = 0;
    for (*ret = 0; *ret < slots && rc == 0; ++*ret) {
        buf_clear(&b);
        rc = reader_slot_name(r, *ret, &b);
        found = rc == 0 && b.len == len && len > 0 && memcmp(b.data, name, len) == 0;
        if (found)
            break;
    }
    buf_free(&b);
    if (rc != 0)
        return err_nomem(e, "the names of columns");
    return found ? 0 : no_slot(r, name, len, slots, e);
}

bool reader_next_word(const struct reader *r, uint32_t slot, const char **text,
                      struct reader_word *ret)
{
    struct err none;
    size_t whole = strlen(*text);
    const char between[2] = {r->between, 0};
    if (whole > 0 && reader_word(r, slot, *text, whole, ret, &none) == 0) {
        *text += whole;
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
               : err_set(e, TUG_EDATA, "'%s' is not an index, which is a whole number",
                         show(text, len).text);
}
