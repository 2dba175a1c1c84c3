// See first_lines.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/input/first_lines.h"

#include <string.h>

// Removes the text behind the last whole line.
static void first_lines_cut(struct first_lines *f)
{
    f->to->len -= f->bytes - f->whole;
    f->bytes = f->whole;
}

int first_lines_add(struct first_lines *f, const char *text, size_t n, bool *ret_more)
{
    size_t room = f->most - f->bytes, part = n < room ? n : room, before = f->bytes;
    *ret_more = false;
    if (n == 0) {
        if (f->seen > 0 && f->whole + 1 == f->bytes)
            first_lines_cut(f);
        return 0;
    }
    TRY(buf_add(f->to, text, part));
    f->bytes += part;
    for (const char *p = text, *end = text + part;
         f->seen < f->lines && (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++) {
        f->whole = before + (size_t)(p - text);
        f->seen++;
    }
    *ret_more = f->seen < f->lines && f->bytes < f->most;
    if (*ret_more)
        return 0;
    if (f->seen == 0)
        return TUG_EDATA;
    first_lines_cut(f);
    return 0;
}
