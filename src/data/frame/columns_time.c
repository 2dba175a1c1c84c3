// Dates, times and decimals of Arrow as texts, in the forms of polars' csv writer:
// 2020-01-31, 2020-01-31T12:00:00.000000 (followed by +0200 if it has a time zone)
// and 12:00:00.000000000.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "data/frame/columns.h"

enum { DAY = 86400 };

static int64_t number_at(const struct column_span *s, int64_t i)
{
    return s->type->bytes == 4 ? ((const int32_t *)s->values)[i]
                               : ((const int64_t *)s->values)[i];
}

static int64_t floor_div(int64_t x, int64_t by)
{
    return x / by - (x % by < 0);
}

// Writes days since 1970 as a date (the inverse of Hinnant's days_from_civil), for all
// days that an int64 of seconds can express.
static int put_date(int64_t days, char *to, size_t cap)
{
    enum { ERA = 146097, BEFORE_1970 = 719468 };
    int64_t z = days + BEFORE_1970, era = floor_div(z, ERA), doe = z - era * ERA;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / (ERA - 1)) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    int64_t day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
    int64_t year = yoe + era * 400 + (month <= 2);
    return snprintf(to, cap, "%04lld-%02lld-%02lld", (long long)year, (long long)month,
                    (long long)day);
}

static int put_clock(int64_t seconds, int64_t fraction, int digits, char *to, size_t cap)
{
    int n = snprintf(to, cap, "%02d:%02d:%02d", (int)(seconds / 3600),
                     (int)(seconds / 60 % 60), (int)(seconds % 60));
    if (digits > 0)
        n += snprintf(to + n, cap - (size_t)n, ".%0*lld", digits, (long long)fraction);
    return n;
}

static void put_time(const struct column_type *t, int64_t x, struct cell *ret)
{
    int64_t unit = 1;
    for (int i = 0; i < t->digits; i++)
        unit *= 10;
    int64_t seconds = floor_div(x, unit), fraction = x - seconds * unit;
    char *p = ret->own, *end = ret->own + CELL_OWN;
    if (t->kind == COLUMN_CLOCK) {
        int64_t second = seconds - floor_div(seconds, DAY) * DAY;
        for (int i = t->digits; i < 9; i++) // polars always writes nanoseconds
            fraction *= 10;
        ret->len = (size_t)put_clock(second, fraction, 9, p, CELL_OWN);
        return;
    }
    int64_t day = floor_div(seconds, DAY), second = seconds - day * DAY + t->zone;
    day += floor_div(second, DAY);
    second -= floor_div(second, DAY) * DAY;
    p += put_date(day, p, CELL_OWN);
    *p++ = 'T';
    p += put_clock(second, fraction, t->digits, p, (size_t)(end - p));
    if (t->has_zone) {
        int zone = t->zone < 0 ? -t->zone : t->zone;
        p += snprintf(p, (size_t)(end - p), "%c%02d%02d", t->zone < 0 ? '-' : '+',
                      zone / 3600, zone / 60 % 60);
    }
    ret->len = (size_t)(p - ret->own);
}

void cell_take_time(const struct column_span *s, int64_t i, struct cell *ret)
{
    enum { MILLISECONDS = 1000 };
    int64_t x = number_at(s, i);
    ret->kind = CELL_TEXT;
    ret->text = ret->own;
    if (s->type->kind == COLUMN_DATE) {
        int64_t days = s->type->bytes == 4 ? x
                                           : floor_div(x, (int64_t)DAY * MILLISECONDS);
        ret->len = (size_t)put_date(days, ret->own, CELL_OWN);
    } else {
        put_time(s->type, x, ret);
    }
}

void cell_take_decimal(const struct column_span *s, int64_t i, struct cell *ret)
{
    enum { BYTES = 16 };
    __int128 x;
    if (s->type->bytes == BYTES)
        memcpy(&x, (const char *)s->values + BYTES * i, sizeof x);
    else
        x = number_at(s, i);
    unsigned __int128 left = x < 0 ? -(unsigned __int128)x : (unsigned __int128)x;
    char *end = ret->own + CELL_OWN, *p = end;
    for (int n = 0; left > 0 || n <= s->type->digits; n++, left /= 10) {
        if (n == s->type->digits && n > 0)
            *--p = '.';
        *--p = (char)('0' + (int)(left % 10));
    }
    if (x < 0)
        *--p = '-';
    ret->kind = CELL_TEXT;
    ret->text = p;
    ret->len = (size_t)(end - p);
}
