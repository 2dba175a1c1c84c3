// tug report: writes a page of one run, or a page that compares several, from results on
// disk.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "os/json.h"
#include "report/report.h"
#include "run/about.h"
#include "train/saved/saved.h"

struct report_values {
    struct option_list runs;
    const char *out;
};

#define OPTIONS_OF struct report_values

static const struct option options[] = {
    {"runs", .group = "What to show", .required = true, LIST_AT(runs, "RUN"),
     "at most 6 runs, each one of: a page that --report has written; a file with the "
     "output of tug train or tug eval with --json; the --out directory of tug train, "
     "whose newest save has the passes and the options, but no curves of predictions"},
    {"out", .required = true, STRING_AT(out, "FILE.html"), "the page to write"},
};

const struct option_table cli_report_options = {
    .command = "report",
    .summary = "compare runs on a page",
    .usage = "RUN... --out FILE.html",
    .about = "Writes one HTML file, which needs neither scripts nor a network. For one "
             "run, the file is the page that --report writes. For several runs, the "
             "page compares their metrics and curves, and shows the options and data "
             "in which they differ. See docs/reports.md.",
    .examples =
        "tug train --data day.csv --format csv --model lr --valid 0.1 --report "
        "lr.html\n"
        "tug report lr.html fm.html --out both.html\n"
        "tug report model1 model2 --out both.html     # directories of tug train --out",
    .operands = "runs",
    CLI_OPTIONS(options),
};

static int read_directory(const char *path, json_t **ret, struct err *e)
{
    char dir[FILE_PATH_MAX];
    struct history h = {0};
    struct saved_run *run = mem_zalloc(sizeof(*run));
    if (run == NULL)
        return err_nomem(e, "a run");
    int rc = save_find(path, dir, e);
    if (rc == 0)
        rc = saved_read(run, dir, e);
    if (rc == 0)
        rc = history_load(&h, dir, e);
    json_begin();
    *ret = rc == 0 ? about_saved(run, &h, dir) : NULL;
    history_free(&h);
    saved_run_free(run);
    mem_free(run);
    return rc == 0 && *ret == NULL ? err_nomem(e, "a run") : rc;
}

static int read_run(const char *path, json_t **ret, struct err *e)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode) ? read_directory(path, ret, e)
                                                     : report_read(path, ret, e);
}

// Refuses to write over a page that is one of the runs to show, because the page may be
// all that is left of that run.
static int check_out(const struct report_values *v, struct err *e)
{
    struct stat out, run;
    TRY(report_check_file("--out", v->out, e));
    if (stat(v->out, &out) != 0)
        return 0;
    for (size_t i = 0; i < v->runs.n; i++)
        if (stat(v->runs.items[i], &run) == 0 && run.st_dev == out.st_dev &&
            run.st_ino == out.st_ino)
            return err_set(e, TUG_EUSAGE,
                           "--out: '%s' is one of the runs to show, and would be "
                           "overwritten: give another file",
                           v->out);
    return 0;
}

static int report_command(const void *values, const struct options *o, struct err *e)
{
    const struct report_values *v = values;
    struct report_run runs[REPORT_RUNS] = {0};
    (void)o;
    if (v->runs.n > REPORT_RUNS)
        return err_set(e, TUG_EUSAGE, "there are %zu runs, but a page has room for %d",
                       v->runs.n, REPORT_RUNS);
    int rc = check_out(v, e);
    for (size_t i = 0; i < v->runs.n && rc == 0; i++) {
        runs[i].name = v->runs.items[i];
        rc = read_run(runs[i].name, &runs[i].result, e);
    }
    if (rc == 0)
        rc = v->runs.n == 1 ? report_write_run(runs[0].result, v->out, e)
                            : report_write_runs(runs, v->runs.n, v->out, e);
    for (size_t i = 0; i < REPORT_RUNS; i++)
        json_decref(runs[i].result);
    return rc;
}

const struct cli_command cli_report = {&cli_report_options, sizeof(struct report_values),
                                       .run = report_command};
