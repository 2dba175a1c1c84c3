// Code shared by all formats: their list, growth of examples, labels, messages.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/format/reader.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/printable.h"
#include "data/format/grow.h"
#include "data/format/reader_ops.h"
#include "data/frame/rows.h"
#include "os/log.h"

#define OPS(name, about) &reader_##name,
#define LISTED(name, about) ", " #name

static const struct reader_ops *const FORMATS[] = {READER_FORMATS(OPS)};

const char *reader_formats(void)
{
    return READER_FORMATS(LISTED) + 2;
}

// ---------------------------------------------------------------- examples

void examples_clear(struct examples *x)
{
    x->n = x->nnz = 0;
    x->has_weights = x->has_values = false;
}

void examples_free(struct examples *x)
{
    mem_free(x->label);
    mem_free(x->weight);
    mem_free(x->start);
    mem_free(x->line);
    mem_free(x->key);
    mem_free(x->slot);
    mem_free(x->value);
    *x = (struct examples){0};
}

static bool grow_examples(struct examples *x, size_t n)
{
    bool ok = grow(&x->weight, n, sizeof *x->weight) &&
              grow(&x->start, n + 1, sizeof *x->start) &&
              grow(&x->line, n, sizeof *x->line);
    if (ok)
        x->cap_n = n;
    return ok;
}

// Makes room for the labels of n examples. Returns false if memory is out.
static bool grow_labels(struct examples *x, size_t n)
{
    if (n <= x->cap_labels)
        return true;
    bool ok = grow(&x->label, n, sizeof *x->label);
    if (ok)
        x->cap_labels = n;
    return ok;
}

static bool grow_features(struct examples *x, size_t n)
{
    bool ok = grow(&x->key, n, sizeof *x->key) && grow(&x->slot, n, sizeof *x->slot) &&
              grow(&x->value, n, sizeof *x->value);
    if (ok)
        x->cap_nnz = n;
    return ok;
}

int examples_reserve(struct examples *x, size_t features, struct err *e)
{
    size_t nnz = x->nnz + features;
    if (nnz > UINT32_MAX)
        return err_set(e, TUG_EDATA, "more than 2^32 features in one piece of text");
    if (x->n == x->cap_n && !grow_examples(x, x->cap_n == 0 ? 1024 : x->cap_n * 2))
        return err_nomem(e, "examples");
    // 0 labels: no reader made these examples, so each has one label.
    x->labels += x->labels == 0;
    if (!grow_labels(x, x->cap_n * x->labels))
        return err_nomem(e, "examples");
    if (nnz > x->cap_nnz && !grow_features(x, nnz + nnz / 2 + 1024))
        return err_nomem(e, "examples");
    return 0;
}

void examples_commit(struct examples *x, const struct example *new)
{
    assert(x->n < x->cap_n && new->nnz <= x->cap_nnz);
    memcpy(x->label + x->n * x->labels, new->label, x->labels * sizeof *x->label);
    x->weight[x->n] = new->weight;
    x->start[x->n] = (uint32_t)x->nnz;
    x->line[x->n] = 0;
    x->nnz = new->nnz;
    x->start[++x->n] = (uint32_t)x->nnz;
    x->has_values |= new->has_values;
    x->has_weights |= new->weight != 1;
}

// ---------------------------------------------------------------- messages

struct shown show(const char *text, size_t len)
{
    struct shown s;
    if (printable_copy(s.text, sizeof s.text, text, len) == len)
        return s;
    (void)printable_copy(s.text, sizeof s.text - 3, text, len);
    memcpy(s.text + strlen(s.text), "...", 4);
    return s;
}

void reader_add_clause(char text[ERR_TEXT_MAX], const char *fmt, ...)
{
    size_t at = strlen(text);
    va_list args;
    if (at > 0)
        snprintf(text + at, ERR_TEXT_MAX - at, "; ");
    at = strlen(text);
    va_start(args, fmt);
    vsnprintf(text + at, ERR_TEXT_MAX - at, fmt, args);
    va_end(args);
}

// Returns advice about numbers in the form of spreadsheets ("1,000", "1 000").
static const char *spelt_otherwise(const char *text, size_t len)
{
    char plain[64];
    float ignored;
    size_t n = 0, commas = 0;
    for (size_t i = 0; i < len && n < sizeof plain; i++) {
        commas += text[i] == ',';
        if (!is_blank(text[i]))
            plain[n++] = text[i] == ',' ? '.' : text[i];
    }
    if (n == 0 || n == sizeof plain || number_parse(plain, n, &ignored) != NUMBER_OK)
        return "";
    return commas > 0 ? ": numbers have a decimal point, and no commas"
                      : ": remove the blanks";
}

