// Reads the Arrow schema of columns.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/format/reader_ops.h"
#include "data/frame/columns.h"

enum { COLUMNS_MOST = 1 << 17 };

static int malformed(const struct ArrowSchema *s, const char *why, struct err *e)
{
    const char *name = s->name != NULL ? s->name : "";
    return err_set(e, TUG_EDATA, "column '%s': its Arrow schema is malformed: %s",
                   show(name, strlen(name)).text, why);
}

// Finds the kind of a simple format, such as "i" or "vu". Returns false for other
// formats.
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
    return false;
}

// Reads the zones "", "UTC" and "+02:00". Returns false for other zones: the offset of a
// named zone depends on the date.
static bool take_zone(const char *zone, struct column_type *ret)
{
    static const char *const utc[] = {"UTC", "Etc/UTC", "Z"};
    int h, m, n = 0;
    ret->has_zone = *zone != '\0';
    for (size_t i = 0; i < sizeof utc / sizeof *utc; i++)
        if (strcmp(zone, utc[i]) == 0)
            return true;
    if (*zone == '\0')
        return true;
    bool sign = *zone == '+' || *zone == '-';
    if (!sign || sscanf(zone + 1, "%2d:%2d%n", &h, &m, &n) != 2 || zone[1 + n] != '\0' ||
        h < 0 || h > 23 || m < 0 || m > 59)
        return false;
    ret->zone = (*zone == '-' ? -60 : 60) * (60 * h + m);
    return true;
}

// Reads tdD, tdm, tts, ttm, ttu, ttn, tss:, tsm:, tsu: and tsn:, the last four followed
// by a zone. Returns false for other formats.
static bool find_time(const char *format, struct column_type *ret)
{
    static const char units[] = "smun";
    if (strcmp(format, "tdD") == 0 || strcmp(format, "tdm") == 0) {
        *ret = (struct column_type){.kind = COLUMN_DATE,
                                    .bytes = format[2] == 'D' ? 4 : 8};
        return true;
    }
    const char *unit = format[0] == 't' && (format[1] == 't' || format[1] == 's') &&
                               format[2] != '\0'
                           ? strchr(units, format[2])
                           : NULL;
    if (unit == NULL)
        return false;
    *ret = (struct column_type){.kind = format[1] == 't' ? COLUMN_CLOCK : COLUMN_TIME,
                                .bytes = 8,
                                .digits = (uint8_t)(3 * (unit - units))};
    if (ret->kind == COLUMN_TIME)
        return format[3] == ':' && take_zone(format + 4, ret);
    ret->bytes = unit - units < 2 ? 4 : 8;
    return format[3] == '\0';
}

// Reads d:PRECISION,SCALE and d:PRECISION,SCALE,BITS. Returns false for other formats.
static bool find_decimal(const char *format, struct column_type *ret)
{
    enum { MOST = 38 };
    int precision, scale, bits = 128, n = 0;
    if (sscanf(format, "d:%2d,%2d%n", &precision, &scale, &n) != 2 ||
        (format[n] != '\0' &&
         (sscanf(format, "d:%2d,%2d,%3d%n", &precision, &scale, &bits, &n) != 3 ||
          format[n] != '\0')))
        return false;
    *ret = (struct column_type){
        .kind = COLUMN_DECIMAL, .bytes = (uint8_t)(bits / 8), .digits = (uint8_t)scale};
    return precision >= 1 && precision <= MOST && scale >= 0 && scale <= MOST &&
           (bits == 32 || bits == 64 || bits == 128);
}

static bool find_format(const char *format, struct column_type *ret)
{
    char *end;
    if (find_plain(format, ret) || find_time(format, ret) || find_decimal(format, ret))
        return true;
    if (strncmp(format, "+w:", 3) != 0)
        return false;
    *ret = (struct column_type){.kind = COLUMN_LIST,
                                .each = strtoll(format + 3, &end, 10)};
    return end > format + 3 && *end == '\0' && ret->each >= 0 && ret->each < INT32_MAX;
}

