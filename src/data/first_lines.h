// The first lines of a text that comes in parts, wherever these end: as many whole lines
// as are wanted and fit into so many bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FIRST_LINES_H
#define TUG_DATA_FIRST_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct first_lines {
    size_t lines, most; // that are wanted; bytes that there is room for
    struct buf *to;     // the last line's newline is left out
    size_t bytes, seen; // taken so far; newlines in them
    size_t whole;       // bytes before the last newline
};

// The next part; n = 0: the text is over. *ret_more: others are wanted.
// TUG_EDATA: the first line is longer than the room for it; TUG_ENOMEM.
int first_lines_add(struct first_lines *f, const char *text, size_t n, bool *ret_more);

#endif
