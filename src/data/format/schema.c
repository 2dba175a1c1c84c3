// Schemas: columns stored in one text; written and read as JSON and as bytes.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/format/schema.h"

#include <stdio.h>
#include <string.h>

// The uses of columns, in the order of the enum: letters and names.
static const char letters[] = "tnlwdikmgbx0|hqeyT,";
static const char *const words[] = {"words",          "numbers", "label",   "weight",
                                    "dropped",        "ids",     "keys",    "lists",
                                    "logs",           "bins",    "crosses", "missing",
                                    "list-separator", "header",  "quote",   "edges",
                                    "written",        "type",    "decimal"};

// Gets the next column or setting. Returns false at the end.
static bool next_entry(const struct schema *s, size_t *at, struct schema_column *ret)
{
    if (*at >= s->text_len)
        return false;
    const char *column = s->text + *at;
    ret->use = (enum schema_use)(strchr(letters, column[0]) - letters);
    ret->name = column + 1;
    *at += strlen(column) + 1;
    return true;
}

bool schema_next(const struct schema *s, size_t *at, struct schema_column *ret)
{
    while (next_entry(s, at, ret))
        if (!schema_is_setting(ret->use))
            return true;
    return false;
}

bool schema_next_setting(const struct schema *s, enum schema_use kind, size_t *at,
                         const char **ret)
{
    struct schema_column c;
    while (next_entry(s, at, &c)) {
        *ret = c.name;
        if (c.use == kind)
            return true;
    }
    return false;
}

uint32_t schema_labels(const struct schema *s)
{
    struct schema_column c;
    uint32_t n = 0;
    for (size_t at = 0; schema_next(s, &at, &c);)
        n += c.use == SCHEMA_LABEL;
    return n > 0 ? n : 1;
}

const char *schema_label(const struct schema *s, uint32_t i)
{
    struct schema_column c;
    for (size_t at = 0; schema_next(s, &at, &c);)
        if (c.use == SCHEMA_LABEL && i-- == 0)
            return c.name;
    return NULL;
}

int schema_add(struct schema *s, enum schema_use use, const char *name, size_t len,
               struct err *e)
{
    if (memchr(name, 0, len) != NULL)
        return err_set(
            e, TUG_EDATA,
            "the name of column %u holds a NUL byte: this file is not text in UTF-8",
            s->columns + 1);
    if (len + 2 > SCHEMA_TEXT_MAX - s->text_len)
        return err_set(
            e, TUG_EDATA,
            "the names of the columns, with the edges of their bins, are longer than "
            "%d bytes together",
            SCHEMA_TEXT_MAX);
    char *to = s->text + s->text_len;
    to[0] = letters[use];
    memcpy(to + 1, name, len);
    to[len + 1] = 0;
    s->text_len += (uint32_t)len + 2;
    s->columns += !schema_is_setting(use);
    return 0;
}

int schema_set_decimal(struct schema *s, bool comma, struct err *e)
{
    struct schema_column c;
    for (size_t at = 0, from = 0; next_entry(s, &at, &c); from = at) {
        if (c.use != SCHEMA_DECIMAL)
            continue;
        memmove(s->text + from, s->text + at, s->text_len - at);
        s->text_len -= (uint32_t)(at - from);
        at = from;
    }
    return comma ? schema_add(s, SCHEMA_DECIMAL, ",", 1, e) : 0;
}

// Returns a word for what the keys of a format are computed from.
static const char *hashing_of(const char *format)
{
    if (strcmp(format, "csv") == 0)
        return "name"; // the name of the column, and the word
    if (strcmp(format, "multislot") == 0)
        return "slot"; // the name of the slot, and the id
    return strcmp(format, "criteo") == 0 ? "column" : "index";
}

bool schema_same_keys(const char *format, const char *other)
{
    return strcmp(hashing_of(format), hashing_of(other)) == 0;
}

// ---------------------------------------------------------------- JSON

static json_t *column_to_json(const struct schema_column *c)
{
    return json_pack("[s, s]", c->name, words[c->use]);
}

bool schema_has_text(const struct schema *s)
{
    struct schema_column c;
    bool text = (s->separator & 0x80) == 0;
    for (size_t at = 0; text && next_entry(s, &at, &c);) {
        json_begin();
        json_t *name = json_string(c.name);
        text = name != NULL || json_memory_failed();
        json_decref(name);
    }
    return text;
}