int reader_bad_number(enum number_status status, const char *what, const char *text,
                      size_t len, const char *where, struct err *e)
{
    bool sign = len > 1 && (*text == '-' || *text == '+');
    if (status == NUMBER_NOT_FINITE && strchr("0123456789.", text[sign]) != NULL)
        return err_set(e, TUG_EDATA,
                       "%s '%s'%s is too large: numbers are 32-bit floats, up to 3.4e38",
                       what, show(text, len).text, where);
    if (status == NUMBER_NOT_FINITE)
        return err_set(e, TUG_EDATA, "%s '%s'%s is not finite", what,
                       show(text, len).text, where);
    if (len == 0)
        return err_set(e, TUG_EDATA, "%s%s is missing", what, where);
    return err_set(e, TUG_EDATA, "%s '%s'%s is not a number%s", what,
                   show(text, len).text, where, spelt_otherwise(text, len));
}

bool reader_means_missing(const char *text, size_t len)
{
    static const char *const words[] = {"NA",   "N/A", "#N/A", "<NA>",    "NaN",    "NaT",
                                        "null", "nil", "none", "missing", "(null)", "\\N",
                                        "?",    "-",   "--",   "."};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == len && strncasecmp(words[i], text, len) == 0)
            return true;
    return false;
}

int reader_explain_missing(const char *text, size_t len, const char *how, struct err *e)
{
    if (e == NULL || !reader_means_missing(text, len))
        return TUG_EDATA;
    err_add(e, "; if it means a missing value, %s", how);
    return TUG_EDATA;
}

// ---------------------------------------------------------------- labels

// Adds advice about a label that is not a number.
static int explain_label(const struct reader *r, const char *text, size_t len,
                         struct err *e)
{
    float ignored;
    bool missing = reader_means_missing(text, len);
    if (e == NULL || (missing && r->n_labels > 1) || len == 0 ||
        (!missing && number_parse(text, len, &ignored) != NUMBER_BAD))
        return TUG_EDATA;
    if (missing)
        err_add(e, "; lines without a label are left out with --max-bad-lines N");
    else if (r->loss == LOSS_LOGISTIC)
        err_add(e, "; labels are 0 and 1, or -1 and 1");
    return TUG_EDATA;
}

int reader_label(const struct reader *r, const char *text, size_t len, float *ret,
                 struct err *e)
{
    if (len == 1 && (*text == '0' || *text == '1')) {
        *ret = (float)(*text - '0');
        if (r->labels)
            reader_note_label(r, *ret);
        return 0;
    }
    float x = 0;
    enum number_status status = number_parse(text, len, &x);
    if (!r->labels) { // the label is not used, and may be "?" or an id of the line
        *ret = status == NUMBER_OK && r->loss == LOSS_LOGISTIC ? (float)(x > 0) : x;
        return 0;
    }
    if (status != NUMBER_OK) {
        (void)reader_bad_number(status, "the label", text, len, "", e);
        return explain_label(r, text, len, e);
    }
    if (r->loss == LOSS_LOGISTIC && x != 0 && x != 1 && x != -1)
        return err_set(e, TUG_EDATA, "the label '%s' is not one of 0, 1, -1, +1%s",
                       show(text, len).text,
                       r->given ? "" : " (use --loss squared for numbers)");
    reader_note_label(r, x);
    *ret = r->loss == LOSS_LOGISTIC ? (float)(x > 0) : x;
    return 0;
}

int reader_wrap_header(const struct reader *r, const char *name, struct err *e)
{
    return r->rows != NULL ? err_wrap(e, "%s", name) : err_wrap(e, "%s:1", name);
}

void reader_note_negative(const struct reader *r, bool minus)
{
    atomic_uint *seen = (atomic_uint *)(uintptr_t)&r->negatives;
    unsigned bit = minus ? 2 : 1, before = atomic_fetch_or(seen, bit);
    if (before == 3 - bit)
        log_warn("the data has the labels 0 and -1, and both count as negatives: if they "
                 "are two classes, or one of them means an unknown label, leave one out");
}

unsigned reader_begin_labels(struct reader *r, unsigned seen)
{
    return r != NULL ? atomic_exchange(&r->negatives, seen) : 0;
}

int reader_label_number(const struct reader *r, float label, float *ret, struct err *e)
{
    char text[32];
    *ret = r->labels ? label : 0;
    if (!r->labels)
        return 0;
    reader_note_label(r, label);
    if (label == 0 || label == 1)
        return 0;
    int len = snprintf(text, sizeof text, "%.9g", (double)label);
    return reader_label(r, text, (size_t)len, ret, e);
}

