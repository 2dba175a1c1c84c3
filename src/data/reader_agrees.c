// Whether what a command says of its data agrees with the schema of the model at hand.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "data/reader_ops.h"

#define GOES_ON                                                                          \
    ": a saved model reads data as it was trained; another one is trained without "      \
    "--resume and --init-from"

bool reader_next_name(const char **list, const char **ret, size_t *ret_len)
{
    if (*list == NULL)
        return false;
    *ret = *list;
    *ret_len = strcspn(*list, ",");
    *list = (*ret)[*ret_len] == ',' ? *ret + *ret_len + 1 : NULL;
    return true;
}

// The column of a use; NULL: there is none.
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

static int column_agrees(const struct schema *s, const char *option, const char *given,
                         enum schema_use use, struct err *e)
{
    const char *trained = column_of(s, use);
    if (given == NULL || (trained != NULL && strcmp(trained, given) == 0))
        return 0;
    return err_set(e, TUG_EUSAGE, "%s '%s', but the model has %s%s%s" GOES_ON, option,
                   show(given, strlen(given)).text, trained != NULL ? "'" : "none",
                   trained != NULL ? show(trained, strlen(trained)).text : "",
                   trained != NULL ? "'" : "");
}

static int numeric_agrees(const struct schema *s, const char *list, struct err *e)
{
    const char *name;
    size_t len;
    enum schema_use use;
    while (reader_next_name(&list, &name, &len))
        if (!find_use(s, name, len, &use) || use != SCHEMA_NUMBERS)
            return err_set(
                e, TUG_EUSAGE,
                "--numeric '%s', but the model was not trained with numbers of "
                "that column" GOES_ON,
                show(name, len).text);
    return 0;
}

static int drop_agrees(const struct schema *s, const char *list, struct err *e)
{
    const char *name;
    size_t len;
    enum schema_use use;
    while (reader_next_name(&list, &name, &len))
        if (find_use(s, name, len, &use) && use != SCHEMA_DROPPED)
            return err_set(e, TUG_EUSAGE,
                           "--drop '%s', but the model was trained with that "
                           "column; --allow-missing reads a file without it" GOES_ON,
                           show(name, len).text);
    return 0;
}

int reader_agrees(const struct reader_options *o, struct err *e)
{
    const struct schema *s = o->schema;
    if (o->format != NULL && !schema_same_keys(o->format, s->format))
        return err_set(e, TUG_EUSAGE,
                       "--format %s, but the model was trained on %s" GOES_ON, o->format,
                       s->format);
    if (o->loss_given && o->loss != s->loss)
        return err_set(e, TUG_EUSAGE,
                       "--loss %s, but the model was trained with %s" GOES_ON,
                       o->loss == READER_SQUARED ? "squared" : "logistic",
                       s->loss == READER_SQUARED ? "squared" : "logistic");
    if (strcmp(s->format, "csv") != 0)
        return 0;
    if (o->separator != 0 && o->separator != s->separator)
        return err_set(e, TUG_EUSAGE, "--separator %s, but the model has %s" GOES_ON,
                       o->separator == '\t' ? "tab" : show(&o->separator, 1).text,
                       s->separator == '\t' ? "tab" : show(&s->separator, 1).text);
    TRY(column_agrees(s, "--label", o->label_column, SCHEMA_LABEL, e));
    TRY(column_agrees(s, "--weight-column", o->weight_column, SCHEMA_WEIGHT, e));
    TRY(numeric_agrees(s, o->numeric, e));
    return drop_agrees(s, o->drop, e);
}
