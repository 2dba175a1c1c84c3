// Chooses the numbers of a row that are exported, and writes them. A store sorts rows by
// partition and then by key, while the text is sorted by key alone. So the export takes
// one range of keys after the other, of at most RANGE_BYTES of rows, and collects the
// rows of the range from all partitions.
//
// SPDX-License-Identifier: Apache-2.0
#include "save/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "save/text_internal.h"

enum { TEXT_MAX = 64 << 20, TEXT_PUT = 64 << 10, RANGE_BYTES = 256 << 20 };

const char *text_accessor(const struct store *s)
{
    const struct accessor_class *c = accessor_find(store_config(s)->accessor.name, NULL);
    return c != NULL ? c->name : store_config(s)->accessor.name;
}

static uint32_t add_column(const struct accessor *a, struct text_column *list,
                           uint32_t *n, uint32_t column)
{
    enum accessor_number form = accessor_number(a, column);
    list[(*n)++] = (struct text_column){form, column};
    return form == NUMBER_DOUBLE ? 2 : 1;
}

static void whole_columns(const struct accessor *a, struct text_columns *ret)
{
    for (uint32_t c = 0; c < a->width;)
        c += a->extra_width > 0 && c == a->extra
                 ? 1
                 : add_column(a, ret->row, &ret->n_row, c);
    for (uint32_t c = 0; c < a->extra_width; c++)
        ret->extra[ret->n_extra++] = (struct text_column){NUMBER_FLOAT, c};
}

static void weight_columns(const struct accessor *a, struct text_columns *ret)
{
    if (accessor_has_clicks(a)) {
        uint32_t c = a->stats + LIFE_SHOW;
        c += add_column(a, ret->row, &ret->n_row, c);
        add_column(a, ret->row, &ret->n_row, c);
    }
    for (uint32_t g = 0; g < a->n_groups; g++) {
        bool extra = g == 1 && a->extra_width > 0;
        struct text_column *list = extra ? ret->extra : ret->row;
        uint32_t *n = extra ? &ret->n_extra : &ret->n_row;
        for (uint32_t i = 0; i < a->groups[g].n; i++)
            list[(*n)++] = (struct text_column){NUMBER_FLOAT, a->groups[g].weights + i};
        if (g == 0 && a->count != ACCESSOR_NO_COUNT)
            add_column(a, ret->row, &ret->n_row, a->count);
    }
}

int text_columns(const struct store *s, bool state, struct text_columns *ret,
                 struct err *e)
{
    const struct accessor *a = store_accessor(s);
    *ret = (struct text_columns){0};
    ret->row = mem_array(a->width + 1, sizeof(*ret->row));
    ret->extra = mem_array(a->extra_width + 1, sizeof(*ret->extra));
    if (ret->row == NULL || ret->extra == NULL) {
        text_columns_free(ret);
        return err_nomem(e, "columns of a row");
    }
    if (state || a->n_groups == 0) // rows without weights are counters
        whole_columns(a, ret);
    else
        weight_columns(a, ret);
    return 0;
}

void text_columns_free(struct text_columns *c)
{
    mem_free(c->row);
    mem_free(c->extra);
    *c = (struct text_columns){0};
}

static double text_get(const float *row, struct text_column c, uint32_t day)
{
    double wide;
    uint32_t bits;
    switch (c.form) {
    case NUMBER_DOUBLE:
        memcpy(&wide, row + c.at, sizeof(wide));
        return wide;
    case NUMBER_BITS:
        memcpy(&bits, row + c.at, sizeof(bits));
        return bits;
    case NUMBER_DAY:
        return (double)row[c.at] < (double)day ? (double)day - (double)row[c.at] : 0;
    case NUMBER_FLOAT:
        break;
    }
    return (double)row[c.at];
}

