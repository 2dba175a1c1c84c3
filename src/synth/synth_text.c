// Writes lines of text for synthetic examples without printf, which would take most of
// the time.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "synth/synth_plant.h"

static char *put_number(char *to, uint32_t x)
{
    char digits[10];
    int n = 0;
    do
        digits[n++] = (char)('0' + x % 10);
    while (x /= 10);
    while (n)
        *to++ = digits[--n];
    return to;
}

// Writes a value as a word of six hexadecimal digits that looks like a hash. A bijection
// of 24-bit numbers gives different values different words. The function writes eight
// bytes, of which the caller keeps six.
static char *put_word(char *to, uint32_t value, uint32_t scramble)
{
    uint32_t x = (value ^ scramble) & 0xffffff;
    x = x * 0x9e3779u & 0xffffff; // multiplying by an odd number, and xor with shifted
                                  // bits, are invertible
    x ^= x >> 13;
    x = x * 0xd1b54bu & 0xffffff;
    x ^= x >> 11;
    // Spreads the six nibbles over bytes, with the first digit in the lowest byte: splits
    // the number into two halves, and each half into three nibbles.
    const uint64_t first = 0x0f00000f;
    uint64_t halves = x >> 12 | (uint64_t)(x & 0xfff) << 24;
    uint64_t n = (halves >> 8 & first) | (halves >> 4 & first) << 8 |
                 (halves & first) << 16;
    uint64_t letters = (n + 0x060606060606ull) >> 4 & 0x010101010101ull;
    n += 0x303030303030ull + letters * 39;
    memcpy(to, &n, 8);
    return to + 6;
}

static char *print_table(const struct synth *s, const struct synth_example *x, char *to,
                         char separator, bool buckets)
{
    *to++ = (char)('0' + x->label);
    for (uint32_t i = 0; i < SYNTH_NUMERIC; i++) {
        *to++ = separator;
        if (x->value[i] != SYNTH_MISSING)
            to = put_number(to, buckets ? x->value[i] : x->number[i]);
    }
    for (uint32_t i = SYNTH_NUMERIC; i < SYNTH_SLOTS; i++) {
        *to++ = separator;
        if (x->value[i] != SYNTH_MISSING)
            to = put_word(to, x->value[i], s->slots[i].scramble);
    }
    return to;
}

static char *print_pairs(const struct synth *s, const struct synth_example *x, char *to,
                         bool fields)
{
    *to++ = (char)('0' + x->label);
    for (uint32_t i = 0; i < SYNTH_SLOTS; i++) {
        if (x->value[i] == SYNTH_MISSING)
            continue;
        *to++ = ' ';
        if (fields) {
            to = put_number(to, i);
            *to++ = ':';
        }
        to = put_number(to, s->slots[i].index + x->value[i]);
        *to++ = ':';
        *to++ = '1';
    }
    return to;
}

static char *print_slots(const struct synth_example *x, char *to)
{
    *to++ = '1';
    *to++ = ' ';
    *to++ = (char)('0' + x->label);
    for (uint32_t i = 0; i < SYNTH_SLOTS; i++) {
        bool there = x->value[i] != SYNTH_MISSING;
        *to++ = ' ';
        *to++ = (char)('0' + there);
        if (!there)
            continue;
        *to++ = ' ';
        to = put_number(to, x->value[i]);
    }
    return to;
}

const char synth_slots[] = "label:label, i1..i13:ids, c1..c26:ids";

char *synth_print(const struct synth *s, enum synth_format format,
                  const struct synth_example *x, char *to)
{
    switch (format) {
    case SYNTH_CRITEO:
        to = print_table(s, x, to, '\t', false);
        break;
    case SYNTH_CSV:
        to = print_table(s, x, to, ',', true);
        break;
    case SYNTH_LIBSVM:
        to = print_pairs(s, x, to, false);
        break;
    case SYNTH_LIBFFM:
        to = print_pairs(s, x, to, true);
        break;
    case SYNTH_MULTISLOT:
        to = print_slots(x, to);
        break;
    }
    *to++ = '\n';
    return to;
}

const char *synth_header(enum synth_format format)
{
    if (format != SYNTH_CSV)
        return "";
    return "label,i1,i2,i3,i4,i5,i6,i7,i8,i9,i10,i11,i12,i13,"
           "c1,c2,c3,c4,c5,c6,c7,c8,c9,c10,c11,c12,c13,"
           "c14,c15,c16,c17,c18,c19,c20,c21,c22,c23,c24,c25,c26\n";
}
