// Parses lines of text into rows, and puts the rows into the store in batches.
//
// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "save/text_internal.h"

enum {
    LINE_MAX_BYTES = 64 << 20,
    BATCH_ROWS = 1024,
    BATCH_BYTES = 16 << 20,
    DAYS_MAX = 1 << 20, // largest number of days; floats are exact up to 1 << 24
};

struct item {
    uint32_t partition, i; // partition of the row, and its index in the batch
    uint64_t key;
};

struct text_import {
    struct store *s;
    bool paddle;
    // The columns of lines with state, and of lines without.
    struct text_columns columns, weights;
    bool state; // whether the lines of this file have state
    uint32_t day;
    char *name; // name of the file
    uint64_t line, rows;
    struct buf text; // the line so far
    double *numbers;
    uint32_t max_numbers;
    // The batch: the rows as they were read, and sorted for the store.
    size_t n, max;
    struct item *items;
    float *read_rows, *read_extras;
    uint8_t *has_extra;
    uint64_t *keys;
    float *put_rows, *put_extras;
};

void text_import_abort(struct text_import *x)
{
    if (x == NULL)
        return;
    text_columns_free(&x->columns);
    text_columns_free(&x->weights);
    buf_free(&x->text);
    mem_free(x->name);
    mem_free(x->numbers);
    mem_free(x->items);
    mem_free(x->read_rows);
    mem_free(x->read_extras);
    mem_free(x->has_extra);
    mem_free(x->keys);
    mem_free(x->put_rows);
    mem_free(x->put_extras);
    mem_free(x);
}

static int open_batch(struct text_import *x, struct err *e)
{
    const struct accessor *a = store_accessor(x->s);
    size_t floats = (size_t)a->width + a->extra_width;
    x->max = BATCH_BYTES / (floats * sizeof(float) + 1) + 1;
    x->max = x->max < BATCH_ROWS ? x->max : BATCH_ROWS;
    // Room for some numbers more than a row has, so that a surplus is noticed.
    x->max_numbers = (uint32_t)floats + 8;
    x->numbers = mem_array(x->max_numbers, sizeof(*x->numbers));
    x->items = mem_array(x->max, sizeof(*x->items));
    x->read_rows = mem_array(x->max * a->width + 1, sizeof(float));
    x->read_extras = mem_array(x->max * a->extra_width + 1, sizeof(float));
    x->has_extra = mem_array(x->max, 1);
    x->keys = mem_array(x->max, sizeof(*x->keys));
    x->put_rows = mem_array(x->max * a->width + 1, sizeof(float));
    x->put_extras = mem_array(x->max * a->extra_width + 1, sizeof(float));
    if (x->numbers == NULL || x->items == NULL || x->read_rows == NULL ||
        x->read_extras == NULL || x->has_extra == NULL || x->keys == NULL ||
        x->put_rows == NULL || x->put_extras == NULL)
        return err_nomem(e, "rows of a text");
    return 0;
}

// Ends days of the table until its day is at least `day`.
static void reach_day(struct text_import *x, uint32_t day)
{
    while (x->day < day) {
        store_day(x->s);
        x->day++;
    }
}

// Returns the greatest number of unseen days in any setting, rounded down, plus 1; at
// most 4096.
static uint32_t least_day(const struct life *l)
{
    float most = fmaxf(fmaxf(l->delete_after_days, l->delta_keep_days),
                       l->cold_after_days);
    return most < 4096 ? (uint32_t)most + 1 : 4096;
}

int text_import_open(struct text_import **ret, struct store *s, bool paddle,
                     struct err *e)
{
    if (paddle)
        TRY(text_paddle_check(s, e));
    struct text_import *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "an import of text");
    *x = (struct text_import){.s = s,
                              .paddle = paddle,
                              .text = BUF_INIT(LINE_MAX_BYTES),
                              .day = store_day_of(s)};
    int rc = text_columns(s, true, &x->columns, e);
    if (rc == 0)
        rc = text_columns(s, false, &x->weights, e);
    if (rc == 0)
        rc = open_batch(x, e);
    if (rc != 0) {
        text_import_abort(x);
        return rc;
    }
    if (paddle && accessor_has_clicks(store_accessor(s)))
        reach_day(x, least_day(&store_accessor(s)->life));
    *ret = x;
    return 0;
}

static int by_partition_and_key(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->partition != y->partition)
        return x->partition < y->partition ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