int reader_check_labels(const struct reader *r, const struct example *new, struct err *e)
{
    if (!r->labels || r->n_labels == 1)
        return 0;
    for (uint32_t t = 0; t < r->n_labels; t++)
        if (!isnan(new->label[t]))
            return 0;
    return err_set(e, TUG_EDATA, "all %u labels are missing", r->n_labels);
}

// Returns whether a text looks like a column's name: printable, with a letter, and not a
// number.
static bool is_name(const char *text, size_t len)
{
    float ignored;
    bool letter = false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < ' ' || text[i] > '~' || text[i] == ':')
            return false;
        letter |= (text[i] | ' ') >= 'a' && (text[i] | ' ') <= 'z';
    }
    return letter && number_parse(text, len, &ignored) == NUMBER_BAD;
}

bool reader_is_json(const char *line, size_t len)
{
    return len > 1 && *line == '{' && line[len - 1] == '}' &&
           memchr(line, '"', len) != NULL && memchr(line, ':', len) != NULL;
}

void reader_explain_first(const struct reader *r, const char *line, size_t len,
                          struct err *e)
{
    size_t n = 0;
    reader_text_trim(&line, &len);
    if (e != NULL && reader_is_json(line, len)) {
        err_add(e, "; " READER_JSON);
        return;
    }
    while (n < len && !is_blank(line[n]) && line[n] != ',' && line[n] != ';')
        n++;
    if (e == NULL || r->ops->header || !is_name(line, n))
        return;
    if (r->given)
        err_add(e,
                "; this line looks like a header, and the model was trained on %s data, "
                "which has none: give it data as it was trained on",
                r->ops->name);
    else
        err_add(e,
                "; this line looks like a header, which %s data does not have: remove "
                "it, or read the data with --format csv",
                r->ops->name);
}

// ---------------------------------------------------------------- the interface

const struct reader_ops *reader_ops_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof FORMATS / sizeof FORMATS[0]; i++)
        if (strcmp(FORMATS[i]->name, name) == 0)
            return FORMATS[i];
    return NULL;
}

static int no_format(const char *name, struct err *e)
{
    if (name == NULL)
        return err_set(e, TUG_EUSAGE,
                       "the format of the data is not given; the formats are %s",
                       reader_formats());
    return err_set(e, TUG_EUSAGE, "there is no data format '%s'; the formats are %s",
                   name, reader_formats());
}

static int only_csv(const char *value, const char *option, const char *format,
                    struct err *e)
{
    if (value == NULL)
        return 0;
    return err_set(e, TUG_EUSAGE, "%s works only with csv data, not with %s", option,
                   format);
}

static int check_csv_only(const struct reader_options *o, const char *format,
                          struct err *e)
{
    const char separator[2] = {o->separator, 0};
    TRY(only_csv(o->label_column, "--label", format, e));
    TRY(only_csv(o->drop, "--drop", format, e));
    TRY(only_csv(o->numeric, "--numeric", format, e));
    TRY(only_csv(o->weight_column, "--weight-column", format, e));
    TRY(only_csv(o->lists, "--lists", format, e));
    TRY(only_csv(o->missing, "--missing", format, e));
    TRY(only_csv(o->quote, "--quote", format, e));
    TRY(only_csv(o->decimal, "--decimal", format, e));
    TRY(only_csv(o->columns, "--columns", format, e));
    TRY(only_csv(o->cross_columns, "--cross-columns", format, e));
    return only_csv(o->separator != 0 && o->separator != ',' ? separator : NULL,
                    "--separator", format, e);
}

static struct schema *make_schema(const struct reader_options *o, const char *format)
{
    struct schema *s = mem_zalloc(sizeof *s);
    if (s == NULL)
        return NULL;
    if (o->schema != NULL)
        *s = *o->schema;
    snprintf(s->format, sizeof s->format, "%s", format);
    s->loss = o->loss;
    s->separator = strcmp(format, "csv") == 0 ? o->separator : (char)0;
    return s;
}

