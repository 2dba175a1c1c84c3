// CSV with a header (RFC 4180 without line breaks inside quotes). Every column is a text
// category unless the options say that it is the label, a weight, a number or dropped.
//
// Slots are the feature columns, numbered from 0 in the header's order: neither the
// label's place nor its absence (when predicting) moves them. A number's key is that of
// its column's name, its value the number; an empty column is missing.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "data/reader_ops.h"

enum column_kind { COLUMN_TEXT, COLUMN_NUMBER, COLUMN_LABEL, COLUMN_WEIGHT, COLUMN_DROP };

struct column {
    enum column_kind kind;
    uint32_t slot;
    uint64_t key; // of a number
    char *name;
};

struct csv {
    struct reader base;
    char separator;
    char *label, *drop, *numeric, *weight; // options; NULL: not given
    char *header;                          // the first header, padded; NULL: not seen yet
    size_t header_len;
    struct column *column;
    size_t columns;
    uint32_t slots;
};

// ---------------------------------------------------------------- fields

struct field {
    const char *text;
    size_t len;
    bool doubled; // holds "" for "
};

// A quoted field: returns the closing quote, NULL when there is none.
static const char *closing_quote(const char *p, const char *end, bool *ret_doubled)
{
    for (; (p = find_byte(p, end, '"')) < end; p += 2) {
        if (p + 1 == end || p[1] != '"')
            return p;
        *ret_doubled = true;
    }
    return NULL;
}

// The field at p; returns the separator behind it or the end, NULL with *e filled.
static const char *quoted_field(const char *p, const char *end, char separator,
                                struct field *ret, struct err *e)
{
    ret->doubled = false;
    ret->text = p + 1;
    const char *close = closing_quote(p + 1, end, &ret->doubled);
    if (close == NULL) {
        err_set(e, TUG_EDATA, "the quote before '%s' is not closed in its line",
                show(p + 1, (size_t)(end - p - 1)).text);
        return NULL;
    }
    ret->len = (size_t)(close - ret->text);
    if (close + 1 < end && close[1] != separator) {
        err_set(e, TUG_EDATA, "the closing quote of '%s' is not followed by '%c'",
                show(ret->text, ret->len).text, separator == '\t' ? ' ' : separator);
        return NULL;
    }
    return close + 1;
}

static inline const char *next_field(const char *p, const char *end, char separator,
                                     struct field *ret, struct err *e)
{
    if (p < end && *p == '"')
        return quoted_field(p, end, separator, ret, e);
    const char *stop = find_byte(p, end, separator);
    *ret = (struct field){.text = p, .len = (size_t)(stop - p)};
    return stop;
}

// Copies a field with "" as "; `ret` has room for f->len bytes.
static size_t unquote(const struct field *f, char *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < f->len; i++) {
        ret[n++] = f->text[i];
        i += f->doubled && f->text[i] == '"';
    }
    return n;
}

// ---------------------------------------------------------------- opening

static int copy_option(char **ret, const char *value, struct err *e)
{
    if (value == NULL)
        return 0;
    *ret = mem_strdup(value);
    return *ret != NULL ? 0 : err_nomem(e, "a reader");
}

static void forget_header(struct csv *c)
{
    for (size_t i = 0; c->column != NULL && i < c->columns; i++)
        mem_free(c->column[i].name);
    mem_free(c->column);
    mem_free(c->header);
    c->column = NULL;
    c->header = NULL;
    c->columns = 0;
    c->slots = 0;
}

static void csv_close(struct reader *r)
{
    struct csv *c = (void *)r;
    forget_header(c);
    mem_free(c->label);
    mem_free(c->drop);
    mem_free(c->numeric);
    mem_free(c->weight);
    mem_free(c);
}

static int csv_open(struct reader **ret, const struct reader_options *o, struct err *e)
{
    char separator = o->separator != 0 ? o->separator : ',';
    if (separator == '"' || separator == '\n' || separator == '\r')
        return err_set(e, TUG_EUSAGE,
                       "a quote or a line end cannot be the csv separator");
    struct csv *c = mem_zalloc(sizeof *c);
    if (c == NULL)
        return err_nomem(e, "a reader");
    c->separator = separator;
    if (copy_option(&c->label, o->label_column, e) != 0 ||
        copy_option(&c->drop, o->drop, e) != 0 ||
        copy_option(&c->numeric, o->numeric, e) != 0 ||
        copy_option(&c->weight, o->weight_column, e) != 0) {
        csv_close(&c->base);
        return TUG_ENOMEM;
    }
    *ret = &c->base;
    return 0;
}

