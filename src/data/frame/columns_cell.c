// Cells of columns: reads the value of a row, for every kind of column.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "data/format/reader_ops.h"
#include "data/frame/columns.h"

const struct columns_batch *columns_find(const struct columns *c, uint64_t row)
{
    size_t at = 0, n = c->batches;
    while (n > 1) {
        size_t half = n / 2;
        at += c->batch[at + half].first <= row ? half : 0;
        n -= half;
    }
    return &c->batch[at];
}

static bool bit(const uint8_t *bits, int64_t i)
{
    return bits[i >> 3] >> (i & 7) & 1;
}

// Returns integer i of the column; a negative one in two's complement of 64 bits.
static uint64_t whole_at(const struct column_span *s, int64_t i)
{
    const struct column_type *t = s->type;
    switch (t->bytes) {
    case 1:
        return t->is_signed ? (uint64_t)(int64_t)((const int8_t *)s->values)[i]
                            : ((const uint8_t *)s->values)[i];
    case 2:
        return t->is_signed ? (uint64_t)(int64_t)((const int16_t *)s->values)[i]
                            : ((const uint16_t *)s->values)[i];
    case 4:
        return t->is_signed ? (uint64_t)(int64_t)((const int32_t *)s->values)[i]
                            : ((const uint32_t *)s->values)[i];
    default:
        return ((const uint64_t *)s->values)[i];
    }
}

static void take_whole(const struct column_span *s, int64_t i, struct cell *ret)
{
    uint64_t x = whole_at(s, i);
    ret->kind = CELL_NUMBER;
    ret->is_whole = true;
    ret->negative = s->type->is_signed && (int64_t)x < 0;
    ret->whole = ret->negative ? 0 - x : x;
    ret->number = ret->negative ? -(double)ret->whole : (double)ret->whole;
}

static void take_real(const struct column_span *s, int64_t i, struct cell *ret)
{
    ret->is_real = true;
    ret->single = s->type->bytes == 4;
    ret->number = ret->single ? (double)((const float *)s->values)[i]
                              : ((const double *)s->values)[i];
    ret->kind = isnan(ret->number) ? CELL_MISSING : CELL_NUMBER;
    ret->is_whole = fabs(ret->number) < 1e15 && ret->number == trunc(ret->number);
    ret->negative = signbit(ret->number);
    if (ret->is_whole)
        ret->whole = (uint64_t)fabs(ret->number);
}

static void take_bool(bool is, struct cell *ret)
{
    static const char *const words[2][2] = {{"false", "true"}, {"False", "True"}};
    ret->kind = CELL_TEXT;
    ret->is_bool = true;
    ret->text = words[ret->style == CELL_PYTHON][is];
    ret->len = strlen(ret->text);
}

static void columns_cell_take_text(const struct column_span *s, int64_t i,
                                   struct cell *ret)
{
    int64_t from, to;
    if (s->type->bytes == 4) {
        from = ((const int32_t *)s->values)[i];
        to = ((const int32_t *)s->values)[i + 1];
    } else {
        from = ((const int64_t *)s->values)[i];
        to = ((const int64_t *)s->values)[i + 1];
    }
    ret->kind = CELL_TEXT;
    ret->text = s->text != NULL ? s->text + from : "";
    ret->len = (size_t)(to - from);
}

static void take_view(const struct column_span *s, int64_t i, struct cell *ret)
{
    const char *view = (const char *)s->values + 16 * i;
    int32_t head[4];
    memcpy(head, view, sizeof(head));
    ret->kind = CELL_TEXT;
    ret->len = (size_t)head[0];
    ret->text = head[0] <= 12 ? view + 4 : (const char *)s->texts[head[2]] + head[3];
}

static void take_list(const struct column_span *s, int64_t i, struct cell *ret)
{
    ret->kind = CELL_LIST;
    ret->list = s->of;
    if (s->type->bytes == 0) {
        ret->from = i * s->type->each;
        ret->to = ret->from + s->type->each;
    } else if (s->type->bytes == 4) {
        ret->from = ((const int32_t *)s->values)[i];
        ret->to = ((const int32_t *)s->values)[i + 1];
    } else {
        ret->from = ((const int64_t *)s->values)[i];
        ret->to = ((const int64_t *)s->values)[i + 1];
    }
}

static int columns_cell_bad(const struct column_span *s, const char *why, struct err *e)
{
    return err_set(e, TUG_EDATA, "column '%s' %s",
                   show(s->type->name, strlen(s->type->name)).text, why);
}

static int other(const struct column_span *s, struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "column '%s' has the Arrow format '%s', but only numbers, bool, text, "
                   "dates, times, decimals, dictionaries and lists of these can be read: "
                   "convert it, or --drop it",
                   show(s->type->name, strlen(s->type->name)).text,
                   show(s->type->format, strlen(s->type->format)).text);
}

static int take_entry(const struct column_span *s, int64_t i, struct cell *ret,
                      struct err *e)
{
    uint64_t index = whole_at(s, i);
    if (index >= (uint64_t)s->of->length) // negative indices became large by the cast
        return columns_cell_bad(s, "has an index outside its dictionary", e);
    return column_cell(s->of, (int64_t)index, ret, e);
}

int column_cell(const struct column_span *s, int64_t i, struct cell *ret, struct err *e)
{
    ret->kind = CELL_MISSING;
    ret->style = s->type->style;
    ret->single = ret->is_whole = ret->is_real = ret->is_bool = false;
    i += s->offset;
    if (s->type->kind == COLUMN_OTHER)
        return other(s, e);
    if (s->valid != NULL && !bit(s->valid, i))
        return 0;
    switch (s->type->kind) {
    case COLUMN_BOOL:
        take_bool(bit(s->values, i), ret);
        break;
    case COLUMN_WHOLE:
        take_whole(s, i, ret);
        break;
    case COLUMN_REAL:
        take_real(s, i, ret);
        break;
    case COLUMN_TEXT:
        columns_cell_take_text(s, i, ret);
        break;
    case COLUMN_VIEW:
        take_view(s, i, ret);
        break;
    case COLUMN_LIST:
        take_list(s, i, ret);
        break;
    case COLUMN_DICTIONARY:
        return take_entry(s, i, ret, e);
    case COLUMN_DATE:
    case COLUMN_CLOCK:
    case COLUMN_TIME:
        cell_take_time(s, i, ret);
        break;
    case COLUMN_DECIMAL:
        cell_take_decimal(s, i, ret);
        break;
    case COLUMN_NULL:
    case COLUMN_OTHER:
        break;
    }
    if (ret->kind == CELL_TEXT && memchr(ret->text, '\0', ret->len) != NULL)
        return columns_cell_bad(s, "has a text with a byte 0, which is not allowed", e);
    return 0;
}
