// A growing array of bytes with a maximum: what comes from outside never grows unbounded.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_BUF_H
#define TUG_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf {
    char *data; // NULL until something was added; terminated only by buf_str
    size_t len;
    size_t cap;
    size_t max;
    bool refused; // the maximum would have been passed
};

#define BUF_INIT(max_bytes) ((struct buf){.max = (max_bytes)})

// All return 0, TUG_ENOMEM, or TUG_EDATA when the maximum would be passed: then
// nothing changed.
int buf_reserve(struct buf *b, size_t more); // room for `more` bytes behind len
int buf_add(struct buf *b, const void *bytes, size_t n);
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
int buf_json(struct buf *b, const char *text); // a string in quotes, valid whatever it is
int buf_json_number(struct buf *b, int digits, double x); // null unless it is finite
const char *buf_str(struct buf *b); // terminated; "" when empty; NULL when out of memory
void buf_clear(struct buf *b);      // keeps the memory
// After a failed call: sets *e to "WHAT is too long: more than N bytes" (TUG_EDATA), or
// to out of memory.
int buf_error(const struct buf *b, const char *what, struct err *e);
void buf_free(struct buf *b);

#endif
