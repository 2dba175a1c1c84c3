// Writes rows in memory as lines of text, for code that looks at a few of them: kept
// columns, the first lines that decide bins of numbers, checks before a run.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/format/number.h"
#include "data/frame/rows.h"

enum { NUMBER_BYTES = 64 };

float rows_float(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x1fffffff) != 0x10000000 && (fabs(x) > 1e-30 || x == 0))
        return (float)x;
    char text[NUMBER_BYTES];
    float ret = (float)x;
    for (int digits = 15, same = 0; digits <= 17 && !same; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, x);
        same = strtod(text, NULL) == x;
    }
    return number_parse(text, strlen(text), &ret) == NUMBER_OK ? ret : (float)x;
}

static char *put_whole(char *to, uint64_t x)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + x % 10);
    while ((x /= 10) > 0);
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

// Writes a float. Most are small integers; nine digits distinguish all floats.
static char *put_float(char *to, float x)
{
    if (x >= 0 && x < 1e7f && x == (float)(uint32_t)x && !signbit(x))
        return put_whole(to, (uint32_t)x);
    return to + snprintf(to, NUMBER_BYTES, "%.9g", (double)x);
}

static int put_feature(struct buf *b, const uint32_t *field, uint64_t key, float value)
{
    char text[3 * NUMBER_BYTES], *p = text;
    *p++ = ' ';
    if (field != NULL) {
        p = put_whole(p, *field);
        *p++ = ':';
    }
    p = put_whole(p, key);
    *p++ = ':';
    p = put_float(p, value);
    return buf_add(b, text, (size_t)(p - text));
}

static int put_sparse(const struct sparse_rows *s, uint64_t i, struct buf *to)
{
    for (uint64_t j = s->offsets[i]; j < s->offsets[i + 1]; j++)
        TRY(put_feature(to, s->fields != NULL ? &s->fields[j] : NULL, s->keys[j],
                        s->values != NULL ? s->values[j] : 1));
    return 0;
}

static int put_dense(const struct dense_rows *d, uint64_t i, struct buf *to)
{
    for (size_t k = 0; k < d->columns; k++) {
        float value = rows_dense_value(d, i, k);
        if (value != 0)
            TRY(put_feature(to, NULL, k, value));
    }
    return 0;
}

static int put_row(const struct rows *r, uint64_t i, struct buf *to)
{
    char label[NUMBER_BYTES];
    // Write the label 0 if there are none: an empty line would not be an example.
    float y = r->labels != NULL ? r->labels[i] : 0;
    TRY(buf_add(to, label, (size_t)(put_float(label, y) - label)));
    return r->sparse != NULL ? put_sparse(r->sparse, i, to) : put_dense(r->dense, i, to);
}

int rows_text(const struct rows *r, uint64_t i, struct buf *to, struct err *e)
{
    int rc = r->columns != NULL ? columns_text(r, i, to) : put_row(r, i, to);
    return rc == 0 ? 0 : err_nomem(e, "a row as text");
}

int rows_first_lines(const struct rows *r, size_t lines, size_t most, struct buf *to,
                     struct err *e)
{
    size_t before = to->len, header = r->columns != NULL;
    if (header && columns_header(r, to) != 0)
        return err_nomem(e, "the names of columns");
    for (size_t i = 0; i + header < lines && i < r->n && to->len - before < most; i++) {
        if (i + header > 0 && buf_add(to, "\n", 1) != 0)
            return err_nomem(e, "rows as text");
        TRY(rows_text(r, i, to, e));
    }
    return 0;
}