static int put_batch(struct text_import *x, struct err *e)
{
    const struct accessor *a = store_accessor(x->s);
    size_t n = 0, n_extras = 0;
    if (x->n > 0)
        qsort(x->items, x->n, sizeof(*x->items), by_partition_and_key);
    for (size_t i = 0; i < x->n; i++) {
        if (i + 1 < x->n && x->items[i].key == x->items[i + 1].key)
            continue; // a later line has the same key
        x->keys[n] = x->items[i].key;
        memcpy(x->put_rows + n * a->width,
               x->read_rows + (size_t)x->items[i].i * a->width, a->width * sizeof(float));
        x->items[n++] = x->items[i];
    }
    TRY(store_put_rows(x->s, x->keys, n, x->put_rows, e));
    for (size_t i = 0; i < n; i++) {
        if (!x->has_extra[x->items[i].i])
            continue;
        x->keys[n_extras] = x->items[i].key;
        memcpy(x->put_extras + n_extras * a->extra_width,
               x->read_extras + (size_t)x->items[i].i * a->extra_width,
               a->extra_width * sizeof(float));
        n_extras++;
    }
    x->n = 0;
    return n_extras > 0 ? store_put_extras(x->s, x->keys, n_extras, x->put_extras, e) : 0;
}

// Returns the next row of the batch, initialized as a new row with its key.
static struct text_row begin_row(struct text_import *x, uint64_t key)
{
    const struct accessor *a = store_accessor(x->s);
    struct text_row r = {.row = x->read_rows + x->n * a->width,
                         .extra = x->read_extras + x->n * a->extra_width,
                         .day = x->day};
    x->items[x->n] = (struct item){store_partition(x->s, key), (uint32_t)x->n, key};
    store_first_row(x->s, key, x->day, r.row, a->extra_width > 0 ? r.extra : NULL);
    return r;
}

static int wrong(const struct text_import *x, struct err *e, const char *what)
{
    return err_set(e, TUG_EDATA, "%s:%" PRIu64 ": %s", x->name, x->line, what);
}

static const char *spaces(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\r')
        at++;
    return at;
}

static int read_key(const struct text_import *x, const char **at, uint64_t *ret,
                    struct err *e)
{
    char *end;
    errno = 0;
    *ret = strtoull(*at, &end, 10);
    bool ends = *end == '\0' || *end == ' ' || *end == '\t' || *end == '\r';
    if (!isdigit((unsigned char)**at) || errno != 0 || !ends)
        return wrong(x, e, "the line does not begin with a key, a number below 2^64");
    *at = end;
    return 0;
}

static int read_number(const struct text_import *x, const char **at, double *ret,
                       struct err *e)
{
    size_t n = strcspn(*at, " \t\r,");
    char *end;
    *ret = strtod(*at, &end);
    // strtod also accepts hexadecimal numbers; the check of characters refuses them.
    if (n == 0 || end != *at + n || strspn(*at, "+-.eE0123456789") < n ||
        !isfinite(*ret) || fabs(*ret) > 3.4028234663852886e38)
        return err_set(e, TUG_EDATA, "%s:%" PRIu64 ": '%.*s' is not a finite number",
                       x->name, x->line, n < 40 ? (int)n : 40, *at);
    *at = end;
    return 0;
}

// Reads the numbers up to the end of the line, at most max_numbers.
static int read_numbers(const struct text_import *x, const char *at, uint32_t *ret_n,
                        struct err *e)
{
    *ret_n = 0;
    for (at = spaces(at); *at != '\0' && *ret_n < x->max_numbers; at = spaces(at))
        TRY(read_number(x, &at, &x->numbers[(*ret_n)++], e));
    return 0;
}

static int tug_row(struct text_import *x, struct text_row *r, uint32_t n, struct err *e)
{
    const struct text_columns *c = x->state ? &x->columns : &x->weights;
    if (n != c->n_row && n != c->n_row + c->n_extra)
        return err_set(
            e, TUG_EDATA,
            "%s:%" PRIu64
            ": the key is followed by %u number%s; a row of this table has %u%s",
            x->name, x->line, n, n == 1 ? "" : "s", c->n_row,
            c->n_extra > 0 ? ", and more with embedx" : "");
    for (uint32_t i = 0; i < c->n_row; i++)
        text_set(r->row, c->row[i], x->numbers[i], x->day);
    r->has_extra = n > c->n_row;
    for (uint32_t i = c->n_row; i < n; i++)
        text_set(r->extra, c->extra[i - c->n_row], x->numbers[i], x->day);
    return 0;
}

