// Advice in errors about csv: the likely cause of a line or a header that cannot be read,
// and the option that helps.
//
// SPDX-License-Identifier: Apache-2.0
#include <strings.h>

#include "data/format/reader_csv.h"

// Appends a clause to the reason in *e.
static int advise(struct err *e, const char *advice)
{
    err_add(e, "; %s", advice);
    return TUG_EDATA;
}

int csv_check_header(const char *line, size_t len, struct err *e)
{
    if (len == 0)
        return err_set(e, TUG_EDATA, "the header, a line of column names, is empty");
    if (reader_is_json(line, len))
        return err_set(e, TUG_EDATA, READER_JSON);
    if (len >= 4 && len <= 6 && strncasecmp(line, "sep=", 4) == 0)
        return err_set(e, TUG_EDATA,
                       "the line '%s' is for Excel and not a header: remove it, and give "
                       "the separator by --separator",
                       show(line, len).text);
    return 0;
}

int csv_explain_header(const char *line, size_t len, int rc, struct err *e)
{
    return rc == TUG_EDATA && len > 0 && *line == '#'
               ? advise(e,
                        "the line looks like a comment, which csv does not have; remove "
                        "it")
               : rc;
}

bool csv_has_backslash_quote(const char *line, const char *end)
{
    for (const char *p = line; (p = find_byte(p, end, '\\')) < end; p++)
        if (p + 1 < end && p[1] == '"')
            return true;
    return false;
}

int csv_explain_quote(const struct csv *c, const char *line, const char *end,
                      struct err *e)
{
    if (e == NULL)
        return TUG_EDATA;
    if (csv_has_backslash_quote(line, end))
        return advise(e,
                      "the line has \\\" for a quote within a cell, as Spark writes it, "
                      "where csv has \"\": write the data with Spark's option "
                      "\"escape\" set to a quote, or convert it by sed "
                      "'s/\\\\\"/\"\"/g'");
    if (c->base.given)
        return TUG_EDATA;
    err_add(e, " (if quotes are part of the text, give --quote none)");
    return TUG_EDATA;
}

int csv_explain_missing(const struct csv *c, const struct field *f, struct err *e)
{
    if (e == NULL || !reader_means_missing(f->text, f->len))
        return TUG_EDATA;
    if (c->base.given && c->empties == 0)
        err_add(e, "; the model's data has empty cells for missing values");
    else if (c->base.given)
        err_add(e, "; the model's data has empty cells or '%s' for missing values",
                show(c->empty[0].text, c->empty[0].len).text);
    else
        err_add(e,
                c->missing != NULL
                    ? "; if it means a missing value, add '%s' to --missing"
                    : "; if it means a missing value, give --missing '%s'",
                show(f->text, f->len).text);
    return TUG_EDATA;
}

bool csv_names_label(const char *name)
{
    static const char *const usual[] = {"label", "click", "clicked", "target", "y"};
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (strcasecmp(name, usual[i]) == 0)
            return true;
    return false;
}

const char *csv_usual_label(const struct schema *names)
{
    struct schema_column n;
    for (size_t at = 0; schema_next(names, &at, &n);)
        if (csv_names_label(n.name))
            return n.name;
    return NULL;
}

bool csv_has_number(const struct schema *names)
{
    struct schema_column n;
    float ignored;
    for (size_t at = 0; schema_next(names, &at, &n);)
        if (number_parse(n.name, strlen(n.name), &ignored) == NUMBER_OK)
            return true;
    return false;
}

// Returns the name of the first column whose cell in the line may be a label: 0, 1, -1 or
// +1; NULL if no column of the schema has such a cell.
static const char *column_of_labels(const struct csv *c, const struct reader_layout *l,
                                    const char *line, const char *end)
{
    const char *p = line;
    float x;
    for (size_t i = 0; i < l->columns && p <= end; i++, p++) {
        struct field f;
        p = csv_next_field(p, end, c->separator, csv_quote(c), &f, NULL);
        if (p == NULL)
            return NULL;
        if (l->column[i].use != SCHEMA_LABEL && l->column[i].name != NULL &&
            number_parse(f.text, f.len, &x) == NUMBER_OK && (x * x == 1 || x == 0))
            return l->column[i].name;
    }
    return NULL;
}

int csv_explain_label(const struct csv *c, const struct reader_layout *l,
                      const char *line, const char *end, struct err *e)
{
    if (e == NULL || e->code != TUG_EDATA || c->label != NULL || c->base.given ||
        c->base.rows != NULL || !c->base.labels)
        return TUG_EDATA;
    const char *is = schema_label(c->base.schema, 0), *usual = NULL;
    for (size_t i = 0; i < c->columns && usual == NULL; i++)
        if (c->column[i].use != SCHEMA_LABEL && csv_names_label(c->column[i].name))
            usual = c->column[i].name;
    bool data = c->only == NULL && csv_has_number(c->base.schema);
    if (usual == NULL && !csv_names_label(is) && !data)
        usual = column_of_labels(c, l, line, end);
    if (usual == NULL && csv_names_label(is))
        return TUG_EDATA;
    err_add(e, "; the label is the first column, '%s', because no --label was given",
            show(is, strlen(is)).text);
    if (usual != NULL)
        err_add(e, "; did you mean --label '%s'?", show(usual, strlen(usual)).text);
    else if (data)
        err_add(e, "%s", CSV_NAMES_COLUMNS);
    return TUG_EDATA;
}
