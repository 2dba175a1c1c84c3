// Writes HTML, with texts escaped. A page collects the first error, so that callers check
// once at the end.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_HTML_H
#define TUG_BASE_HTML_H

#include <locale.h>

#include "base/buf.h"

struct page {
    struct buf b;
    int rc; // code of the first error; 0: none
    // The caller's locale, and the locale that writes numbers with decimal points; 0: not
    // open.
    locale_t callers, points;
};

// Begins and ends the writing. Between these calls, the numbers of this thread have
// decimal points, also where the program's locale has commas. The text stays in p->b,
// which the caller frees.
void html_open(struct page *p, size_t max);
void html_close(struct page *p);

// Appends HTML by a printf format, without escaping (html_text escapes).
void html_add(struct page *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
// Appends a text so that each of its characters is shown as it is. Does nothing for NULL.
void html_text(struct page *p, const char *text);

// Writes a whole number with its digits grouped by threes: "1,234". Returns `ret`.
enum { HTML_NUMBER_MAX = 40 };
const char *html_count(double x, char ret[HTML_NUMBER_MAX]);

#endif
