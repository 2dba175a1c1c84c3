// Decides by a table of the forms that a UTF-8 character can have.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

// The forms of printable UTF-8 characters: the range of the first byte (first, last), the
// range of the second (low, high), and the number of bytes. The table leaves out the
// control characters below ' ' and those from U+0080 to U+009F, which control some
// terminals.
static const struct {
    unsigned char first, last, low, high;
    size_t bytes;
} forms[] = {
    {' ', '~', 0, 0, 1},         {0xc2, 0xc2, 0xa0, 0xbf, 2}, {0xc3, 0xdf, 0x80, 0xbf, 2},
    {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
    {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
    {0xf4, 0xf4, 0x80, 0x8f, 4},
};

// Returns the size of the first character of n bytes; 0 if it is not printable.
static size_t printable_bytes_of(const unsigned char *s, size_t n)
{
    size_t i = 0, k = 2, end = sizeof(forms) / sizeof(*forms);
    while (i < end && (s[0] < forms[i].first || s[0] > forms[i].last))
        i++;
    size_t bytes = i < end && forms[i].bytes <= n ? forms[i].bytes : 0;
    if (bytes > 1 && (s[1] < forms[i].low || s[1] > forms[i].high))
        return 0;
    while (k < bytes && (s[k] & 0xc0) == 0x80)
        k++;
    return k >= bytes ? bytes : 0;
}

bool printable_check(const char *text, size_t n)
{
    for (size_t at = 0, bytes; at < n; at += bytes) {
        bytes = printable_bytes_of((const unsigned char *)text + at, n - at);
        if (bytes == 0)
            return false;
    }
    return true;
}

size_t printable_not_utf8(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    for (size_t at = 0, bytes; at < n; at += bytes) {
        bool ascii = s[at]<0x80, c1 = n - at> 1 && s[at] == 0xc2 &&
                     (s[at + 1] & 0xe0) == 0x80;
        bytes = ascii ? 1 : c1 ? 2 : printable_bytes_of(s + at, n - at);
        if (bytes == 0)
            return at;
    }
    return n;
}

// Writes the escape of a byte that is not printable.
static size_t escape(unsigned char c, char ret[8])
{
    static const char named[] = "\tt\nn\rr";
    for (size_t i = 0; named[i] != '\0'; i += 2)
        if ((unsigned char)named[i] == c)
            return (size_t)snprintf(ret, 8, "\\%c", named[i + 1]);
    return (size_t)snprintf(ret, 8, "\\x%02x", c);
}

size_t printable_copy(char *to, size_t cap, const char *text, size_t n)
{
    size_t at = 0, len = 0;
    while (at < n) {
        char escaped[8];
        size_t bytes = printable_bytes_of((const unsigned char *)text + at, n - at);
        const char *from = bytes > 0 ? text + at : escaped;
        size_t put = bytes > 0 ? bytes : escape((unsigned char)text[at], escaped);
        if (len + put >= cap)
            break;
        memcpy(to + len, from, put);
        len += put;
        at += bytes > 0 ? bytes : 1;
    }
    if (cap > 0)
        to[len] = '\0';
    return at;
}

int printable_add(struct buf *b, const char *text, size_t n)
{
    char some[256];
    for (size_t at = 0; at < n;) {
        at += printable_copy(some, sizeof(some), text + at, n - at);
        TRY(buf_add(b, some, strlen(some)));
    }
    return 0;
}

void printable_make(char *text)
{
    size_t n = strlen(text);
    for (size_t at = 0; at < n;) {
        size_t bytes = printable_bytes_of((const unsigned char *)text + at, n - at);
        if (bytes == 0)
            text[at] = '?';
        at += bytes > 0 ? bytes : 1;
    }
}
