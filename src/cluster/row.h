// Rows of the state of a scheduler in its journal. One function for each kind of row
// names the fields, and both writes and reads the row.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_ROW_H
#define TUG_CLUSTER_ROW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

struct row {
    struct buf *to;   // the row is written here; NULL: the row is read
    const char *from; // when reading: the rest of the row, n bytes
    size_t n;
    bool bad; // the row has a wrong value or length, or memory is out
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

// Writes the number x, or reads a number and returns it.
static inline uint64_t row_number(struct row *r, uint64_t x)
{
    row_bytes(r, &x, sizeof(x));
    return x;
}

// Writes or reads a variable of any type of integers. If the number that was read does
// not fit the variable, the row is bad.
#define ROW_NUMBER(row, x)                                                               \
    do {                                                                                 \
        uint64_t number_ = row_number(row, (uint64_t)(x));                               \
        (x) = (__typeof__(x))number_;                                                    \
        (row)->bad |= (uint64_t)(x) != number_;                                          \
    } while (0)

// Writes or reads a text of at most `cap` bytes with its final 0.
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
