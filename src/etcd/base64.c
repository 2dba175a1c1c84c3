// Base64 (RFC 4648, section 4), the form of bytes in etcd's JSON.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "etcd/etcd_internal.h"

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_add(struct buf *to, const void *bytes, size_t n)
{
    const unsigned char *from = bytes;
    TRY(buf_reserve(to, (n + 2) / 3 * 4));
    char *out = to->data + to->len;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t x = (uint32_t)from[i] << 16 |
                     (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                     (left > 2 ? (uint32_t)from[i + 2] : 0);
        *out++ = letters[x >> 18];
        *out++ = letters[x >> 12 & 63];
        *out++ = '=';
        *out++ = '=';
        if (left > 1)
            out[-2] = letters[x >> 6 & 63];
        if (left > 2)
            out[-1] = letters[x & 63];
    }
    to->len = n == 0 ? to->len : (size_t)(out - to->data);
    return 0;
}

static int value_of(char c)
{
    const char *at = c != '\0' ? strchr(letters, c) : NULL;
    return at != NULL ? (int)(at - letters) : -1;
}

// Returns the number of bytes that four letters stand for, or 0 if they are not base64.
static size_t read_four(const char four[4], bool last, unsigned char ret[3])
{
    size_t pads = four[3] != '=' ? 0 : four[2] != '=' ? 1 : 2;
    uint32_t x = 0;
    for (size_t i = 0; i < 4; i++) {
        int v = i < 4 - pads ? value_of(four[i]) : 0;
        if (v < 0)
            return 0;
        x = x << 6 | (uint32_t)v;
    }
    ret[0] = (unsigned char)(x >> 16);
    ret[1] = (unsigned char)(x >> 8);
    ret[2] = (unsigned char)x;
    return pads == 0 || last ? 3 - pads : 0;
}

int base64_read(struct buf *to, const char *text, size_t n)
{
    if (n % 4 != 0)
        return TUG_EDATA;
    TRY(buf_reserve(to, n / 4 * 3));
    size_t len = to->len;
    for (size_t i = 0; i < n; i += 4) {
        unsigned char three[3];
        size_t bytes = read_four(text + i, i + 4 == n, three);
        if (bytes == 0)
            return TUG_EDATA;
        memcpy(to->data + len, three, bytes);
        len += bytes;
    }
    to->len = len;
    return 0;
}
