// The sections of the page. A section whose facts are missing is left out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_PAGE_INTERNAL_H
#define TUG_MONITOR_PAGE_INTERNAL_H

#include "base/html.h"
#include "monitor/render_internal.h"
#include "monitor/text_internal.h"

struct page_view {
    struct page h;
    const json_t *now, *before; // `before` is NULL if no rates are known
    double seconds;             // seconds between `before` and `now`
};

void page_section(struct page_view *p, const char *title);
void page_section_end(struct page_view *p);
// Begins a table; `names` ends with NULL. A name that begins with '#' is the heading
// of a column of numbers.
void page_table(struct page_view *p, const char *const *names);
void page_table_end(struct page_view *p);
// Adds a name or a message from outside; a long one is cut.
void page_text(struct page_view *p, const char *text);
// Adds a name and a text, both written by this program, to a list of facts (<dl>).
void page_fact(struct page_view *p, const char *name, const char *text);
// Adds a sentence about the time to which `what` refers: between the facts before and now, or
// without earlier facts since the process began.
void page_window(struct page_view *p, const char *what);
void page_cell(struct page_view *p, const char *text);   // a name from outside
void page_number(struct page_view *p, const char *text); // a text of text_internal.h

void page_add_run(struct page_view *p);
void page_add_worker(struct page_view *p);
void page_add_nodes(struct page_view *p);
void page_add_partitions(struct page_view *p);
void page_add_processes(struct page_view *p);
void page_add_operations(struct page_view *p);
void page_add_tables(struct page_view *p);
void page_add_requests(struct page_view *p);
void page_add_loops(struct page_view *p);
void page_add_doors(struct page_view *p);
void page_add_staleness(struct page_view *p);
void page_add_saves(struct page_view *p);
void page_add_disks(struct page_view *p);

#endif
