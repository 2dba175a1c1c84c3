// Texts of numbers as the csv writers of pandas, Python and polars write them. All write
// the fewest digits that are read back as the same float; they differ in when they use an
// exponent.
//
// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/frame/columns.h"
#include "data/frame/rows.h"

enum { DIGITS_MOST = 17 };

struct shortest {
    char digits[DIGITS_MOST + 1]; // the digits without trailing zeros, but at least "0"
    int n, point; // number of digits; the decimal point comes after digit number `point`
};

static bool reads_back(double x, bool single, const char *text)
{
    return single ? (double)strtof(text, NULL) == x : strtod(text, NULL) == x;
}

// Finds the fewest digits that read back as the number, which is finite and not negative.
// All texts of up to 15 digits (6 for floats) read back as themselves, so fewer digits
// need not be tried, except for subnormal numbers.
static void find_digits(double x, bool single, struct shortest *ret)
{
    char text[CELL_OWN];
    bool tiny = x < (single ? (double)FLT_MIN : DBL_MIN);
    int digits = tiny ? 1 : single ? 6 : 15;
    do
        snprintf(text, sizeof text, "%.*e", digits - 1, x);
    while (!reads_back(x, single, text) && digits++ < DIGITS_MOST);
    ret->n = 0;
    for (const char *p = text; *p != 'e'; p++)
        if (*p != '.')
            ret->digits[ret->n++] = *p;
    ret->point = (int)strtol(strchr(text, 'e') + 1, NULL, 10) + 1;
    while (ret->n > 1 && ret->digits[ret->n - 1] == '0')
        ret->n--;
    ret->digits[ret->n] = '\0';
}

// Returns whether the number is written without an exponent.
static bool is_plain(const struct shortest *d, bool single, enum cell_style style)
{
    if (style == CELL_PYTHON)
        return d->point > -4 && d->point <= 16;
    return single ? d->point > -6 && d->point <= 13 : d->point > -5 && d->point <= 16;
}

static size_t put_plain(const struct shortest *d, char *to)
{
    char *p = to;
    if (d->point <= 0)
        *p++ = '0';
    for (int i = 0; i < d->point; i++)
        *p++ = i < d->n ? d->digits[i] : '0';
    *p++ = '.';
    for (int i = d->point; i < 0; i++)
        *p++ = '0';
    for (int i = d->point > 0 ? d->point : 0; i < d->n; i++)
        *p++ = d->digits[i];
    if (d->point >= d->n)
        *p++ = '0';
    return (size_t)(p - to);
}

size_t cell_write_float(double x, bool single, enum cell_style style, char *ret)
{
    struct shortest d;
    char *p = ret;
    if (isnan(x) || isinf(x))
        return (size_t)snprintf(ret, CELL_OWN, "%s",
                                isnan(x) ? "nan"
                                : x < 0  ? "-inf"
                                         : "inf");
    if (signbit(x))
        *p++ = '-';
    find_digits(fabs(x), single, &d);
    if (x == 0 || is_plain(&d, single, style))
        return (size_t)(p - ret) + put_plain(&d, p);
    int e = d.point - 1;
    const char *form = style == CELL_PYTHON ? "%c%s%se%c%02d" : "%c%s%se%.*s%d";
    const char *point = d.n > 1 ? "." : "";
    int n = style == CELL_PYTHON ? snprintf(p, CELL_OWN - 1, form, d.digits[0], point,
                                            d.digits + 1, e < 0 ? '-' : '+', abs(e))
                                 : snprintf(p, CELL_OWN - 1, form, d.digits[0], point,
                                            d.digits + 1, e < 0, "-", abs(e));
    return (size_t)(p - ret) + (size_t)n;
}

static void write_old(struct cell *cell)
{
    cell->len = 0;
    for (int digits = cell->single ? 6 : 15; cell->len == 0 && digits <= DIGITS_MOST;
         digits++) {
        int len = snprintf(cell->own, CELL_OWN, "%.*g", digits, cell->number);
        if (reads_back(cell->number, cell->single, cell->own))
            cell->len = (size_t)len;
    }
}

// Writes an integer backwards; its last digit is just before `end`.
static void write_whole(struct cell *cell, char *end)
{
    char *p = end;
    uint64_t x = cell->whole;
    do
        *--p = (char)('0' + x % 10);
    while ((x /= 10) > 0);
    if (cell->negative)
        *--p = '-';
    cell->text = p;
    cell->len = (size_t)(end - p);
}

void cell_write(struct cell *cell)
{
    enum { MOST = 20 + 1 }; // 20 digits, as 2^64 has, and the sign
    char *end = cell->own + MOST;
    // An integer of 2^24 or more in a column of floats is written with only its first
    // nine digits, followed by zeros.
    bool digits = !cell->single || cell->whole < 1 << FLT_MANT_DIG;
    cell->text = cell->own;
    if (cell->is_whole && (!cell->is_real || cell->style == CELL_OLD)) {
        write_whole(cell, end);
    } else if (cell->is_whole && digits) {
        write_whole(cell, end);
        memcpy(end, ".0", 2);
        cell->len += 2;
    } else if (cell->style == CELL_OLD) {
        write_old(cell);
    } else {
        cell->len = cell_write_float(cell->number, cell->single, cell->style, cell->own);
    }
}

void cell_make_old(struct cell *cell)
{
    cell->style = CELL_OLD;
    if (cell->is_bool)
        cell->text = cell->len == strlen("true") ? "true" : "false";
}

float cell_float(const struct cell *cell)
{
    if (cell->is_whole)
        return cell->negative ? -(float)cell->whole : (float)cell->whole;
    return cell->single ? (float)cell->number : rows_float(cell->number);
}