json_t *schema_to_json(const struct schema *s)
{
    const char separator[2] = {s->separator, 0};
    struct schema_column c;
    json_t *columns = json_array();
    for (size_t at = 0; columns != NULL && next_entry(s, &at, &c);)
        if (json_array_append_new(columns, column_to_json(&c)) != 0) {
            json_decref(columns);
            columns = NULL;
        }
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "format", s->format, "loss",
                     loss_name(s->loss), "hashing", hashing_of(s->format), "separator",
                     separator, "columns", columns);
}

static int find_word(const char *const *list, int n, const char *word)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i], word) == 0)
            return i;
    return -1;
}

static void column_from_json(struct schema *ret, const json_t *o, struct json_fields *f)
{
    const char *name = json_string_value(json_array_get(o, 0));
    const char *use = json_string_value(json_array_get(o, 1));
    int i = use != NULL ? find_word(words, SCHEMA_USES, use) : -1;
    if (name == NULL || i < 0)
        json_complain(f, "columns", "holds an entry that is not a column");
    else if (schema_add(ret, (enum schema_use)i, name, strlen(name), NULL) != 0)
        json_complain(f, "columns", "is too long");
}

void schema_from_json(struct schema *ret, const json_t *o, struct json_fields *f)
{
    *ret = (struct schema){0};
    const char *format = json_read_text(f, o, "format");
    const char *separator = json_read_text(f, o, "separator");
    const char *const losses[] = {loss_name(LOSS_LOGISTIC), loss_name(LOSS_SQUARED)};
    int loss = find_word(losses, 2, json_read_text(f, o, "loss"));
    if (strlen(format) >= sizeof ret->format || strlen(separator) > 1)
        json_complain(f, "format", "or the separator is too long");
    if (loss < 0)
        json_complain(f, "loss", "is a word that this version does not know");
    if (strcmp(json_read_text(f, o, "hashing"), hashing_of(format)) != 0)
        json_complain(f, "hashing", "is a word that this version does not know");
    if (f->rc != 0)
        return;
    snprintf(ret->format, sizeof ret->format, "%s", format);
    ret->loss = (enum loss)loss;
    ret->separator = separator[0];
    const json_t *columns = json_read_array(f, o, "columns", SCHEMA_TEXT_MAX);
    for (size_t i = 0; f->rc == 0 && i < json_array_size(columns); i++)
        column_from_json(ret, json_array_get(columns, i), f);
}

// ---------------------------------------------------------------- bytes

int schema_write(const struct schema *s, struct buf *b)
{
    TRY(buf_add(b, s->format, sizeof s->format));
    const char about[2] = {(char)('0' + (int)s->loss), s->separator};
    TRY(buf_add(b, about, sizeof about));
    return buf_add(b, s->text, s->text_len);
}

// Counts the columns; returns false unless each ends with a NUL and begins with the
// letter of a use.
static bool count_columns(struct schema *s)
{
    for (size_t at = 0; at < s->text_len;) {
        const char *end = memchr(s->text + at, 0, s->text_len - at);
        const char *use = strchr(letters, s->text[at]);
        if (end == NULL || end == s->text + at || use == NULL)
            return false;
        s->columns += !schema_is_setting((enum schema_use)(use - letters));
        at = (size_t)(end - s->text) + 1;
    }
    return true;
}

int schema_read(struct schema *ret, const char *bytes, size_t n)
{
    enum { HEAD = SCHEMA_FORMAT_MAX + 2 };
    *ret = (struct schema){0};
    if (n < HEAD || n - HEAD > SCHEMA_TEXT_MAX || bytes[SCHEMA_FORMAT_MAX - 1] != 0)
        return TUG_EDATA;
    memcpy(ret->format, bytes, sizeof ret->format);
    unsigned loss = (unsigned)(unsigned char)bytes[SCHEMA_FORMAT_MAX] - '0';
    ret->loss = (enum loss)loss;
    ret->separator = bytes[SCHEMA_FORMAT_MAX + 1];
    ret->text_len = (uint32_t)(n - HEAD);
    memcpy(ret->text, bytes + HEAD, n - HEAD);
    return loss <= LOSS_SQUARED && count_columns(ret) ? 0 : TUG_EDATA;
}
