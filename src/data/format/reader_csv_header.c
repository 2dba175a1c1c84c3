// Headers of csv files: each header that fits the schema gives its file a layout.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "data/format/reader_csv.h"
#include "data/frame/rows.h"

// Adds a name without the blanks around it, because people write blanks after commas.
static int add_name(struct schema *to, const char *name, size_t len, struct err *e)
{
    csv_trim(&name, &len);
    return schema_add(to, SCHEMA_WORDS, name, len, e);
}

// Lists the names of a header's columns, in order, in a schema whose uses have no
// meaning.
static int split_header(const char *header, size_t len, char separator, char quote,
                        struct schema *ret, struct err *e)
{
    char *name = mem_alloc(len + 1);
    if (name == NULL)
        return err_nomem(e, "the columns of a csv file");
    int rc = 0;
    for (const char *p = header, *end = p + len; rc == 0; p++) {
        struct field f;
        p = csv_next_field(p, end, separator, quote, &f, e);
        if (p == NULL)
            rc = TUG_EDATA;
        else
            rc = add_name(ret, name, csv_unquote(&f, name), e);
        if (p == end)
            break;
    }
    mem_free(name);
    return rc;
}

int reader_header_names(const char *line, size_t len, char separator, bool quotes,
                        struct schema *ret, struct err *e)
{
    *ret = (struct schema){0};
    TRY(reader_text(&line, &len, quotes, e));
    return split_header(line, len, separator, quotes ? '"' : (char)0, ret, e);
}
// The differences between a header and the schema.
struct misfit {
    // The columns that the schema does not have, and the features that the header lacks.
    struct csv_named unknown, missing;
    const char *no_label, *no_weight; // the name of the label or weight column if the
                                      // header lacks it
};

// Sets the columns of a file's layout; marks in *seen the columns of the schema that the
// file has.
static int place_columns(const struct csv *c, const struct schema *names,
                         struct reader_layout *l, bool *seen, struct misfit *bad,
                         struct err *e)
{
    struct schema_column n;
    uint32_t next_slot = 0;
    l->in_order = true;
    for (size_t at = 0; schema_next(names, &at, &n);) {
        const struct column *known = csv_schema_column(c, n.name, strlen(n.name));
        struct column *to = &l->column[l->columns++];
        *to = known != NULL ? *known : (struct column){.use = SCHEMA_DROPPED};
        if (known == NULL && !csv_is_listed(c->drop, n.name))
            csv_name_column(&bad->unknown, n.name);
        if (to->use == SCHEMA_DROPPED)
            continue;
        if (seen[known - c->column])
            return err_set(
                e, TUG_EDATA,
                "the header has the column '%s' twice: give them different "
                "names, or --drop '%s' leaves both out%s",
                show(n.name, strlen(n.name)).text, show(n.name, strlen(n.name)).text,
                c->names == NULL && csv_has_number(names) ? CSV_NAMES_COLUMNS : "");
        seen[known - c->column] = true;
        if (!schema_is_feature(to->use))
            continue;
        l->in_order &= to->slot >= next_slot;
        next_slot = to->slot + 1;
    }
    return 0;
}

static void find_missing(struct csv *c, const bool *seen, struct reader_layout *l,
                         struct misfit *bad)
{
    for (size_t i = 0; i < c->columns; i++) {
        struct column *column = &c->column[i];
        if (seen[i] || column->use == SCHEMA_CROSSES)
            continue;
        column->absent |= schema_is_feature(column->use);
        if (column->use == SCHEMA_BINS) { // every line has the bin of missing values
            l->column[l->columns + l->absent++] = *column;
            l->in_order = false;
        }
        if (schema_is_feature(column->use) && !c->allow_missing)
            csv_name_column(&bad->missing, column->name);
        else if (column->use == SCHEMA_LABEL && c->base.labels)
            bad->no_label = column->name;
        else if (column->use == SCHEMA_WEIGHT && c->base.labels &&
                 (c->base.rows == NULL || c->base.rows->weights == NULL))
            bad->no_weight = column->name;
    }
}

const char *csv_separator_name(char c, char ret[8])
{
    snprintf(ret, 8, c == '\t' ? "tab" : "'%c'", c);
    return ret;
}

// Reports a header without a separator. The error names the expected separator and the
// reason for it.
static int one_column(const struct csv *c, const char *name, size_t len, struct err *e)
{
    char separator[8], trained[8];
    const char *hint = csv_separator_hint(c, name, len);
    const char *is = csv_separator_name(c->separator, separator);
    if (c->trained_separator != 0)
        return err_set(e, TUG_EDATA,
                       "the header is one column, '%s': --separator is %s, and that of "
                       "the model's training data was %s%s",
                       show(name, len).text, is,
                       csv_separator_name(c->trained_separator, trained), hint);
    if (!c->given)
        return err_set(
            e, TUG_EDATA,
            "the header is one column, '%s': the separator of the first file is "
            "%s, and all files of a run need the same",
            show(name, len).text, is);
    return err_set(e, TUG_EDATA,
                   "the header is one column, '%s': the separator is %s, that of the "
                   "model's training data%s",
                   show(name, len).text, is,
                   c->no_options     ? ""
                   : hint[0] != '\0' ? hint
                                     : "; --separator C gives another");
}

