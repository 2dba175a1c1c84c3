// CSV with a header (RFC 4180, but without line breaks inside quotes). Every column is a
// category of words, unless the options say that it is the label, a weight, a number or
// dropped.
//
// Keys depend on the columns' names, so that each file may have its own order of columns.
// The key of a word is the hash of its text, with the hash of the column's name as the
// seed; the key of a number is the hash of the name, and the number is the value. An
// empty field is missing. Slots are the feature columns of the schema, numbered from 0 in
// its order. Each file has a layout, which says what its columns are. Features are
// returned in the order of slots, not of the file, so that an example has the same bits
// in all files.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/format/reader_csv.h"

#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/maths.h"
#include "base/plural.h"

// ---------------------------------------------------------------- fields

// Returns the closing quote of a quoted field; NULL if there is none.
static const char *closing_quote(const char *p, const char *end, bool *ret_doubled)
{
    for (; (p = find_byte(p, end, '"')) < end; p += 2) {
        if (p + 1 == end || p[1] != '"')
            return p;
        *ret_doubled = true;
    }
    return NULL;
}

const char *csv_quoted_field(const char *p, const char *end, char separator,
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

// ---------------------------------------------------------------- opening

static int copy_option(char **ret, const char *value, struct err *e)
{
    if (value == NULL)
        return 0;
    *ret = mem_strdup(value);
    return *ret != NULL ? 0 : err_nomem(e, "a reader");
}

static void csv_close(struct reader *r)
{
    struct csv *c = (void *)r;
    while (c->layouts != NULL) {
        struct reader_layout *next = c->layouts->next;
        csv_layout_free(c->layouts);
        c->layouts = next;
    }
    mem_free(c->column);
    mem_free(c->index);
    mem_free(c->label);
    mem_free(c->drop);
    mem_free(c->numeric);
    mem_free(c->weight);
    mem_free(c->lists);
    mem_free(c->cross_columns);
    mem_free(c->cross);
    mem_free(c->bin);
    mem_free(c->edges);
    mem_free(c->missing);
    mem_free(c->names);
    mem_free(c->empty);
    mem_free(c->odd.cells);
    mem_free(c->odd.commas);
    mem_free(c);
}

static int copy_options(struct csv *c, const struct reader_options *o, struct err *e)
{
    TRY(copy_option(&c->label, o->label_column, e));
    TRY(copy_option(&c->drop, o->drop, e));
    TRY(copy_option(&c->numeric, o->numeric, e));
    TRY(copy_option(&c->weight, o->weight_column, e));
    TRY(copy_option(&c->lists, o->lists, e));
    TRY(copy_option(&c->missing, o->missing, e));
    TRY(copy_option(&c->cross_columns, o->cross_columns, e));
    TRY(copy_option(&c->names, o->columns, e));
    c->names_optional = c->names != NULL;
    c->unquoted = o->quote != NULL && strcmp(o->quote, "none") == 0;
    c->decimal_comma = o->decimal != NULL && o->decimal[0] == ',';
    size_t at = 0;
    const char *names;
    if (o->schema != NULL && schema_next_setting(o->schema, SCHEMA_HEADER, &at, &names)) {
        c->names_optional = false;
        if (c->names == NULL)
            TRY(copy_option(&c->names, names, e));
    }
    c->base.headless = c->names != NULL;
    return 0;
}

static int csv_open(struct reader **ret, const struct reader_options *o, struct err *e)
{
    char lists = o->list_separator;
    if (o->separator == '"' || o->separator == '\n' || o->separator == '\r')
        return err_set(e, TUG_EUSAGE,
                       "a quote or a line end cannot be the csv separator");
    if (lists == '"' || lists == '\n' || lists == '\r' ||
        (lists != 0 && o->lists == NULL && o->schema == NULL))
        return err_set(e, TUG_EUSAGE,
                       "--list-separator needs --lists, and cannot be a quote or a line "
                       "end");
    if (o->quote != NULL && strcmp(o->quote, "none") != 0 &&
        strcmp(o->quote, "double") != 0)
        return err_set(e, TUG_EUSAGE, "--quote is double or none, not '%s'",
                       show(o->quote, strlen(o->quote)).text);
    if (o->decimal != NULL && strcmp(o->decimal, ",") != 0 &&
        strcmp(o->decimal, ".") != 0)
        return err_set(e, TUG_EUSAGE, "--decimal is a comma or a point, not '%s'",
                       show(o->decimal, strlen(o->decimal)).text);
    struct csv *c = mem_zalloc(sizeof *c);
    if (c == NULL)
        return err_nomem(e, "a reader");
    c->separator = o->separator;
    c->trained_separator = o->trained_separator;
    c->allow_missing = o->allow_missing;
    c->no_options = o->no_options;
    c->drop_elsewhere = o->drop_elsewhere;
    c->list_separator = lists;
    int rc = copy_options(c, o, e);
    if (rc == 0)
        rc = csv_check_bins(c, e);
    if (rc != 0) {
        csv_close(&c->base);
        return rc;
    }
    *ret = &c->base;
    return 0;
}

static int csv_adopt(struct reader *r, struct err *e)
{
    struct csv *c = (void *)r;
    c->given = r->schema->columns > 0;
    if (c->given)
        TRY(csv_take_schema(c, e));
    return c->names != NULL ? csv_take_names(c, e) : 0;
}

// ---------------------------------------------------------------- lines

static int bad_columns(const struct csv *c, const struct reader_layout *l,
                       const char *line, const char *end, struct err *e)
{
    size_t found = 0;
    for (const char *p = line; p <= end; p++, found++) {
        struct field f;
        p = csv_next_field(p, end, c->separator, csv_quote(c), &f, e);
        if (p == NULL)
            return csv_explain_quote(c, line, end, e);
    }
    err_set(e, TUG_EDATA, "found %zu column%s, %s %zu%s", found, PLURAL_S(found),
            l == c->only ? "and --columns names" : "the header has", l->columns,
            found == 1 ? csv_separator_hint(c, line, (size_t)(end - line)) : "");
    return csv_quote(c) != 0 && csv_has_backslash_quote(line, end)
               ? csv_explain_quote(c, line, end, e)
               : TUG_EDATA;
}

static int text_key(const struct field *f, const struct column *column, uint64_t *ret,
                    struct err *e)
{
    if (!f->doubled) {
        char own[CELL_OWN];
        size_t len = f->len;
        const char *text = csv_fold(column, f->text, &len, own);
        *ret = hash_bytes(text, len, column->seed);
        return 0;
    }
    char *text = mem_alloc(f->len);
    if (text == NULL)
        return err_nomem(e, "a csv field");
    *ret = hash_bytes(text, csv_unquote(f, text), column->seed);
    mem_free(text);
    return 0;
}

// Reads "true" and "yes" as 1, "false" and "no" as 0, in upper or lower case.
static bool truth(const struct field *f, float *ret)
{
    static const char *const words[] = {"false", "no", "true", "yes"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == f->len && strncasecmp(words[i], f->text, f->len) == 0) {
            *ret = i < 2 ? 0 : 1;
            return true;
        }
    return false;
}

enum { NUMBER_TEXT = NUMBER_MAX + 1 };

// Copies a number and replaces its decimal comma by a point. Returns false if the number
// has no comma, or more than one decimal mark.
static bool with_point(const struct field *f, char ret[NUMBER_TEXT], struct field *to)
{
    const char *comma = memchr(f->text, ',', f->len);
    if (comma == NULL || f->len >= NUMBER_TEXT || memchr(f->text, '.', f->len) != NULL)
        return false;
    memcpy(ret, f->text, f->len);
    ret[comma - f->text] = '.';
    *to = (struct field){.text = ret, .len = f->len};
    return memchr(ret, ',', f->len) == NULL;
}

static enum number_status parse_comma(const struct field *f, bool either, float *ret)
{
    char text[NUMBER_TEXT];
    struct field pointed;
    if (with_point(f, text, &pointed))
        return number_parse(pointed.text, pointed.len, ret);
    return !either && memchr(f->text, '.', f->len) != NULL
               ? NUMBER_BAD
               : number_parse(f->text, f->len, ret);
}

static enum number_status parse_number(const struct column *column, const struct field *f,
                                       float *ret)
{
    return column->mark == DECIMAL_POINT
               ? number_parse(f->text, f->len, ret)
               : parse_comma(f, column->mark == DECIMAL_EITHER, ret);
}

bool csv_is_of_thousands(const char *text, size_t n)
{
    size_t sign = n > 0 && (text[0] == '-' || text[0] == '+'), before = 0;
    while (sign + before < n && text[sign + before] >= '0' && text[sign + before] <= '9')
        before++;
    if (before < 1 || before > 3 || n != sign + before + 4)
        return false;
    for (size_t i = n - 3; i < n; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return true;
}

// Adds advice to the error about a number that cannot be read, if the number has a point
// where a comma is expected, or the reverse.
static int advise_mark(const struct column *column, const struct field *f, struct err *e)
{
    char text[NUMBER_TEXT];
    struct field pointed;
    float ignored;
    if (e != NULL && column->mark == DECIMAL_POINT && with_point(f, text, &pointed) &&
        number_parse(pointed.text, pointed.len, &ignored) == NUMBER_OK)
        err_set(e, TUG_EDATA,
                csv_is_of_thousands(f->text, f->len)
                    ? "'%s' of column '%s' has a comma: remove it if it separates "
                      "thousands; if it is the decimal mark, give --decimal ,"
                    : "'%s' of column '%s' has a decimal comma: give --decimal ,",
                show(f->text, f->len).text,
                show(column->name, strlen(column->name)).text);
    else if (e != NULL && column->mark == DECIMAL_COMMA &&
             number_parse(f->text, f->len, &ignored) == NUMBER_OK)
        err_set(e, TUG_EDATA,
                "'%s' of column '%s' has a decimal point, and numbers have a comma here: "
                "--decimal . reads points",
                show(f->text, f->len).text,
                show(column->name, strlen(column->name)).text);
    return TUG_EDATA;
}

int csv_number(const char *what, const struct column *column, const struct field *f,
               float *ret, struct err *e)
{
    enum number_status status = parse_number(column, f, ret);
    if (status == NUMBER_OK || truth(f, ret))
        return 0;
    char where[sizeof(struct shown) + 16];
    snprintf(where, sizeof where, " of column '%s'",
             show(column->name, strlen(column->name)).text);
    (void)reader_bad_number(status, what, f->text, f->len, where, e);
    return advise_mark(column, f, e);
}

static int take_weight(const struct column *column, const struct field *f, float *ret,
                       struct err *e)
{
    TRY(csv_number("weight", column, f, ret, e));
    if (*ret < 0)
        return err_set(e, TUG_EDATA, "weight '%s' is negative",
                       show(f->text, f->len).text);
    return 0;
}

// Returns log(1 + v), with the sign of v for negative numbers.
static float signed_log(float v)
{
    double l = maths_log(1 + fabs((double)v));
    return (float)(v < 0 ? -l : l);
}

void csv_take_number(const struct column *column, float v, struct examples *x,
                     struct example *new)
{
    size_t k = new->nnz++;
    x->key[k] = column->seed;
    x->value[k] = column->use == SCHEMA_LOGS ? signed_log(v) : v;
    x->slot[k] = (uint16_t)column->slot;
    new->has_values |= x->value[k] != 1;
}

// Adds a feature at index new->nnz.
static int take_feature(const struct csv *c, const struct column *column,
                        const struct field *f, struct examples *x, struct example *new,
                        struct err *e)
{
    size_t k = new->nnz;
    float v;
    if (column->use != SCHEMA_WORDS && column->use != SCHEMA_LISTS) {
        if (csv_number("value", column, f, &v, e) != 0)
            return csv_explain_missing(c, f, e);
        csv_take_number(column, v, x, new);
        return 0;
    }
    x->value[k] = 1;
    TRY(text_key(f, column, &x->key[k], e));
    x->slot[k] = (uint16_t)column->slot;
    new->nnz++;
    return 0;
}

// Adds the bin of a number. While the first lines are read to decide the bins, adds the
// number itself.
static int take_bin(const struct csv *c, const struct column *column,
                    const struct field *f, struct examples *x, struct example *new,
                    struct err *e)
{
    if (c->looking)
        return csv_is_empty(c, f->text, f->len) ? 0
                                                : take_feature(c, column, f, x, new, e);
    size_t k = new->nnz;
    TRY(csv_bin_key(c, column, f, &x->key[k], e));
    x->value[k] = 1;
    x->slot[k] = (uint16_t)column->slot;
    new->nnz++;
    return 0;
}

// Adds each word of a cell as a feature. `f` has no doubled quotes.
static int take_words(const struct csv *c, const struct column *column,
                      const struct field *f, struct examples *x, struct example *new,
                      struct err *e)
{
    const char *p = f->text, *end = p + f->len;
    for (;; p++) {
        const char *stop = memchr(p, c->list_separator, (size_t)(end - p));
        const struct field word = {.text = p,
                                   .len = (size_t)((stop != NULL ? stop : end) - p)};
        if (!csv_is_empty(c, word.text, word.len))
            TRY(take_feature(c, column, &word, x, new, e));
        if (stop == NULL)
            return 0;
        p = stop;
    }
}

static int take_list(const struct csv *c, const struct column *column,
                     const struct field *f, struct examples *x, struct example *new,
                     struct err *e)
{
    if (!f->doubled)
        return take_words(c, column, f, x, new, e);
    char *text = mem_alloc(f->len);
    if (text == NULL)
        return err_nomem(e, "a csv field");
    const struct field plain = {.text = text, .len = csv_unquote(f, text)};
    int rc = take_words(c, column, &plain, x, new, e);
    mem_free(text);
    return rc;
}

static int take_label(const struct csv *c, const struct column *column,
                      const struct field *f, float *ret, struct err *e)
{
    if (f->len == 0 && !c->base.labels)
        return 0;
    if (c->base.n_labels > 1 && csv_is_empty(c, f->text, f->len)) {
        *ret = c->base.labels ? (float)NAN : 0;
        return 0;
    }
    bool word = truth(f, ret);
    if (word)
        reader_note_label(&c->base, *ret);
    char text[NUMBER_TEXT];
    // The decimal mark is handled as in other numbers; reader_label decides which values
    // are allowed.
    struct field plain = *f;
    if (!word && column->mark != DECIMAL_POINT && !with_point(f, text, &plain) &&
        column->mark == DECIMAL_COMMA && memchr(f->text, '.', f->len) != NULL)
        return csv_number("label", column, f, ret, e);
    int rc = word ? 0 : reader_label(&c->base, plain.text, plain.len, ret, e);
    if (rc == 0 || c->base.n_labels == 1)
        return rc;
    (void)csv_explain_missing(c, &plain, e);
    return err_wrap(e, "column '%s'", show(column->name, strlen(column->name)).text);
}

int csv_take_field(const struct csv *c, const struct column *column,
                   const struct field *f, struct examples *x, struct example *new,
                   struct err *e)
{
    switch (column->use) {
    case SCHEMA_LABEL:
        return take_label(c, column, f, &new->label[column->slot], e);
    case SCHEMA_WEIGHT:
        return c->base.labels ? take_weight(column, f, &new->weight, e) : 0;
    case SCHEMA_NUMBERS:
    case SCHEMA_LOGS:
    case SCHEMA_WORDS:
        return csv_is_empty(c, f->text, f->len) ? 0
                                                : take_feature(c, column, f, x, new, e);
    case SCHEMA_LISTS:
        return take_list(c, column, f, x, new, e);
    case SCHEMA_BINS:
        return take_bin(c, column, f, x, new, e);
    case SCHEMA_DROPPED:
    case SCHEMA_IDS: // does not occur in csv
    case SCHEMA_KEYS:
    case SCHEMA_CROSSES: // computed from other columns
    case SCHEMA_MISSING:
    case SCHEMA_LIST_SEPARATOR:
    case SCHEMA_HEADER:
    case SCHEMA_QUOTE:
    case SCHEMA_EDGES:
    case SCHEMA_WRITTEN:
    case SCHEMA_TYPE:
    case SCHEMA_DECIMAL:
    case SCHEMA_USES:
        break;
    }
    return 0;
}

// Sorts features by slot; each slot occurs at most once. Uses an array indexed by slot,
// which is stored after the features.
static void order_features(struct examples *x, const struct example *new, size_t slots)
{
    size_t n = new->nnz - x->nnz, by_slot = new->nnz;
    for (size_t s = 0; s < slots; s++)
        // NaN marks slots without a value
        x->value[by_slot + s] = (float)NAN;
    for (size_t i = x->nnz; i < new->nnz; i++) {
        x->key[by_slot + x->slot[i]] = x->key[i];
        x->value[by_slot + x->slot[i]] = x->value[i];
    }
    size_t to = x->nnz;
    for (size_t s = 0; s < slots && n > 0; s++) {
        if (isnan(x->value[by_slot + s]))
            continue;
        x->key[to] = x->key[by_slot + s];
        x->value[to] = x->value[by_slot + s];
        x->slot[to++] = (uint16_t)s;
        n--;
    }
}

// Sorts features by slot where slots may have several features; features of one slot keep
// their order. After the features the arrays have space for a copy of the features and,
// in the array of keys, for a count of each slot.
static int order_lists(struct examples *x, const struct example *new, size_t slots,
                       struct err *e)
{
    size_t first = x->nnz, n = new->nnz - first, copy = new->nnz, at = copy + n;
    TRY(examples_reserve(x, 2 * n + slots + 1, e));
    memcpy(x->key + copy, x->key + first, n * sizeof *x->key);
    memcpy(x->value + copy, x->value + first, n * sizeof *x->value);
    memcpy(x->slot + copy, x->slot + first, n * sizeof *x->slot);
    memset(x->key + at, 0, (slots + 1) * sizeof *x->key);
    for (size_t i = 0; i < n; i++)
        x->key[at + x->slot[copy + i] + 1]++;
    for (size_t s = 0; s < slots; s++)
        x->key[at + s + 1] += x->key[at + s];
    for (size_t i = 0; i < n; i++) {
        size_t to = first + x->key[at + x->slot[copy + i]]++;
        x->key[to] = x->key[copy + i];
        x->value[to] = x->value[copy + i];
        x->slot[to] = x->slot[copy + i];
    }
    return 0;
}

int csv_begin(const struct csv *c, const struct reader_layout *l, size_t words,
              struct examples *x, struct example *new, struct err *e)
{
    if (c->binned > 0 && c->bin[0].edge == NULL && !c->looking)
        return err_set(e, TUG_EINTERNAL, "the bin boundaries of the column are not set");
    *new = (struct example){.weight = 1, .nnz = x->nnz};
    size_t slots = atomic_load_explicit(&c->slots, memory_order_relaxed);
    size_t most = slots + (c->has_lists ? words : 0);
    return examples_reserve(x, l->in_order ? most : most + slots, e);
}

int csv_end(const struct csv *c, const struct reader_layout *l, struct examples *x,
            struct example *new, struct err *e)
{
    const struct field empty = {.text = ""};
    size_t slots = atomic_load_explicit(&c->slots, memory_order_relaxed);
    for (size_t i = 0; i < l->absent; i++)
        TRY(csv_take_field(c, &l->column[l->columns + i], &empty, x, new, e));
    TRY(reader_check_labels(&c->base, new, e));
    if (!l->in_order && c->has_lists)
        TRY(order_lists(x, new, slots, e));
    else if (!l->in_order)
        order_features(x, new, slots);
    if (c->crosses > 0)
        TRY(csv_cross_line(c, x, new, e));
    examples_commit(x, new);
    return 0;
}

static int csv_line(const struct reader *r, const struct reader_layout *l,
                    const char *line, size_t len, struct examples *x, struct err *e)
{
    const struct csv *c = (const void *)r;
    l = l != NULL ? l : c->only;
    if (l == NULL)
        return err_set(e, TUG_EDATA, "the header, a line of column names, was not read");
    if (c->only != NULL)
        TRY(csv_refuse_header(c, line, len, e));
    else if (csv_repeats_header(l, line, len))
        return err_set(e, TUG_EDATA,
                       "the line repeats the header, as in csv files that were joined: "
                       "give the files themselves, or remove the line");
    csv_look_at_line(c, l, line, len);
    struct example new;
    TRY(csv_begin(c, l, len, x, &new, e));
    const char *p = line, *end = line + len;
    for (size_t i = 0; i < l->columns; i++, p++) {
        struct field f;
        p = csv_next_field(p, end, c->separator, csv_quote(c), &f, e);
        if (p == NULL)
            return csv_explain_quote(c, line, end, e);
        if ((p == end) != (i == l->columns - 1))
            return bad_columns(c, l, line, end, e);
        int rc = csv_take_field(c, &l->column[i], &f, x, &new, e);
        if (rc == TUG_EDATA && l->column[i].use == SCHEMA_LABEL)
            return csv_explain_label(c, l, line, end, e);
        TRY(rc);
    }
    return csv_end(c, l, x, &new, e);
}

static uint32_t csv_slots(const struct reader *r)
{
    return atomic_load(&((const struct csv *)(const void *)r)->slots);
}

const struct reader_ops reader_csv = {.name = "csv",
                                      .header = true,
                                      .quotes = true,
                                      .open = csv_open,
                                      .adopt = csv_adopt,
                                      .close = csv_close,
                                      .slots = csv_slots,
                                      .read_header = csv_header,
                                      .wants = csv_wants,
                                      .decide = csv_decide_bins,
                                      .line = csv_line,
                                      .row = csv_row,
                                      .find_column = csv_find_column,
                                      .column = csv_column,
                                      .word = csv_word,
                                      .absent_columns = csv_absent_columns};
