// A growing array of bytes with a maximum size, so that input from outside cannot grow
// without a bound.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_BUF_H
#define TUG_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf {
    char *data; // NULL until something is added; only buf_str adds a NUL
    size_t len;
    size_t cap;
    size_t max;   // the largest `len`, in bytes
    bool refused; // an addition would have exceeded the maximum
};

#define BUF_INIT(max_bytes) ((struct buf){.max = (max_bytes)})

// The functions that return int return 0, TUG_ENOMEM, or TUG_EDATA if the buffer would
// exceed its maximum. After an error the buffer is unchanged.
int buf_reserve(struct buf *b, size_t more); // makes room for `more` bytes after len
int buf_add(struct buf *b, const void *bytes, size_t n);
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
// adds a JSON string in quotes, valid for any text
int buf_json(struct buf *b, const char *text);
// Adds x, or null if x is not finite.
int buf_json_number(struct buf *b, int digits, double x);
const char *buf_str(struct buf *b); // the data, ended by a NUL; "" if empty; NULL if
                                    // memory is short
void buf_clear(struct buf *b);      // empties the buffer but keeps the memory
// Sets *e, after a failed call, to "WHAT: too long, more than N bytes" (TUG_EDATA), or to
// an error that memory is short.
int buf_error(const struct buf *b, const char *what, struct err *e);
void buf_free(struct buf *b);
void buf_wipe(struct buf *b); // frees a secret: fills the memory with zeros first

#endif
