// Reports: the JSON result of a run (`tug train --json`, `tug eval --json`) as one HTML
// file for people, with charts and without scripts; and several runs beside each other.
//
// A page shows only numbers of its result, each as <data value="...">, and carries the
// result itself, so that a page can be read again.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REPORT_REPORT_H
#define TUG_REPORT_REPORT_H

#include "base/buf.h"
#include "os/json.h"

// Checks before the work that a report can be written to `path`, which `option` names:
// that the directory is writable, and that the file is missing, empty, or a report.
int report_check_file(const char *option, const char *path, struct err *e);

// Writes the page of a result; an existing file is replaced at once. Returns TUG_ENOMEM
// if `result` is NULL.
int report_write_run(const json_t *result, const char *path, struct err *e);

enum { REPORT_RUNS = 6 }; // the greatest number of runs on a page

struct report_run {
    const char *name; // as the user named it
    json_t *result;
};
// Writes a page with 2 to REPORT_RUNS runs.
int report_write_runs(const struct report_run *runs, size_t n, const char *path,
                      struct err *e);

// Reads a result from a file: a page of this program, or the output of a command with
// --json, whose last line is the result. TUG_EDATA if it is neither.
int report_read(const char *path, json_t **ret, struct err *e);

#endif
