// Base64 (RFC 4648, section 4), the form of bytes in etcd's JSON.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <limits.h>
#include <openssl/evp.h>
#include <string.h>

#include "etcd/etcd_internal.h"

int base64_add(struct buf *to, const void *bytes, size_t n)
{
    assert(n <= ETCD_PART_MAX + 1);
    TRY(buf_reserve(to, (n + 2) / 3 * 4 + 1)); // EVP_EncodeBlock writes a final 0
    unsigned char *at = (unsigned char *)to->data + to->len;
    to->len += (size_t)EVP_EncodeBlock(at, bytes, (int)n);
    return 0;
}

// EVP_DecodeBlock accepts '=' at any place and skips blanks at both ends. So this function
// checks the length of the text and the places of '='.
int base64_read(struct buf *to, const char *text, size_t n)
{
    const char *pad = n > 0 ? memchr(text, '=', n) : NULL;
    size_t pads = pad != NULL ? n - (size_t)(pad - text) : 0;
    if (n % 4 != 0 || n > INT_MAX || pads > 2 || (pads == 2 && text[n - 1] != '='))
        return TUG_EDATA;
    TRY(buf_reserve(to, n / 4 * 3));
    unsigned char *at = (unsigned char *)to->data + to->len;
    if (n > 0 &&
        EVP_DecodeBlock(at, (const unsigned char *)text, (int)n) != (int)(n / 4 * 3))
        return TUG_EDATA;
    to->len += n / 4 * 3 - pads;
    return 0;
}
