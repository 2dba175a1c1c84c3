// Spellings of values in columns that were trained on a data frame. Different writers of
// csv files write the same value as True, true or TRUE, as 19 or 19.0, as 2020-01-31 or
// 2020-01-31T00:00:00. Here each spelling becomes the word that the frame's own writer
// uses. A text that is not a value of the column's type stays unchanged, as a word. So
// does every text of a column that was trained on csv files, because its meaning is
// unknown: "007" may be a number or an agent.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/format/reader_csv.h"
#include "data/frame/rows.h"

enum fold { FOLD_NOT, FOLD_BOOL, FOLD_WHOLE, FOLD_REAL, FOLD_TIME };

static const struct cells {
    const char *name; // name of the column's type, as column_cells (columns.h) returns it
    enum fold fold;
    // `arrow`: texts have the form that polars writes; `single`: a value has 4 bytes;
    // `is_date`: values are dates without a time.
    bool arrow, single, is_date;
    int digits; // digits of a second's fraction
} known[] = {
    {"", .fold = FOLD_NOT},
    {"bool", .fold = FOLD_BOOL},
    {"arrow-bool", .fold = FOLD_BOOL, .arrow = true},
    {"whole", .fold = FOLD_WHOLE},
    {"float64", .fold = FOLD_REAL},
    {"float32", .fold = FOLD_REAL, .single = true},
    {"arrow-float64", .fold = FOLD_REAL, .arrow = true},
    {"arrow-float32", .fold = FOLD_REAL, .arrow = true, .single = true},
    {"date", .fold = FOLD_TIME, .is_date = true},
    {"time", .fold = FOLD_TIME},
    {"time3", .fold = FOLD_TIME, .digits = 3},
    {"time6", .fold = FOLD_TIME, .digits = 6},
    {"time9", .fold = FOLD_TIME, .digits = 9},
    {"arrow-time", .fold = FOLD_TIME, .arrow = true},
    {"arrow-time3", .fold = FOLD_TIME, .arrow = true, .digits = 3},
    {"arrow-time6", .fold = FOLD_TIME, .arrow = true, .digits = 6},
    {"arrow-time9", .fold = FOLD_TIME, .arrow = true, .digits = 9},
};

uint32_t csv_find_cells(const char *name, size_t len)
{
    for (uint32_t i = 1; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0)
            return i;
    return 0;
}

// ---------------------------------------------------------------- the schema

int csv_add_type(struct csv *c, size_t column, enum schema_use use, const char *name,
                 struct err *e)
{
    const struct rows *rows = c->base.rows;
    size_t labels = rows != NULL && rows->labels != NULL;
    if (rows == NULL || column < labels || column - labels >= rows->columns->n ||
        (use != SCHEMA_WORDS && use != SCHEMA_LISTS))
        return 0;
    const char *cells = column_cells(&rows->columns->type[column - labels]);
    if (cells == NULL || csv_find_cells(cells, strlen(cells)) == 0)
        return 0;
    struct buf text = BUF_INIT(SCHEMA_TEXT_MAX);
    int rc = buf_printf(&text, "%s %s", cells, name) == 0
                 ? schema_add(c->base.schema, SCHEMA_TYPE, text.data, text.len, e)
                 : err_nomem(e, "the types of columns");
    buf_free(&text);
    return rc;
}

int csv_take_types(struct csv *c, struct err *e)
{
    const struct schema *s = c->base.schema;
    const char *text;
    size_t at = 0;
    c->old_cells = !schema_next_setting(s, SCHEMA_WRITTEN, &at, &text);
    for (at = 0; schema_next_setting(s, SCHEMA_TYPE, &at, &text);) {
        size_t len = strcspn(text, " ");
        const char *name = text + len + (text[len] == ' ');
        struct column *column = csv_schema_column(c, name, strlen(name));
        uint32_t cells = csv_find_cells(text, len);
        if (column == NULL || cells == 0)
            return err_set(e, TUG_EDATA,
                           "the schema has a type '%s' that this version does not know",
                           show(text, strlen(text)).text);
        column->cells = cells;
    }
    return 0;
}

// ---------------------------------------------------------------- spellings

enum { NUMBER_MOST = 48 }; // length of the longest text that is changed

// Reads a number in the form of csv: the whole text, without blanks, names and
// hexadecimals. Returns false if the text is not such a number.
static bool reader_csv_fold_is_number(const char *text, size_t len, double *ret)
{
    char copy[NUMBER_MOST + 1], *end;
    if (len == 0 || len > NUMBER_MOST)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\0' || strchr("0123456789+-.eE", text[i]) == NULL)
            return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    *ret = strtod(copy, &end);
    return *end == '\0' && isfinite(*ret);
}

