// Checks that the reading options of a command agree with the schema of a model.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/format/reader_ops.h"

bool reader_next_name(const char **list, const char **ret, size_t *ret_len)
{
    if (*list == NULL)
        return false;
    *ret = *list;
    *ret_len = strcspn(*list, ",");
    *list = (*ret)[*ret_len] == ',' ? *ret + *ret_len + 1 : NULL;
    return true;
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len > n && memcmp(text + len - n, end, n) == 0;
}

// Splits "name:bins:64" into the text before the number and the number; returns false if
// the text has no number.
static bool take_count(struct reader_numeric *n)
{
    size_t digits = 0;
    uint64_t count;
    while (digits < n->len && n->name[n->len - 1 - digits] >= '0' &&
           n->name[n->len - 1 - digits] <= '9')
        digits++;
    if (digits == 0 || !ends_with(n->name, n->len - digits, ":bins:") ||
        !number_u64(n->name + n->len - digits, digits, &count))
        return false;
    n->bins = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    n->len -= digits + 1;
    return true;
}

bool reader_next_numeric(const char **list, struct reader_numeric *ret)
{
    static const struct {
        const char *text;
        enum schema_use use;
    } hows[] = {
        {":log", SCHEMA_LOGS}, {":bins", SCHEMA_BINS}, {":value", SCHEMA_NUMBERS}};
    *ret = (struct reader_numeric){.use = SCHEMA_NUMBERS, .bins = READER_BINS};
    if (!reader_next_name(list, &ret->name, &ret->len))
        return false;
    (void)take_count(ret);
    for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++) {
        if (!ends_with(ret->name, ret->len, hows[i].text))
            continue;
        ret->len -= strlen(hows[i].text);
        ret->use = hows[i].use;
        break;
    }
    return true;
}

// Returns the name of the column with this use; NULL if there is none.
static const char *column_of(const struct schema *s, enum schema_use use)
{
    struct schema_column c;
    for (size_t at = 0; schema_next(s, &at, &c);)
        if (c.use == use)
            return c.name;
    return NULL;
}

static bool find_use(const struct schema *s, const char *name, size_t len,
                     enum schema_use *ret)
{
    struct schema_column c;
    for (size_t at = 0; schema_next(s, &at, &c);) {
        *ret = c.use;
        if (strlen(c.name) == len && memcmp(c.name, name, len) == 0)
            return true;
    }
    return false;
}

static void column_agrees(const struct schema *s, const char *option, const char *given,
                          enum schema_use use, const char *what, char text[ERR_TEXT_MAX])
{
    const char *trained = column_of(s, use);
    if (given == NULL || (trained != NULL && strcmp(trained, given) == 0))
        return;
    struct shown g = show(given, strlen(given));
    if (trained == NULL)
        reader_add_clause(text, "%s '%s', but the model was trained without %s", option,
                          g.text, what);
    else
        reader_add_clause(text, "%s '%s', but in the model's data it is column '%s'",
                          option, g.text, show(trained, strlen(trained)).text);
}

// Returns how many bins the training asked for, for a column that has bins.
static uint32_t bins_of(const struct schema *s, const char *name, size_t len)
{
    struct schema_column c;
    const char *text = "";
    size_t setting = 0;
    for (size_t at = 0; schema_next(s, &at, &c);) {
        if (c.use != SCHEMA_BINS)
            continue;
        (void)schema_next_setting(s, SCHEMA_EDGES, &setting, &text);
        if (strlen(c.name) == len && memcmp(c.name, name, len) == 0)
            break;
    }
    return (uint32_t)strtoul(text, NULL, 10);
}

// Returns whether the labels are equal and in the same order. The order matters because
// the first label is used where a single label is needed.
static bool same_labels(const struct schema *s, const char *given)
{
    const char *name;
    size_t len;
    uint32_t n = 0;
    for (; reader_next_name(&given, &name, &len); n++) {
        const char *trained = schema_label(s, n);
        if (trained == NULL || strlen(trained) != len || memcmp(trained, name, len) != 0)
            return false;
    }
    return schema_label(s, n) == NULL;
}

static void labels_agree(const struct schema *s, const char *given,
                         char text[ERR_TEXT_MAX])
{
    if (given == NULL || same_labels(s, given))
        return;
    if (schema_label(s, 1) == NULL)
        column_agrees(s, "--label", given, SCHEMA_LABEL, "a label", text);
    else
        reader_add_clause(text, "--label '%s', but the model has %u labels, from '%s' on",
                          show(given, strlen(given)).text, schema_labels(s),
                          show(schema_label(s, 0), strlen(schema_label(s, 0))).text);
}