// Opens a reader, with missing options taken from the schema.
static int open_complete(struct reader **ret, const struct reader_options *o,
                         struct err *e)
{
    const struct reader_ops *ops = reader_ops_find(o->format);
    if (ops == NULL)
        return no_format(o->format, e);
    if (ops != &reader_csv)
        TRY(check_csv_only(o, ops->name, e));
    if (ops != &reader_multislot && o->slots != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--slots works only with multislot data, not with %s", ops->name);
    struct reader *r = NULL;
    TRY(ops->open(&r, o, e));
    r->ops = ops;
    r->loss = o->loss;
    r->labels = o->labels;
    r->given = o->schema != NULL;
    r->n_labels = 1;
    r->between = '|';
    r->schema = make_schema(o, ops->name);
    int rc = r->schema != NULL ? 0 : err_nomem(e, "a reader");
    if (rc == 0 && ops->adopt != NULL &&
        (r->schema->columns > 0 || r->headless || !ops->header))
        rc = ops->adopt(r, e);
    if (rc == 0)
        *ret = r;
    else
        reader_close(r);
    return rc;
}

int reader_open(struct reader **ret, const struct reader_options *o, struct err *e)
{
    struct reader_options complete = *o;
    if (o->schema != NULL) {
        TRY(reader_agrees(o, e));
        complete.loss = o->schema->loss;
        complete.separator = o->schema->separator;
        if (o->format == NULL)
            complete.format = o->schema->format;
    }
    if (complete.separator == 0 && complete.format != NULL &&
        strcmp(complete.format, "csv") == 0)
        complete.separator = ',';
    return open_complete(ret, &complete, e);
}

void reader_close(struct reader *r)
{
    if (r == NULL)
        return;
    mem_free(r->schema);
    r->ops->close(r);
}

const struct schema *reader_schema(const struct reader *r)
{
    return r->schema;
}

uint32_t reader_label_count(const struct reader *r)
{
    return r->n_labels;
}

uint32_t reader_slots(const struct reader *r)
{
    return r->ops->slots(r);
}

bool reader_has_header(const struct reader *r)
{
    return r->ops->header && !r->headless;
}

int reader_header(struct reader *r, const char *line, size_t len,
                  const struct reader_layout **ret, struct err *e)
{
    assert(r->ops->header);
    TRY(reader_text(&line, &len, true, e));
    return r->ops->read_header(r, line, len, ret, e);
}

size_t reader_wants(const struct reader *r)
{
    bool header = reader_has_header(r);
    size_t rows = r->ops->wants != NULL ? r->ops->wants(r) : 0;
    return rows > 0 ? rows + header : header && reader_slots(r) == 0;
}

int reader_decide(struct reader *r, const char *name, struct buf *lines, struct err *e)
{
    static const char padding[READER_PADDING] = {0};
    const struct reader_layout *layout = NULL;
    bool header = reader_has_header(r),
         rows = r->ops->wants != NULL && r->ops->wants(r) > 0;
    size_t len = lines->len, at = 0;
    if (buf_add(lines, padding, sizeof padding) != 0)
        return err_nomem(e, "the first lines of a file");
    if (header) {
        const char *end = memchr(lines->data, '\n', len);
        size_t n = end != NULL ? (size_t)(end - lines->data) : len;
        int rc = reader_header(r, lines->data, n, &layout, e);
        if (rc != 0)
            return rc == TUG_EDATA ? reader_wrap_header(r, name, e) : rc;
        at = end != NULL ? n + 1 : n;
    }
    return rows ? r->ops->decide(r, layout, name, lines->data + at, len - at, 1 + header,
                                 e)
                : 0;
}

void reader_absent_columns(const struct reader *r, char text[READER_NAMES_MAX])
{
    *text = '\0';
    if (r->ops->absent_columns != NULL)
        r->ops->absent_columns(r, text);
}

bool reader_skips(const struct reader *r, const char *line, size_t len)
{
    reader_text_trim(&line, &len);
    return !r->ops->every_line && len == 0;
}

int reader_line(const struct reader *r, const struct reader_layout *layout,
                const char *line, size_t len, struct examples *x, struct err *e)
{
    TRY(reader_text(&line, &len, r->ops->quotes, e));
    if (len == 0 && !r->ops->every_line)
        return 0;
    if (x->n == 0)
        x->labels = r->n_labels;
    assert(x->labels == r->n_labels);
    return r->ops->line(r, layout, line, len, x, e);
}

int reader_row(const struct reader *r, const struct reader_layout *layout,
               const struct rows *rows, uint64_t i, struct examples *x, struct err *e)
{
    if (r->ops->row == NULL || reader_ops_find(rows->format) != r->ops)
        return err_set(e, TUG_EUSAGE, "rows in memory of format %s cannot be read as %s",
                       rows->format, r->ops->name);
    if (x->n == 0)
        x->labels = r->n_labels;
    assert(x->labels == r->n_labels);
    return r->ops->row(r, layout, rows, i, x, e);
}

void reader_see_rows(struct reader *r, const struct rows *rows)
{
    // Writes the field only if it changes, because other threads may be reading it.
    if (r->rows != rows)
        r->rows = rows;
}
