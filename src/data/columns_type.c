// What an Arrow schema says of columns.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/columns.h"
#include "data/reader_ops.h"

enum { COLUMNS_MOST = 1 << 17 };

static int malformed(const struct ArrowSchema *s, const char *why, struct err *e)
{
    const char *name = s->name != NULL ? s->name : "";
    return err_set(e, TUG_EDATA, "column '%s': its Arrow schema is malformed: %s",
                   show(name, strlen(name)).text, why);
}

// Formats of one letter and more.
static bool find_plain(const char *format, struct column_type *ret)
{
    static const struct {
        const char *format;
        struct column_type type;
    } known[] = {
        {"n", {.kind = COLUMN_NULL}},
        {"b", {.kind = COLUMN_BOOL}},
        {"c", {.kind = COLUMN_WHOLE, .bytes = 1, .is_signed = true}},
        {"C", {.kind = COLUMN_WHOLE, .bytes = 1}},
        {"s", {.kind = COLUMN_WHOLE, .bytes = 2, .is_signed = true}},
        {"S", {.kind = COLUMN_WHOLE, .bytes = 2}},
        {"i", {.kind = COLUMN_WHOLE, .bytes = 4, .is_signed = true}},
        {"I", {.kind = COLUMN_WHOLE, .bytes = 4}},
        {"l", {.kind = COLUMN_WHOLE, .bytes = 8, .is_signed = true}},
        {"L", {.kind = COLUMN_WHOLE, .bytes = 8}},
        {"f", {.kind = COLUMN_REAL, .bytes = 4}},
        {"g", {.kind = COLUMN_REAL, .bytes = 8}},
        {"u", {.kind = COLUMN_TEXT, .bytes = 4}},
        {"U", {.kind = COLUMN_TEXT, .bytes = 8}},
        {"vu", {.kind = COLUMN_VIEW}},
        {"+l", {.kind = COLUMN_LIST, .bytes = 4}},
        {"+L", {.kind = COLUMN_LIST, .bytes = 8}},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(known[i].format, format) == 0) {
            *ret = known[i].type;
            return true;
        }
    char *end;
    if (strncmp(format, "+w:", 3) != 0)
        return false;
    *ret = (struct column_type){.kind = COLUMN_LIST,
                                .each = strtoll(format + 3, &end, 10)};
    return end > format + 3 && *end == '\0' && ret->each >= 0 && ret->each < INT32_MAX;
}

// Where a type stands. Below a column lie items of its lists, and below both the values of a
// dictionary; what would nest deeper is not walked, so that no schema is too deep.
enum place { OF_COLUMN, OF_ITEM, OF_DICTIONARY };

static int take_type(const struct ArrowSchema *s, enum place place,
                     struct column_type *ret, struct err *e);

static int take_inner(const struct ArrowSchema *s, enum place place,
                      struct column_type *ret, struct err *e)
{
    ret->of = mem_zalloc(sizeof(*ret->of));
    if (ret->of == NULL)
        return err_nomem(e, "columns");
    TRY(take_type(s, place, ret->of, e));
    ret->of->name = ret->name;
    if (ret->of->kind == COLUMN_OTHER)
        ret->kind = COLUMN_OTHER;
    return 0;
}

static int take_type(const struct ArrowSchema *s, enum place place,
                     struct column_type *ret, struct err *e)
{
    if (s->format == NULL)
        return malformed(s, "it has no format", e);
    if (!find_plain(s->format, ret))
        *ret = (struct column_type){.kind = COLUMN_OTHER};
    ret->name = s->name != NULL ? s->name : "";
    ret->format = s->format;
    if (s->dictionary != NULL && ret->kind != COLUMN_WHOLE)
        return malformed(s, "a dictionary's indices are not whole numbers", e);
    bool too_deep = place == OF_DICTIONARY && s->dictionary != NULL;
    if (too_deep || (place != OF_COLUMN && ret->kind == COLUMN_LIST)) {
        ret->kind = COLUMN_OTHER;
        return 0;
    }
    if (s->dictionary != NULL) {
        ret->kind = COLUMN_DICTIONARY;
        return take_inner(s->dictionary, OF_DICTIONARY, ret, e);
    }
    if (ret->kind != COLUMN_LIST)
        return 0;
    if (s->n_children != 1 || s->children == NULL || s->children[0] == NULL)
        return malformed(s, "a list has one child", e);
    return take_inner(s->children[0], OF_ITEM, ret, e);
}

int columns_take_schema(struct columns *c, struct err *e)
{
    const struct ArrowSchema *s = &c->schema;
    if (s->format == NULL || strcmp(s->format, "+s") != 0)
        return err_set(e, TUG_EDATA,
                       "the Arrow data is of format '%s', and a table, whose rows are "
                       "structs (+s), is wanted",
                       s->format != NULL ? show(s->format, strlen(s->format)).text : "");
    if (s->n_children < 1 || s->n_children > COLUMNS_MOST || s->children == NULL)
        return err_set(e, TUG_EDATA, "the Arrow schema has %lld columns, not 1 to %d",
                       (long long)s->n_children, COLUMNS_MOST);
    c->type = mem_zalloc((size_t)s->n_children * sizeof(*c->type));
    if (c->type == NULL)
        return err_nomem(e, "columns");
    c->n = (size_t)s->n_children;
    for (size_t i = 0; i < c->n; i++) {
        if (s->children[i] == NULL)
            return err_set(e, TUG_EDATA, "the Arrow schema's column %zu is missing", i);
        TRY(take_type(s->children[i], OF_COLUMN, &c->type[i], e));
    }
    return 0;
}

void columns_free_types(struct column_type *type, size_t n)
{
    for (size_t i = 0; i < n && type != NULL; i++) {
        columns_free_types(type[i].of, type[i].of != NULL);
        type[i].of = NULL;
    }
    mem_free(type);
}