void text_set(float *row, struct text_column c, double x, uint32_t day)
{
    uint32_t bits = x >= 0 && x <= UINT32_MAX ? (uint32_t)x : 0;
    switch (c.form) {
    case NUMBER_DOUBLE:
        memcpy(row + c.at, &x, sizeof(x));
        return;
    case NUMBER_BITS:
        memcpy(row + c.at, &bits, sizeof(bits));
        return;
    case NUMBER_DAY:
        row[c.at] = x > 0 ? x < (double)day ? (float)((double)day - x) : 0 : (float)day;
        return;
    case NUMBER_FLOAT:
        break;
    }
    row[c.at] = (float)x;
}

struct export
{
    struct store *s;
    bool state;
    text_put_fn put;
    void *ctx;
    struct text_columns columns;
    struct buf text;
    uint32_t day;
    // All keys, and the rows of the current range of keys.
    struct table_entry *keys, *rows;
    size_t n_keys, cap_keys, n_rows, max_rows;
    uint64_t first, last;
    float *values; // the floats of each row, then of its extra row
    uint8_t *has_extra;
};

static void export_free(struct export *x)
{
    text_columns_free(&x->columns);
    buf_free(&x->text);
    mem_free(x->keys);
    mem_free(x->rows);
    mem_free(x->values);
    mem_free(x->has_extra);
}

static int text_flush(struct export *x, size_t above, struct err *e)
{
    if (x->text.len <= above)
        return 0;
    TRY(x->put(x->ctx, x->text.data, x->text.len, e));
    buf_clear(&x->text);
    return 0;
}

static int put_number(struct buf *to, double x, enum accessor_number form)
{
    char text[40];
    int n = snprintf(text, sizeof(text), form == NUMBER_DOUBLE ? " %.17g" : " %.9g", x);
    if (form == NUMBER_BITS)
        n = snprintf(text, sizeof(text), " %.0f", x);
    return buf_add(to, text, (size_t)n);
}

static int put_numbers(struct export *x, const float *row, const struct text_column *c,
                       uint32_t n)
{
    int rc = 0;
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = put_number(&x->text, text_get(row, c[i], x->day), c[i].form);
    return rc;
}

static int put_row(struct export *x, uint64_t key, const float *row, const float *extra)
{
    TRY(buf_printf(&x->text, "%" PRIu64, key));
    TRY(put_numbers(x, row, x->columns.row, x->columns.n_row));
    if (extra != NULL)
        TRY(put_numbers(x, extra, x->columns.extra, x->columns.n_extra));
    return buf_add(&x->text, "\n", 1);
}

static int name_floats(struct buf *to, const char *name, uint32_t n)
{
    if (n == 0)
        return 0;
    return n == 1 ? buf_printf(to, " %s", name) : buf_printf(to, " %s:%u", name, n);
}

static int name_columns(struct export *x)
{
    const struct accessor *a = store_accessor(x->s);
    struct buf *to = &x->text;
    bool has_life = accessor_has_clicks(a);
    const struct accessor_group *g = a->groups;
    if (a->n_groups == 0)
        return name_floats(to, "count", a->pushed_stats);
    if (has_life && !x->state)
        TRY(buf_printf(to, " show click"));
    TRY(name_floats(to, has_life ? "embed" : "weight", g[0].n));
    if (x->state) {
        TRY(name_floats(to, has_life ? "embed.state" : "state", g[0].n_state));
        if (has_life)
            TRY(buf_printf(to, " slot unseen_days delta_score show click%s",
                           a->life.ttl_steps > 0 ? " step" : ""));
    }
    if (a->count != ACCESSOR_NO_COUNT)
        TRY(buf_printf(to, " count"));
    if (a->n_groups < 2)
        return 0;
    TRY(name_floats(to, "embedx", g[1].n));
    return x->state ? name_floats(to, "embedx.state", g[1].n_state) : 0;
}

static int put_head(struct export *x)
{
    const struct table_config *c = store_config(x->s);
    TRY(buf_printf(&x->text,
                   "# tug table %s accessor=%s dim=%u state=%s day=%u step=%" PRIu64
                   "\n# key",
                   c->name, text_accessor(x->s), c->accessor.dim, x->state ? "yes" : "no",
                   x->day, store_step_of(x->s)));
    TRY(name_columns(x));
    return buf_add(&x->text, "\n", 1);
}