static const char *fold_bool(const struct cells *k, const char *text, size_t *len)
{
    static const char *const words[2][2] = {{"False", "True"}, {"false", "true"}};
    for (int is = 0; is < 2; is++) {
        const char *word = words[k->arrow][is];
        if (strlen(word) == *len && strncasecmp(word, text, *len) == 0)
            return word;
    }
    return text;
}

// Reads digits of any length, which a point and zeros may follow. A number with an
// exponent is read as a double, which is exact up to 2^53.
static const char *fold_whole(const char *text, size_t *len, char *own)
{
    const char *p = text, *end = text + *len;
    bool negative = *len > 0 && *p == '-';
    p += *len > 0 && (*p == '-' || *p == '+');
    while (p + 1 < end && *p == '0' && p[1] >= '0' && p[1] <= '9')
        p++;
    const char *digits = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    size_t n = (size_t)(p - digits);
    if (p < end && *p == '.')
        for (p++; p < end && *p == '0'; p++)
            ;
    double x;
    if (n > 0 && n <= NUMBER_MOST && p == end) {
        negative &= n > 1 || *digits != '0';
        memcpy(own + 1, digits, n);
        *own = '-';
        *len = n + negative;
        return own + !negative;
    }
    if (!reader_csv_fold_is_number(text, *len, &x) || x != trunc(x) || fabs(x) > 0x1p53)
        return text;
    *len = (size_t)snprintf(own, CELL_OWN, "%.0f", x + 0.0);
    return own;
}

static const char *fold_real(const struct cells *k, const char *text, size_t *len,
                             char *own)
{
    double x;
    if (!reader_csv_fold_is_number(text, *len, &x))
        return text;
    x = k->single ? (double)(float)x : x;
    *len = cell_write_float(x, k->single, k->arrow ? CELL_ARROW : CELL_PYTHON, own);
    return own;
}

static bool digits_are(const char *text, const char *form)
{
    for (; *form != '\0'; text++, form++)
        if (*form == '0' ? *text < '0' || *text > '9' : *text != *form)
            return false;
    return true;
}

// Reads YYYY-MM-DD, optionally followed by a blank or a T and then HH:MM, or HH:MM:SS
// with a fraction. Writes the text as long as the type's own writer does, or longer if
// digits would be lost.
static const char *fold_time(const struct cells *k, const char *text, size_t *len,
                             char *own)
{
    enum { DATE = 10, MINUTES = 16, SECONDS = 19, MOST = 29 };
    char copy[MOST + 1] = "";
    if (*len < DATE || *len > MOST || memchr(text, '\0', *len) != NULL)
        return text;
    memcpy(copy, text, *len);
    if (!digits_are(copy, "0000-00-00") ||
        (*len > DATE && (!digits_are(copy + DATE + 1, "00:00") ||
                         (copy[DATE] != ' ' && copy[DATE] != 'T'))) ||
        (*len > MINUTES && !digits_are(copy + MINUTES, ":00")) ||
        (*len > SECONDS &&
         (copy[SECONDS] != '.' || *len == SECONDS + 1 ||
          strspn(copy + SECONDS + 1, "0123456789") != *len - SECONDS - 1)))
        return text;
    const char *rest = *len > DATE ? copy + DATE + 1 : "";
    const char *fraction = *len > SECONDS ? copy + SECONDS + 1 : "";
    int digits = (int)strlen(fraction);
    while (digits > k->digits && fraction[digits - 1] == '0')
        digits--;
    bool midnight = strspn(rest, "0:.") == strlen(rest);
    int n = snprintf(own, CELL_OWN, "%.*s", DATE, copy);
    if (!(k->is_date && midnight)) {
        n += snprintf(own + n, CELL_OWN - (size_t)n, "%c%.5s", k->arrow ? 'T' : ' ',
                      *rest != '\0' ? rest : "00:00");
        n += snprintf(own + n, CELL_OWN - (size_t)n, "%.3s",
                      *len > MINUTES ? copy + MINUTES : ":00");
        if (digits > 0 || k->digits > 0)
            n += snprintf(own + n, CELL_OWN - (size_t)n, ".%.*s%.*s", digits, fraction,
                          k->digits > digits ? k->digits - digits : 0, "000000000");
    }
    *len = (size_t)n;
    return own;
}

const char *csv_fold_cells(uint32_t cells, const char *text, size_t *len, char *own)
{
    const struct cells *k = &known[cells];
    switch (k->fold) {
    case FOLD_BOOL:
        return fold_bool(k, text, len);
    case FOLD_WHOLE:
        return fold_whole(text, len, own);
    case FOLD_REAL:
        return fold_real(k, text, len, own);
    case FOLD_TIME:
        return fold_time(k, text, len, own);
    case FOLD_NOT:
        break;
    }
    return text;
}