// ---------------------------------------------------------------- the header

static struct column *find_column(struct csv *c, const char *name, size_t len)
{
    for (size_t i = 0; i < c->columns; i++)
        if (strlen(c->column[i].name) == len && memcmp(c->column[i].name, name, len) == 0)
            return &c->column[i];
    return NULL;
}

static int no_column(const struct csv *c, const char *option, const char *name,
                     size_t len, struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "the header has no column '%s', which %s names; it is '%s'",
                   show(name, len).text, option, show(c->header, c->header_len).text);
}

static int mark_column(struct csv *c, const char *option, const char *name, size_t len,
                       enum column_kind kind, struct err *e)
{
    struct column *column = find_column(c, name, len);
    if (column == NULL)
        return no_column(c, option, name, len, e);
    if (column->kind != COLUMN_TEXT && column->kind != kind)
        return err_set(e, TUG_EUSAGE,
                       "column '%s', which %s names, has another use already",
                       show(name, len).text, option);
    column->kind = kind;
    return 0;
}

// Every name of "a,b,c".
static int mark_columns(struct csv *c, const char *option, const char *names,
                        enum column_kind kind, struct err *e)
{
    while (names != NULL && *names != '\0') {
        size_t len = strcspn(names, ",");
        if (len > 0)
            TRY(mark_column(c, option, names, len, kind, e));
        names += len + (names[len] == ',');
    }
    return 0;
}

static int mark_label(struct csv *c, struct err *e)
{
    if (c->label == NULL) {
        c->column[0].kind = COLUMN_LABEL;
        return 0;
    }
    size_t len = strlen(c->label);
    if (!c->base.labels && find_column(c, c->label, len) == NULL)
        return 0; // what is to be predicted need not be there
    return mark_column(c, "--label", c->label, len, COLUMN_LABEL, e);
}

static int add_column(struct csv *c, const struct field *f, struct err *e)
{
    char *name = mem_alloc(f->len + 1);
    if (name == NULL)
        return err_nomem(e, "the columns of a csv file");
    name[unquote(f, name)] = '\0';
    c->column[c->columns++] = (struct column){.name = name};
    return 0;
}

static int split_header(struct csv *c, struct err *e)
{
    size_t most = 1;
    const char *p = c->header, *end = p + c->header_len;
    for (size_t i = 0; i < c->header_len; i++)
        most += p[i] == c->separator;
    c->column = mem_array(most, sizeof *c->column);
    if (c->column == NULL)
        return err_nomem(e, "the columns of a csv file");
    for (;; p++) {
        struct field f;
        p = next_field(p, end, c->separator, &f, e);
        if (p == NULL)
            return TUG_EDATA;
        TRY(add_column(c, &f, e));
        if (p == end)
            return 0;
    }
}

static int number_slots(struct csv *c, struct err *e)
{
    for (size_t i = 0; i < c->columns; i++) {
        struct column *column = &c->column[i];
        if (column->kind != COLUMN_TEXT && column->kind != COLUMN_NUMBER)
            continue;
        column->slot = c->slots++;
        column->key = reader_key(column->slot, column->name, strlen(column->name));
    }
    if (c->slots == 0)
        return err_set(e, TUG_EDATA,
                       "the header leaves no column as a feature: is '%c' its "
                       "separator?",
                       c->separator == '\t' ? ' ' : c->separator);
    if (c->slots > READER_MAX_SLOT + 1)
        return err_set(e, TUG_EDATA, "the header has %u feature columns; the limit is %d",
                       c->slots, READER_MAX_SLOT + 1);
    return 0;
}

static int decide_columns(struct csv *c, const char *line, size_t len, struct err *e)
{
    c->header = mem_zalloc(len + READER_PADDING);
    if (c->header == NULL)
        return err_nomem(e, "the header of a csv file");
    memcpy(c->header, line, len);
    c->header_len = len;
    TRY(split_header(c, e));
    TRY(mark_label(c, e));
    if (c->weight != NULL)
        TRY(mark_column(c, "--weight", c->weight, strlen(c->weight), COLUMN_WEIGHT, e));
    TRY(mark_columns(c, "--drop", c->drop, COLUMN_DROP, e));
    TRY(mark_columns(c, "--numeric", c->numeric, COLUMN_NUMBER, e));
    return number_slots(c, e);
}