// Parses a line "id, count, unseen days, is_entry, values", with commas between values.
static int block_row(struct text_import *x, const char *at, struct text_row *r,
                     bool *ret_entered, struct err *e)
{
    const struct accessor_group *g = store_accessor(x->s)->groups;
    double number[3];
    for (int i = 0; i < 3; i++) {
        at = spaces(at);
        TRY(read_number(x, &at, &number[i], e));
    }
    *ret_entered = number[2] != 0;
    at = spaces(at);
    uint32_t n = 0;
    for (; *at != '\0' && *at != '\r'; n++) {
        double value;
        TRY(read_number(x, &at, &value, e));
        if (n < g->n)
            r->row[g->weights + n] = (float)value;
        at += *at == ',';
    }
    return n >= g->n ? 0
                     : err_set(e, TUG_EDATA,
                               "%s:%" PRIu64
                               ": the line has %u value%s, but the table has dim %u",
                               x->name, x->line, n, n == 1 ? "" : "s", g->n);
}

static int row_line(struct text_import *x, const char *at, struct err *e)
{
    char where[256];
    uint64_t key;
    uint32_t n;
    bool entered = true;
    TRY(read_key(x, &at, &key, e));
    struct text_row r = begin_row(x, key);
    if (x->paddle && !accessor_has_clicks(store_accessor(x->s))) {
        TRY(block_row(x, at, &r, &entered, e));
    } else {
        TRY(read_numbers(x, at, &n, e));
        snprintf(where, sizeof(where), "%.200s:%" PRIu64, x->name, x->line);
        TRY(x->paddle ? text_paddle_row(x->s, x->numbers, n, &r, where, e)
                      : tug_row(x, &r, n, e));
    }
    x->rows += entered;
    x->has_extra[x->n] = r.has_extra;
    x->n += entered;
    return x->n == x->max ? put_batch(x, e) : 0;
}

static int head_line(struct text_import *x, const char *at, struct err *e)
{
    const struct store *s = x->s;
    char name[64], accessor[32], state[4];
    unsigned dim, day;
    uint64_t step;
    if (sscanf(at, "# tug table %63s accessor=%31s dim=%u state=%3s day=%u step=%" SCNu64,
               name, accessor, &dim, state, &day, &step) != 6)
        return 0; // the line is a comment
    if (strcmp(accessor, text_accessor(s)) != 0 || dim != store_config(s)->accessor.dim)
        return err_set(
            e, TUG_EDATA,
            "%s:%" PRIu64
            ": rows of accessor %s with dim %u cannot become rows of %s with dim %u",
            x->name, x->line, accessor, dim, text_accessor(s),
            store_config(s)->accessor.dim);
    x->state = strcmp(state, "yes") == 0;
    if (day > DAYS_MAX)
        return wrong(x, e, "its day is beyond the last possible day");
    reach_day(x, day);
    if (step > store_step_of(s))
        store_set_step(x->s, step);
    return 0;
}

static int end_line(struct text_import *x, struct err *e)
{
    const char *line = buf_str(&x->text);
    if (line == NULL)
        return err_nomem(e, "a line of text");
    x->line++;
    if (strlen(line) != x->text.len)
        return wrong(x, e, "there is a zero byte in the line: it is not text");
    const char *at = spaces(line);
    int rc = 0;
    if (*at == '#' && !x->paddle)
        rc = head_line(x, at, e);
    else if (*at != '\0')
        rc = row_line(x, at, e);
    buf_clear(&x->text);
    return rc;
}

static int end_file(struct text_import *x, struct err *e)
{
    return x->text.len > 0 ? end_line(x, e) : 0;
}

int text_import_file(struct text_import *x, const char *name, struct err *e)
{
    TRY(end_file(x, e));
    mem_free(x->name);
    x->name = mem_strdup(name);
    x->line = 0;
    x->state = false;
    return x->name != NULL ? 0 : err_nomem(e, name);
}

int text_import_add(struct text_import *x, const char *bytes, size_t n, struct err *e)
{
    while (n > 0) {
        const char *newline = memchr(bytes, '\n', n);
        size_t part = newline != NULL ? (size_t)(newline - bytes) : n;
        int rc = buf_add(&x->text, bytes, part);
        if (rc == TUG_EDATA) {
            x->line++;
            return wrong(x, e, "the line is longer than 64 MiB");
        }
        if (rc != 0)
            return err_nomem(e, "a line of text");
        if (newline == NULL)
            return 0;
        TRY(end_line(x, e));
        bytes += part + 1;
        n -= part + 1;
    }
    return 0;
}

int text_import_end(struct text_import *x, uint64_t *ret_rows, struct err *e)
{
    int rc = end_file(x, e);
    if (rc == 0)
        rc = put_batch(x, e);
    if (rc == 0)
        *ret_rows = x->rows;
    text_import_abort(x);
    return rc;
}
