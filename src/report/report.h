// Reports: HTML files for people, with charts and without scripts, made from the JSON
// results of `tug train --json` and `tug eval --json`. A report shows one run, or
// compares several.
//
// A page shows only numbers of its result, each as <data value="...">. It also contains
// the JSON result, so that report_read can read a page.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REPORT_REPORT_H
#define TUG_REPORT_REPORT_H

#include "base/buf.h"
#include "os/json.h"

// Checks, before a run begins, that a report can be written to `path`, the value of
// `option`: the directory must be writable, and the file missing, empty, or a report.
int report_check_file(const char *option, const char *path, struct err *e);

// Writes the page of a result; an existing file is replaced atomically. Returns
// TUG_ENOMEM if `result` is NULL.
int report_write_run(const json_t *result, const char *path, struct err *e);

enum { REPORT_RUNS = 6 }; // the greatest number of runs on a page

struct report_run {
    const char *name; // the path that the user typed
    json_t *result;
};
// Writes a page that compares 2 to REPORT_RUNS runs.
int report_write_runs(const struct report_run *runs, size_t n, const char *path,
                      struct err *e);

// Reads a result from a file: a page of this program, or the output of a command with
// --json, whose last line is the result. TUG_EDATA if it is neither.
int report_read(const char *path, json_t **ret, struct err *e);

#endif