static int csv_header(struct reader *r, const char *line, size_t len, struct err *e)
{
    struct csv *c = (void *)r;
    if (len >= 3 &&
        memcmp(line, "\xef\xbb\xbf", 3) == 0) { // the mark that spreadsheets write
        line += 3;
        len -= 3;
    }
    if (len == 0)
        return err_set(e, TUG_EDATA, "the header, a line of column names, is empty");
    if (c->header == NULL) {
        int rc = decide_columns(c, line, len, e);
        if (rc != 0)
            forget_header(c);
        return rc;
    }
    if (len == c->header_len && memcmp(line, c->header, len) == 0)
        return 0;
    return err_set(e, TUG_EDATA, "the header '%s' is not that of the first file, '%s'",
                   show(line, len).text, show(c->header, c->header_len).text);
}

// ---------------------------------------------------------------- lines

static int bad_columns(const struct csv *c, const char *line, const char *end,
                       struct err *e)
{
    size_t found = 0;
    for (const char *p = line; p <= end; p++, found++) {
        struct field f;
        p = next_field(p, end, c->separator, &f, e);
        if (p == NULL)
            return TUG_EDATA;
    }
    return err_set(e, TUG_EDATA, "found %zu columns, the header has %zu", found,
                   c->columns);
}

static int text_key(const struct field *f, uint32_t slot, uint64_t *ret, struct err *e)
{
    if (!f->doubled) {
        *ret = reader_key(slot, f->text, f->len);
        return 0;
    }
    char *text = mem_alloc(f->len);
    if (text == NULL)
        return err_nomem(e, "a csv field");
    *ret = reader_key(slot, text, unquote(f, text));
    mem_free(text);
    return 0;
}

static int field_number(const char *what, const struct column *column,
                        const struct field *f, float *ret, struct err *e)
{
    enum number_status status = number_parse(f->text, f->len, ret);
    if (status == NUMBER_OK)
        return 0;
    char where[64];
    snprintf(where, sizeof where, " of column '%s'",
             show(column->name, strlen(column->name)).text);
    return reader_bad_number(status, what, f->text, f->len, where, e);
}

static int take_weight(const struct column *column, const struct field *f, float *ret,
                       struct err *e)
{
    TRY(field_number("weight", column, f, ret, e));
    if (*ret < 0)
        return err_set(e, TUG_EDATA, "weight '%s' is negative",
                       show(f->text, f->len).text);
    return 0;
}

// One field of an example; features go behind new->nnz.
static int take_field(const struct csv *c, const struct column *column,
                      const struct field *f, struct examples *x, struct example *new,
                      struct err *e)
{
    switch (column->kind) {
    case COLUMN_DROP:
        return 0;
    case COLUMN_LABEL:
        if (f->len == 0 && !c->base.labels)
            return 0;
        return reader_label(&c->base, f->text, f->len, &new->label, e);
    case COLUMN_WEIGHT:
        return take_weight(column, f, &new->weight, e);
    case COLUMN_NUMBER:
    case COLUMN_TEXT:
        break;
    }
    if (f->len == 0)
        return 0;
    size_t k = new->nnz;
    x->value[k] = 1;
    if (column->kind == COLUMN_TEXT) {
        TRY(text_key(f, column->slot, &x->key[k], e));
    } else {
        x->key[k] = column->key;
        TRY(field_number("value", column, f, &x->value[k], e));
        new->has_values |= x->value[k] != 1;
    }
    x->slot[k] = (uint16_t)column->slot;
    new->nnz++;
    return 0;
}

static int csv_line(const struct reader *r, const char *line, size_t len,
                    struct examples *x, struct err *e)
{
    const struct csv *c = (const void *)r;
    if (c->header == NULL)
        return err_set(e, TUG_EDATA, "the header, a line of column names, was not read");
    struct example new = {.weight = 1, .nnz = x->nnz};
    TRY(examples_reserve(x, c->slots, e));
    const char *p = line, *end = line + len;
    for (size_t i = 0; i < c->columns; i++, p++) {
        struct field f;
        p = next_field(p, end, c->separator, &f, e);
        if (p == NULL)
            return TUG_EDATA;
        if ((p == end) != (i == c->columns - 1))
            return bad_columns(c, line, end, e);
        TRY(take_field(c, &c->column[i], &f, x, &new, e));
    }
    examples_commit(x, &new);
    return 0;
}

static uint32_t csv_slots(const struct reader *r)
{
    return ((const struct csv *)(const void *)r)->slots;
}

const struct reader_ops reader_csv = {.name = "csv",
                                      .header = true,
                                      .open = csv_open,
                                      .close = csv_close,
                                      .slots = csv_slots,
                                      .read_header = csv_header,
                                      .line = csv_line};