// Called for a header that shares no column with the schema: sets an error if the reason
// is a common mistake.
static int nothing_fits(const struct csv *c, const struct schema *names, struct err *e)
{
    const char *only = names->text + 1;
    if (names->columns == 1 && c->columns > 1)
        return one_column(c, only, strlen(only), e);
    if (csv_looks_like_data(names))
        return err_set(e, TUG_EDATA,
                       "the header has none of the feature columns" CSV_NEEDS_HEADER);
    return 0;
}

// Reports all differences in one message.
static int tell_misfit(const struct csv *c, const struct misfit *bad, struct err *e)
{
    char text[ERR_TEXT_MAX] = "", more[32];
    const struct csv_named *l = &bad->unknown;
    if (l->n == 1)
        reader_add_clause(
            text, "%s the column %s; %s%s%s",
            c->given ? "the model was not trained with" : "the first file does not have",
            l->text, c->no_options ? "leave it out" : "use --drop ",
            c->no_options ? "" : l->text, c->no_options ? "" : " to ignore it");
    else if (l->n > 1)
        reader_add_clause(text, "%s the columns %s%s; %s",
                          c->given ? "the model was not trained with"
                                   : "the first file does not have",
                          l->text, csv_named_rest(l, more),
                          c->no_options ? "leave them out" : "use --drop to ignore them");
    if (bad->no_label != NULL)
        reader_add_clause(text, "the label column '%s' is missing",
                          show(bad->no_label, strlen(bad->no_label)).text);
    if (bad->no_weight != NULL)
        reader_add_clause(text, "the weight column '%s' is missing",
                          show(bad->no_weight, strlen(bad->no_weight)).text);
    l = &bad->missing;
    if (l->n > 0)
        reader_add_clause(text,
                          "the header lacks the feature column%s %s%s, which %s; "
                          "%s %s",
                          PLURAL_S(l->n), l->text, csv_named_rest(l, more),
                          c->given ? "the model was trained with" : "the first file has",
                          c->no_options ? "add a column of empty cells for"
                                        : "--allow-missing reads the file without",
                          c->no_options ? "each"
                          : l->n > 1    ? "them"
                                        : "it");
    return text[0] == '\0' ? 0 : err_set(e, TUG_EDATA, "%s", text);
}

static int fill_layout(struct csv *c, const struct schema *names, struct reader_layout *l,
                       struct err *e)
{
    struct misfit bad = {0};
    bool *seen = mem_zalloc(c->columns * sizeof *seen);
    l->column = mem_array(names->columns + c->binned, sizeof *l->column);
    int rc = seen != NULL && l->column != NULL
                 ? place_columns(c, names, l, seen, &bad, e)
                 : err_nomem(e, "the columns of a csv file");
    if (rc == 0 && bad.unknown.n == names->columns)
        rc = nothing_fits(c, names, e);
    if (rc == 0) {
        find_missing(c, seen, l, &bad);
        rc = tell_misfit(c, &bad, e);
    }
    mem_free(seen);
    return rc;
}

// Returns whether a repeated header can be distinguished from data. This is impossible if
// the file has a single column, because the column's name may also be a word of its
// cells, and if all names are numbers.
static bool has_names(const struct schema *names)
{
    struct schema_column n;
    bool word = false;
    for (size_t at = 0; schema_next(names, &at, &n);)
        word |= n.name[strspn(n.name, "0123456789+-.eE")] != '\0';
    return word && names->columns > 1;
}

static int make_layout(struct csv *c, struct reader_layout *l, struct schema *names,
                       struct err *e)
{
    int rc = split_header(l->header, l->header_len, c->separator, csv_quote(c), names, e);
    if (rc == TUG_EDATA && memchr(l->header, '"', l->header_len) != NULL)
        rc = csv_explain_quote(c, l->header, l->header + l->header_len, e);
    TRY(rc);
    if (c->column == NULL) {
        rc = csv_decide_schema(c, names, e);
        if (rc != 0) {
            csv_forget_schema(c);
            return rc;
        }
    }
    l->named = has_names(names);
    return fill_layout(c, names, l, e);
}

void csv_absent_columns(const struct reader *r, char text[READER_NAMES_MAX])
{
    const struct csv *c = (const void *)r;
    struct csv_named absent = {0};
    char more[32];
    for (size_t i = 0; i < c->columns; i++)
        if (c->column[i].absent)
            csv_name_column(&absent, c->column[i].name);
    snprintf(text, READER_NAMES_MAX, "%s%s", absent.text, csv_named_rest(&absent, more));
}

