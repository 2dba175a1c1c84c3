// Rows of the state of a scheduler in its journal, for both directions: one function names
// the fields of a row, and writes or reads them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_ROW_H
#define TUG_CLUSTER_ROW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

struct row {
    struct buf *to;   // NULL: the row is read
    const char *from; // n bytes are left to read
    size_t n;
    bool bad; // the bytes do not fit, or memory is out
};

static inline void row_bytes(struct row *r, void *bytes, size_t n)
{
    if (r->to != NULL) {
        r->bad |= buf_add(r->to, bytes, n) != 0;
        return;
    }
    r->bad |= n > r->n;
    if (r->bad) {
        memset(bytes, 0, n);
        return;
    }
    memcpy(bytes, r->from, n);
    r->from += n;
    r->n -= n;
}

// Writes the number, or returns the one that is read.
static inline uint64_t row_number(struct row *r, uint64_t x)
{
    row_bytes(r, &x, sizeof(x));
    return x;
}

// Writes or reads a variable of any type of integers. A number that does not fit makes
// the row bad.
#define ROW_NUMBER(row, x)                                                               \
    do {                                                                                 \
        uint64_t number_ = row_number(row, (uint64_t)(x));                               \
        (x) = (__typeof__(x))number_;                                                    \
        (row)->bad |= (uint64_t)(x) != number_;                                          \
    } while (0)

// A text, with its final 0, in `cap` bytes.
static inline void row_text(struct row *r, char *text, size_t cap)
{
    size_t n = r->to != NULL ? strnlen(text, cap - 1) : 0;
    ROW_NUMBER(r, n);
    r->bad |= n >= cap;
    if (!r->bad)
        row_bytes(r, text, n);
    text[r->bad ? 0 : n] = 0;
}

#endif
