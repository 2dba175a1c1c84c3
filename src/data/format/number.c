// The slow, exact half of number parsing: short decimals by one division of doubles,
// other numbers by the C library.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/format/number.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

const float number_pow10[8] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && is_digit(*p))
        p++;
    return p;
}

// The parts of a number's text; its value is m / 10^scale if that is exact.
struct decimal {
    bool valid, exact;
    uint64_t m;
    unsigned scale;
};

static void take_digits(struct decimal *d, const char *p, const char *end, bool fraction)
{
    for (; p < end && d->exact; p++) {
        d->m = d->m * 10 + (uint64_t)(*p - '0');
        d->scale += fraction;
        d->exact = d->m < (uint64_t)1 << 53 && d->scale <= 22;
    }
}

static struct decimal scan(const char *p, const char *end)
{
    struct decimal d = {.exact = true};
    const char *whole = p;
    p = skip_digits(p, end);
    take_digits(&d, whole, p, false);
    bool some = p > whole;
    if (p < end && *p == '.') {
        const char *part = ++p;
        p = skip_digits(p, end);
        take_digits(&d, part, p, true);
        some |= p > part;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        const char *digits = p;
        p = skip_digits(p, end);
        some &= p > digits;
        d.exact = false;
    }
    d.valid = some && p == end;
    return d;
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

// Divides two exact doubles and rounds the result to float. Returns false if the rounding
// may be wrong: the double lies exactly between two floats, is very small, or the numbers
// are not exact.
static bool by_division(const struct decimal *d, float *ret)
{
    static const double pow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (!d->exact)
        return false;
    double x = (double)d->m / pow10[d->scale];
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    *ret = (float)x;
    return (bits & 0x1fffffff) != 0x10000000 && (d->m == 0 || x > 1e-30);
}

static float by_library(const char *text, size_t len)
{
    char copy[NUMBER_MAX + 1];
    memcpy(copy, text, len);
    copy[len] = '\0';
    // The "C" locale is a constant of the C library: it need not be freed and cannot
    // fail.
    return strtof_l(copy, NULL, newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

enum number_status number_parse(const char *text, size_t len, float *ret)
{
    bool negative = len > 0 && *text == '-';
    if (negative || (len > 0 && *text == '+')) {
        text++;
        len--;
    }
    if (is_word(text, len, "nan") || is_word(text, len, "inf") ||
        is_word(text, len, "infinity"))
        return NUMBER_NOT_FINITE;
    struct decimal d = scan(text, text + len);
    if (!d.valid || len > NUMBER_MAX)
        return NUMBER_BAD;
    float x;
    if (!by_division(&d, &x))
        x = by_library(text, len);
    if (!isfinite(x))
        return NUMBER_NOT_FINITE;
    *ret = negative ? -x : x;
    return NUMBER_OK;
}

bool number_u64(const char *text, size_t len, uint64_t *ret)
{
    uint64_t x = 0;
    for (size_t i = 0; i < len; i++)
        if (!is_digit(text[i]) || __builtin_mul_overflow(x, 10u, &x) ||
            __builtin_add_overflow(x, (uint64_t)(text[i] - '0'), &x))
            return false;
    *ret = x;
    return len > 0;
}

const char *number_whole(const char *p, uint64_t *ret)
{
    static const uint32_t pow10[9] = {1,      10,      100,      1000,     10000,
                                      100000, 1000000, 10000000, 100000000};
    const char *q = p;
    uint64_t x = 0;
    unsigned digits = 8;
    bool over = false;
    for (int words = 0; words < 3 && digits == 8; words++) {
        uint64_t w = load_word(q);
        digits = digits_count(w);
        if (digits > 0)
            over |= __builtin_mul_overflow(x, pow10[digits], &x) ||
                    __builtin_add_overflow(x, digits_value(w, digits), &x);
        q += digits;
    }
    *ret = x;
    if (digits < 8)
        return q > p && !over ? q : NULL;
    while (is_digit(*q)) // leading zeros can make the number long
        q++;
    return number_u64(p, (size_t)(q - p), ret) ? q : NULL;
}
