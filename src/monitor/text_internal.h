// Numbers and names of a page as HTML.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_TEXT_INTERNAL_H
#define TUG_MONITOR_TEXT_INTERNAL_H

#include <stddef.h>

#include "base/buf.h"

enum { TEXT_MAX = 48 };

// Texts of numbers for people; "–" for NaN. All return `ret`.
const char *text_count(double x, char ret[TEXT_MAX]);   // 1,234,567
const char *text_bytes(double x, char ret[TEXT_MAX]);   // 1.2 GB
const char *text_seconds(double x, char ret[TEXT_MAX]); // 340 µs, 2.1 s, 5 min, 3.2 h
const char *text_number(double x, char ret[TEXT_MAX]);  // 0.4512
const char *text_percent(double x, char ret[TEXT_MAX]); // 97.3 %

// A document that is being written. The first error is kept, so that a writer checks once
// at its end.
struct markup {
    struct buf *to;
    int rc;
};
// Adds markup of this program; arguments %s must be of this program, too.
void markup_add(struct markup *h, const char *fmt, ...) PRINTF_LIKE(2, 3);
// Adds a name or a message from outside; markup in it becomes text.
void markup_text(struct markup *h, const char *text);

#endif