static void numeric_agrees(const struct schema *s, const char *list,
                           char text[ERR_TEXT_MAX])
{
    static const char *const what[SCHEMA_USES] = {[SCHEMA_NUMBERS] = "numbers",
                                                  [SCHEMA_LOGS] = "logarithms",
                                                  [SCHEMA_BINS] = "bins"};
    struct reader_numeric n;
    enum schema_use use;
    while (reader_next_numeric(&list, &n))
        if (!find_use(s, n.name, n.len, &use) || use != n.use)
            reader_add_clause(text,
                              "--numeric '%s', but the model was not trained on %s of "
                              "that column",
                              show(n.name, n.len).text, what[n.use]);
        else if (use == SCHEMA_BINS && bins_of(s, n.name, n.len) != n.bins)
            reader_add_clause(
                text, "--numeric '%s:bins:%u', but the model was trained on %u bins",
                show(n.name, n.len).text, n.bins, bins_of(s, n.name, n.len));
}

static void lists_agree(const struct schema *s, const char *list, char text[ERR_TEXT_MAX])
{
    const char *name;
    size_t len;
    enum schema_use use;
    while (reader_next_name(&list, &name, &len))
        if (!find_use(s, name, len, &use) || use != SCHEMA_LISTS)
            reader_add_clause(text,
                              "--lists '%s', but the model was not trained on several "
                              "words of that column",
                              show(name, len).text);
}

static void crosses_agree(const struct schema *s, const char *list,
                          char text[ERR_TEXT_MAX])
{
    const char *name;
    size_t len;
    enum schema_use use;
    while (reader_next_name(&list, &name, &len))
        if (!find_use(s, name, len, &use) || use != SCHEMA_CROSSES)
            reader_add_clause(text,
                              "--cross-columns '%s', but the model was trained without "
                              "that cross",
                              show(name, len).text);
}

static bool has_setting(const struct schema *s, enum schema_use kind, const char *word,
                        size_t len)
{
    const char *known;
    for (size_t at = 0; schema_next_setting(s, kind, &at, &known);)
        if (strlen(known) == len && memcmp(known, word, len) == 0)
            return true;
    return false;
}

static void settings_agree(const struct reader_options *o, char text[ERR_TEXT_MAX])
{
    const char *list = o->missing, *word;
    size_t len;
    while (reader_next_name(&list, &word, &len))
        if (!has_setting(o->schema, SCHEMA_MISSING, word, len))
            reader_add_clause(text,
                              "--missing '%s', but the model was trained with that as a "
                              "word",
                              show(word, len).text);
    bool unquoted = has_setting(o->schema, SCHEMA_QUOTE, "none", 4);
    if (o->quote != NULL && (strcmp(o->quote, "none") == 0) != unquoted)
        reader_add_clause(text, "--quote %s, but the model was trained with --quote %s",
                          o->quote, unquoted ? "none" : "double");
    bool comma = has_setting(o->schema, SCHEMA_DECIMAL, ",", 1);
    if (o->decimal != NULL && (o->decimal[0] == ',') != comma)
        reader_add_clause(text,
                          "--decimal %s, but the model was trained with --decimal %s",
                          o->decimal, comma ? "," : ".");
    if (o->list_separator != 0 &&
        !has_setting(o->schema, SCHEMA_LIST_SEPARATOR, &o->list_separator, 1))
        reader_add_clause(text, "--list-separator '%c', but the model's data has another",
                          o->list_separator);
}

static void drop_agrees(const struct schema *s, const char *list, char text[ERR_TEXT_MAX])
{
    const char *name;
    size_t len;
    enum schema_use use;
    while (reader_next_name(&list, &name, &len))
        if (find_use(s, name, len, &use) && use != SCHEMA_DROPPED)
            reader_add_clause(text,
                              "--drop '%s', but the model was trained with that column "
                              "(--allow-missing reads files that lack it)",
                              show(name, len).text);
}

static const char *separator_name(const char *c, struct shown *ret)
{
    *ret = *c == '\t' ? show("tab", 3) : show(c, 1);
    return ret->text;
}

static void columns_agree(const struct reader_options *o, char text[ERR_TEXT_MAX])
{
    const struct schema *s = o->schema;
    struct shown given, trained;
    if (o->separator != 0 && o->separator != s->separator)
        reader_add_clause(text, "--separator %s, but the model's data has %s",
                          separator_name(&o->separator, &given),
                          separator_name(&s->separator, &trained));
    labels_agree(s, o->label_column, text);
    column_agrees(s, "--weight-column", o->weight_column, SCHEMA_WEIGHT, "weights", text);
    numeric_agrees(s, o->numeric, text);
    lists_agree(s, o->lists, text);
    crosses_agree(s, o->cross_columns, text);
    settings_agree(o, text);
    drop_agrees(s, o->drop, text);
}

int reader_agrees(const struct reader_options *o, struct err *e)
{
    const struct schema *s = o->schema;
    char text[ERR_TEXT_MAX] = "";
    if (o->format != NULL && !schema_same_keys(o->format, s->format))
        reader_add_clause(text, "--format %s, but the model was trained on %s data",
                          o->format, s->format);
    if (o->loss_given && o->loss != s->loss)
        reader_add_clause(text, "--loss %s, but the model was trained with %s loss",
                          loss_name(o->loss), loss_name(s->loss));
    if (strcmp(s->format, "csv") == 0)
        columns_agree(o, text);
    if (text[0] == '\0')
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "%s: a saved model reads data as its training did; leave such options "
                   "out, or train a new model",
                   text);
}