// The place of a type: that of a column, of the items of its lists, or of the values of a
// dictionary. Deeper nesting is refused, so the depth of a schema is bounded.
enum place { OF_COLUMN, OF_ITEM, OF_DICTIONARY };

static int32_t take_length(const char **p)
{
    int32_t n;
    memcpy(&n, *p, sizeof n);
    *p += sizeof n;
    return n;
}

// Copies the value of a key in the metadata of a schema; cuts a value that is too long.
// Returns false if the metadata lacks the key. Metadata consists of pairs of texts; each
// text follows its length.
static bool find_metadata(const struct ArrowSchema *s, const char *key,
                          char ret[COLUMN_STATED])
{
    const char *p = s->metadata;
    size_t len = strlen(key);
    for (int32_t n = p != NULL ? take_length(&p) : 0; n > 0; n--) {
        int32_t key_len = take_length(&p);
        if (key_len < 0)
            return false;
        bool is = (size_t)key_len == len && memcmp(p, key, len) == 0;
        p += key_len;
        int32_t value_len = take_length(&p);
        if (value_len < 0)
            return false;
        size_t some = value_len < COLUMN_STATED ? (size_t)value_len : COLUMN_STATED - 1;
        if (is) {
            memcpy(ret, p, some);
            ret[some] = '\0';
            return true;
        }
        p += value_len;
    }
    return false;
}

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
    if (!find_format(s->format, ret))
        *ret = (struct column_type){.kind = COLUMN_OTHER};
    ret->name = s->name != NULL ? s->name : "";
    ret->format = s->format;
    (void)find_metadata(s, "tug.type", ret->stated);
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
        return malformed(s, "a list must have one child", e);
    return take_inner(s->children[0], OF_ITEM, ret, e);
}

static void set_style(struct column_type *t, enum cell_style style)
{
    for (; t != NULL; t = t->of)
        t->style = style;
}

bool column_is_number(const struct column_type *t)
{
    return t->kind == COLUMN_WHOLE || t->kind == COLUMN_REAL ||
           t->kind == COLUMN_DECIMAL || strcmp(t->stated, "number") == 0;
}

const char *column_cells(const struct column_type *t)
{
    static const char *const times[] = {"arrow-time", "arrow-time3", "arrow-time6",
                                        "arrow-time9"};
    bool python = t->style == CELL_PYTHON;
    switch (t->kind) {
    case COLUMN_LIST:
    case COLUMN_DICTIONARY:
        return t->of != NULL ? column_cells(t->of) : NULL;
    case COLUMN_BOOL:
        return python ? "bool" : "arrow-bool";
    case COLUMN_WHOLE:
        return "whole";
    case COLUMN_REAL:
        if (t->bytes == 4)
            return python ? "float32" : "arrow-float32";
        return python ? "float64" : "arrow-float64";
    case COLUMN_DATE:
        return "date";
    case COLUMN_TIME:
        return t->has_zone ? NULL : times[t->digits / 3];
    case COLUMN_TEXT:
        return t->stated[0] != '\0' && !column_is_number(t) ? t->stated : NULL;
    case COLUMN_NULL:
    case COLUMN_VIEW:
    case COLUMN_CLOCK:
    case COLUMN_DECIMAL:
    case COLUMN_OTHER:
        break;
    }
    return NULL;
}

int columns_take_schema(struct columns *c, struct err *e)
{
    const struct ArrowSchema *s = &c->schema;
    char python[COLUMN_STATED];
    if (s->format == NULL || strcmp(s->format, "+s") != 0)
        return err_set(e, TUG_EDATA,
                       "the Arrow data has format '%s', but a table needs structs (+s)",
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
        if (find_metadata(s, "tug.python", python))
            set_style(&c->type[i], CELL_PYTHON);
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
