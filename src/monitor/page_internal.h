// The sections of the page. Each adds nothing if the facts have nothing for it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_PAGE_INTERNAL_H
#define TUG_MONITOR_PAGE_INTERNAL_H

#include "monitor/render_internal.h"
#include "monitor/text_internal.h"

struct page {
    struct markup h;
    const json_t *now, *before; // `before`: NULL: no rates are known
    double seconds;             // seconds between the two facts
};

void page_section(struct page *p, const char *title);
void page_section_end(struct page *p);
// Begins a table; `names` ends with NULL. A name that begins with '#' heads numbers.
void page_table(struct page *p, const char *const *names);
void page_table_end(struct page *p);
void page_cell(struct page *p, const char *text);   // a name from outside
void page_number(struct page *p, const char *text); // a text of text_internal.h

void page_add_run(struct page *p);
void page_add_nodes(struct page *p);
void page_add_partitions(struct page *p);
void page_add_processes(struct page *p);
void page_add_operations(struct page *p);
void page_add_tables(struct page *p);
void page_add_requests(struct page *p);
void page_add_loops(struct page *p);
void page_add_staleness(struct page *p);
void page_add_saves(struct page *p);
void page_add_disks(struct page *p);

#endif
