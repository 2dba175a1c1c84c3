// Declarations shared by the files of src/report.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REPORT_REPORT_INTERNAL_H
#define TUG_REPORT_REPORT_INTERNAL_H

#include "report/report.h"
#include "report/svg.h"

// The first lines of each page, and the markup before its JSON result.
#define REPORT_BEGIN "<!DOCTYPE html>\n<!-- tug report -->\n"
#define REPORT_RESULT "<pre id=\"result\">"

enum { REPORT_SERIES = REPORT_RUNS + 2 };

// Writes a finished page, and frees it.
int report_page_write(struct page *p, const char *path, struct err *e);

// Whether the result is of a run that was interrupted, and whose best pass may still come.
static inline bool report_is_interrupted(const json_t *result)
{
    return json_is_true(json_object_get(result, "interrupted"));
}

// Append charts of training and of scores; those without data are left out.
void report_training_charts(struct page *page, const struct report_run *runs, size_t n);
void report_score_charts(struct page *page, const struct report_run *runs, size_t n);

#endif