void csv_layout_free(struct reader_layout *l)
{
    if (l == NULL)
        return;
    mem_free(l->column);
    mem_free(l->header);
    mem_free(l);
}

static int new_layout(struct csv *c, const char *line, size_t len,
                      const struct reader_layout **ret, struct err *e)
{
    struct reader_layout *l = mem_zalloc(sizeof *l);
    struct schema *names = mem_zalloc(sizeof *names);
    char *header = mem_zalloc(len + READER_PADDING);
    int rc = 0;
    if (l == NULL || names == NULL || header == NULL) {
        mem_free(header);
        rc = err_nomem(e, "the header of a csv file");
    } else {
        memcpy(header, line, len);
        l->header = header;
        l->header_len = len;
        rc = csv_explain_header(line, len, make_layout(c, l, names, e), e);
    }
    mem_free(names);
    if (rc != 0) {
        csv_layout_free(l);
        return rc;
    }
    l->next = c->layouts;
    c->layouts = l;
    *ret = l;
    return 0;
}

// Hashes a name to a bit of name_bits; for most words, this bit alone shows
// that they are not names.
static unsigned name_bit(const char *name, size_t len)
{
    return (((unsigned char)*name | ' ') + 37 * (unsigned)len) % 256;
}

void csv_note_names(struct csv *c)
{
    const char *p = c->only->header, *end = p + c->only->header_len;
    for (;; p++) {
        struct field f;
        p = csv_next_field(p, end, c->separator, csv_quote(c), &f, NULL);
        csv_trim(&f.text, &f.len);
        if (f.len > 0)
            c->name_bits[name_bit(f.text, f.len) / 64] |= 1ULL
                                                          << name_bit(f.text, f.len) % 64;
        if (p == end)
            return;
    }
}

static bool is_named(const struct csv *c, struct field f)
{
    csv_trim(&f.text, &f.len);
    unsigned bit = f.len > 0 ? name_bit(f.text, f.len) : 0;
    if (f.len == 0 || (c->name_bits[bit / 64] >> bit % 64 & 1) == 0)
        return false;
    const char *p = c->only->header, *end = p + c->only->header_len;
    for (;; p++) {
        struct field name;
        p = csv_next_field(p, end, c->separator, csv_quote(c), &name, NULL);
        csv_trim(&name.text, &name.len);
        if (name.len == f.len && strncasecmp(name.text, f.text, f.len) == 0)
            return true;
        if (p == end)
            return false;
    }
}

static bool reader_csv_header_is_number(const struct field *f)
{
    float ignored;
    return number_parse(f->text, f->len, &ignored) == NUMBER_OK;
}

// Returns whether a line is a header. All its cells are names or, if its labels are
// words, at least half of them. Usually the first two cells already show that the line is
// not a header. A line with a single cell is never a header, because the cell may be a
// word. *same: the names are in the order of --columns.
static bool is_header(const struct csv *c, const char *line, size_t len, bool *same)
{
    const struct reader_layout *l = c->only;
    const char *p = line, *end = line + len, *n = l->header, *stop = n + l->header_len;
    size_t cells = 0, names = 0, labels = 0;
    for (*same = true;; p++) {
        struct field f, name = {.text = ""};
        p = csv_next_field(p, end, c->separator, csv_quote(c), &f, NULL);
        if (p == NULL)
            return false;
        bool label = cells < l->columns && l->column[cells].use == SCHEMA_LABEL;
        if (label && reader_csv_header_is_number(&f))
            return false;
        labels += label && f.len > 0;
        names += is_named(c, f);
        if (++cells == 2 && names + labels == 0)
            return false;
        if (n <= stop)
            n = csv_next_field(n, stop, c->separator, csv_quote(c), &name, NULL) + 1;
        *same &= csv_same_name(f.text, f.len, name.text, name.len);
        if (p == end)
            return names >= 2 && (names == cells || (labels > 0 && names * 2 >= cells));
    }
}

int csv_refuse_header(const struct csv *c, const char *line, size_t len, struct err *e)
{
    bool same;
    if (!is_header(c, line, len, &same))
        return 0;
    return err_set(e, TUG_EDATA,
                   "the line is a header, the names of the columns, but --columns says "
                   "that the data has none: remove the line%s",
                   !same ? ", and give --columns the names in the order of this file"
                   : c->names_optional ? ", or leave --columns out"
                                       : "");
}

int csv_header(struct reader *r, const char *line, size_t len,
               const struct reader_layout **ret, struct err *e)
{
    struct csv *c = (void *)r;
    TRY(csv_check_header(line, len, e));
    for (const struct reader_layout *l = c->layouts; l != NULL; l = l->next) {
        if (l->header_len != len || memcmp(l->header, line, len) != 0)
            continue;
        *ret = l;
        return 0;
    }
    return new_layout(c, line, len, ret, e);
}
