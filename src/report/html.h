// Writes HTML: texts escaped, numbers as <data value="...">. A page collects the first
// error, so that callers check once at the end.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REPORT_HTML_H
#define TUG_REPORT_HTML_H

#include <locale.h>

#include "base/buf.h"
#include "os/json.h"

enum { PAGE_MAX = 256 << 20 };

struct page {
    struct buf b;
    int rc; // the first error
    // The caller's locale, and the one with decimal points for numbers; 0: not open.
    locale_t callers, points;
};

// Appends HTML as it is, by a format for which html_text is not needed.
void html_add(struct page *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
// Appends a text, of which every character is shown as it is; NULL: nothing.
void html_text(struct page *p, const char *text);
// Begins a page with its style, and ends it. Between these calls, the numbers of this
// thread have decimal points, also where the program's locale has commas.
void html_begin(struct page *p, const char *title);
void html_end(struct page *p);

// Appends a value of the result: a number as people read it, with its exact value and its
// place in the result ("/valid/auc") as attributes; null as "none"; a text as text.
void html_value(struct page *p, const json_t *value, const char *place, ...)
    PRINTF_LIKE(3, 4);

// Writes a number as people read it: "1,234", "0.7421", "1.2e-05".
enum { HTML_NUMBER_MAX = 40 };
const char *html_number(double x, char ret[HTML_NUMBER_MAX]);

// Appends a table of an array of objects: a row each, with the members `names` (separated
// by spaces) under the headings (separated by '|'). The table is folded unless `open`.
struct html_table {
    const char *title, *names, *headings;
    bool open;
};
void html_table(struct page *p, const json_t *rows, const char *place,
                const struct html_table *t);

#endif
