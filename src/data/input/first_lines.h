// Collects the first lines of a text that arrives in parts: as many whole lines as are
// wanted and fit into a number of bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_INPUT_FIRST_LINES_H
#define TUG_DATA_INPUT_FIRST_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct first_lines {
    // The wanted number of lines, and the limit on their bytes.
    size_t lines, most;
    struct buf *to;     // receives the lines, without the last newline
    size_t bytes, seen; // numbers of bytes and newlines that were taken so far
    size_t whole;       // number of bytes before the last newline
};

// Adds the next part of the text; n = 0 at its end. Sets *ret_more if more text is
// wanted. Returns TUG_EDATA if the first line is too long; may return TUG_ENOMEM.
int first_lines_add(struct first_lines *f, const char *text, size_t n, bool *ret_more);

#endif
