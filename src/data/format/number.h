// Parses numbers in text, eight bytes at a time.
//
// The fast functions read up to 8 bytes after the number (READER_PADDING covers this)
// and accept only short plain forms; number_parse, which is slow and exact, handles all
// others. Both return the float nearest to the text.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FORMAT_NUMBER_H
#define TUG_DATA_FORMAT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "words of text are little-endian");

static inline uint64_t load_word(const char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

// Returns how many of the first eight bytes are digits. Each byte above 9 (after the xor)
// gets its high bit set; a carry affects only bytes after the first such byte.
static inline unsigned digits_count(uint64_t w)
{
    uint64_t t = w ^ 0x3030303030303030u;
    uint64_t over = ((t + 0x7676767676767676u) | t) & 0x8080808080808080u;
    return over != 0 ? (unsigned)__builtin_ctzll(over) >> 3 : 8;
}

// Returns the first n digits (1..8) as a number; combines digits to pairs, pairs to
// groups of four, and these to eight.
static inline uint32_t digits_value(uint64_t w, unsigned n)
{
    uint64_t t = (w ^ 0x3030303030303030u) << (64 - 8 * n);
    t = (t * 10 + (t >> 8)) & 0x00ff00ff00ff00ffu;
    t = (t * 100 + (t >> 16)) & 0x0000ffff0000ffffu;
    return (uint32_t)(t * 10000 + (t >> 32));
}

// Finds byte c in a word: returns a word in which the high bit of each equal byte is set.
// Only the first set bit is reliable.
static inline uint64_t word_find(uint64_t w, char c)
{
    uint64_t t = w ^ (0x0101010101010101u * (unsigned char)c);
    return (t - 0x0101010101010101u) & ~t & 0x8080808080808080u;
}

// Returns the place of the first byte c in [p, end); `end` if there is none.
static inline const char *find_byte(const char *p, const char *end, char c)
{
    for (; p < end; p += 8) {
        uint64_t hit = word_find(load_word(p), c);
        if (hit != 0) {
            p += (unsigned)__builtin_ctzll(hit) >> 3;
            break;
        }
    }
    return p < end ? p : end;
}

extern const float number_pow10[8];

// Parses a decimal number with at most 7 digits on either side of the point, whose digits
// form an integer below 2^24. Returns the place after the number, or NULL for any other
// text. Floats represent this integer and the power of ten exactly, so one division rounds
// correctly.
static inline const char *number_short(const char *p, float *ret)
{
    bool negative = *p == '-';
    p += negative;
    uint64_t w = load_word(p);
    unsigned whole = digits_count(w), part = 0;
    if (whole - 1 > 6) // no digit, or at least eight
        return NULL;
    uint64_t m = digits_value(w, whole);
    p += whole;
    float scale = 1;
    if (*p == '.') {
        static const uint32_t pow10[8] = {1,     10,     100,     1000,
                                          10000, 100000, 1000000, 10000000};
        w = load_word(++p);
        part = digits_count(w);
        if (part - 1 > 6)
            return NULL;
        m = m * pow10[part] + digits_value(w, part);
        scale = number_pow10[part];
        p += part;
    }
    if (m >= 1 << 24 || *p == 'e' || *p == 'E')
        return NULL;
    float x = (float)(int32_t)m;
    if (part != 0)
        x /= scale;
    *ret = negative ? -x : x;
    return p;
}

enum number_status { NUMBER_OK, NUMBER_BAD, NUMBER_NOT_FINITE };

// Parses all of text[0..len) as [+-]digits[.digits][e[+-]digits], with up to NUMBER_MAX
// characters, whatever the locale. Returns NUMBER_NOT_FINITE for "nan", "inf" and numbers
// too large for a float.
enum { NUMBER_MAX = 255 };
enum number_status number_parse(const char *text, size_t len, float *ret);

// Parses the integer of any length that begins at p. Returns the place after the integer;
// NULL if no integer begins there, or if it exceeds 2^64 - 1.
const char *number_whole(const char *p, uint64_t *ret);

// Parses an unsigned integer. Returns false if text[0..len) is not an integer, or exceeds
// 2^64 - 1.
bool number_u64(const char *text, size_t len, uint64_t *ret);

#endif
