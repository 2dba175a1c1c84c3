// Words and numbers of an optimizer's text.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVSTORE_WORDS_H
#define TUG_DOORS_KVSTORE_WORDS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Returns whether `name` is one of the words in a list with spaces between them.
static inline bool kvs_among(const char *words, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = words; *at != 0; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        if (len == n && memcmp(at, name, n) == 0)
            return true;
        at += len;
    }
    return false;
}

// Reads the n bytes as a number. Returns false if they are not a finite number.
static inline bool kvs_number(const char *text, size_t n, double *ret)
{
    char copy[64], *end;
    if (n == 0 || n >= sizeof(copy))
        return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    *ret = strtod(copy, &end);
    return *end == 0 && isfinite(*ret);
}

#endif