static int note_key(void *ctx, uint64_t key, const float *row, const float *extra,
                    struct err *e)
{
    struct export *x = ctx;
    (void)row, (void)extra;
    if (mem_room(&x->keys, &x->cap_keys, x->n_keys + 1) != 0)
        return err_nomem(e, "the keys of a table, sorted");
    x->keys[x->n_keys++] = (struct table_entry){.key = key};
    return 0;
}

static size_t row_floats(const struct export *x)
{
    const struct accessor *a = store_accessor(x->s);
    return (size_t)a->width + a->extra_width;
}

static int note_row(void *ctx, uint64_t key, const float *row, const float *extra,
                    struct err *e)
{
    struct export *x = ctx;
    const struct accessor *a = store_accessor(x->s);
    if (key < x->first || key > x->last)
        return 0;
    if (x->n_rows == x->max_rows)
        return err_set(e, TUG_EINTERNAL, "a table changes while it is exported");
    float *to = x->values + x->n_rows * row_floats(x);
    memcpy(to, row, a->width * sizeof(float));
    if (extra != NULL)
        memcpy(to + a->width, extra, a->extra_width * sizeof(float));
    x->has_extra[x->n_rows] = extra != NULL;
    x->rows[x->n_rows] = (struct table_entry){key, (uint32_t)x->n_rows};
    x->n_rows++;
    return 0;
}

static int each_row(struct export *x, store_row_fn fn, struct err *e)
{
    for (uint32_t p = 0; p < 1u << store_partition_bits(x->s); p++)
        TRY(store_each(x->s, p, fn, x, e));
    return 0;
}

static int export_range(struct export *x, size_t from, size_t n, struct err *e)
{
    x->n_rows = 0;
    x->first = x->keys[from].key;
    x->last = x->keys[from + n - 1].key;
    TRY(each_row(x, note_row, e));
    table_sort_by_key(x->rows, x->n_rows);
    for (size_t i = 0; i < x->n_rows; i++) {
        size_t at = x->rows[i].handle;
        const float *row = x->values + at * row_floats(x);
        const float *extra = x->has_extra[at] ? row + store_accessor(x->s)->width : NULL;
        if (put_row(x, x->rows[i].key, row, extra) != 0)
            return err_nomem(e, "the text of a row");
        TRY(text_flush(x, TEXT_PUT, e));
    }
    return 0;
}

static int export_rows(struct export *x, struct err *e)
{
    TRY(each_row(x, note_key, e));
    table_sort_by_key(x->keys, x->n_keys);
    x->max_rows = RANGE_BYTES / ((row_floats(x) + 1) * sizeof(float)) + 1;
    if (x->max_rows > x->n_keys)
        x->max_rows = x->n_keys;
    x->rows = mem_array(x->max_rows + 1, sizeof(*x->rows));
    x->values = mem_array((x->max_rows + 1) * row_floats(x) + 1, sizeof(float));
    x->has_extra = mem_array(x->max_rows + 1, 1);
    if (x->rows == NULL || x->values == NULL || x->has_extra == NULL)
        return err_nomem(e, "rows of a table, sorted");
    for (size_t at = 0; at < x->n_keys; at += x->max_rows) {
        size_t left = x->n_keys - at;
        TRY(export_range(x, at, left < x->max_rows ? left : x->max_rows, e));
    }
    return 0;
}

int text_export(struct store *s, bool state, text_put_fn put, void *ctx, struct err *e)
{
    struct export x = {.s = s,
                       .state = state,
                       .put = put,
                       .ctx = ctx,
                       .day = store_day_of(s),
                       .text = BUF_INIT(TEXT_MAX)};
    int rc = text_columns(s, state, &x.columns, e);
    if (rc == 0 && put_head(&x) != 0)
        rc = err_nomem(e, "the text of a table");
    if (rc == 0)
        rc = export_rows(&x, e);
    if (rc == 0)
        rc = text_flush(&x, 0, e);
    export_free(&x);
    return rc;
}
