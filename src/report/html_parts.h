// The parts of a report's page: its beginning and end, numbers as <data value="...">,
// tables.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REPORT_HTML_PARTS_H
#define TUG_REPORT_HTML_PARTS_H

#include "base/html.h"
#include "os/json.h"

enum { PAGE_MAX = 256 << 20 };

// Begins a page with its style, and ends it (html_open, html_close).
void html_begin(struct page *p, const char *title);
void html_end(struct page *p);

// Appends a value of the result. A number is formatted for people, with its exact value
// and its place in the result ("/valid/auc") as attributes; null becomes "none", and a
// boolean "yes" or "no"; a text is escaped.
void html_value(struct page *p, const json_t *value, const char *place, ...)
    PRINTF_LIKE(3, 4);

// Append a number of bytes, as "32.2 MB", or of seconds, as html_value does. Less than 50
// microseconds are shown as 0.
void html_bytes(struct page *p, const json_t *value, const char *place);
void html_seconds(struct page *p, const json_t *value, const char *place);

// Writes a number as people read it: "1,234", "0.7421", "1.2e-05".
const char *html_number(double x, char ret[HTML_NUMBER_MAX]);

// Appends a table with one row for each object of an array. Its columns are the members
// `names` (separated by spaces), its headings are separated by '|'. The table is folded
// unless `open`.
struct html_table {
    const char *title, *names, *headings;
    bool open;
};
void html_table(struct page *p, const json_t *rows, const char *place,
                const struct html_table *t);

#endif
