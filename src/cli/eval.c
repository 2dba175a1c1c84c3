// tug eval: metrics of a saved model on data.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/nodes/node_options.h"
#include "cli/result.h"
#include "os/clock.h"
#include "os/log.h"
#include "report/report.h"
#include "run/about.h"
#include "train/evaluate/guard.h"

static int eval_print(const struct result *r, const struct eval_values *v,
                      const struct options *o, const struct report_data *report_data,
                      struct err *e)
{
    json_begin();
    json_t *all = v->json || v->report != NULL ? result_to_json(r) : NULL;
    int rc = 0;
    if (v->report != NULL) {
        about_add_eval(all, r, o, v, report_data);
        rc = report_write_run(all, v->report, e);
    }
    if (rc == 0 && v->json)
        return json_print(all, 0, e);
    json_decref(all);
    return rc == 0 ? result_print_metrics(r) : rc;
}

static int evaluate_opened(struct opened_model *m, const struct eval_values *v,
                           const struct options *options,
                           const struct report_data *report_data,
                           struct eval_tables *tables, struct err *e)
{
    double start = clock_seconds();
    TRY(model_open(m, &v->model, true, e));
    struct evaluation_options o;
    TRY(eval_options_evaluation(m, v, &o, e));
    struct metrics metrics[MODEL_MAX_TASKS] = {0};
    double opened = clock_seconds();
    TRY(model_read_error(m, &v->model, eval_tables_find(&o, v, tables, metrics, e), e));
    guard_columns(m->reader);
    guard_scores(&metrics[0], "this data", true);
    struct table_stats s = table_stats(m->parameters.sparse);
    uint64_t fixed;
    double bytes = table_key_bytes(s.rows, s.row_bytes + s.index_bytes,
                                   table_options(m->parameters.sparse)->width, &fixed);
    struct result r = {
        .command = "eval",
        .model = m->run.options.model.ops->name,
        .format = m->format,
        .examples = metrics[0].examples,
        // the number of the pass whose model was kept
        .epochs = m->run.has_best ? m->run.best_epoch : m->run.at.epoch,
        .tested = true,
        .read_seconds = opened - start,
        .test_seconds = clock_seconds() - opened,
        .total_seconds = clock_seconds() - start,
        .examples_per_second = (double)NAN,
        .keys = s.rows,
        .bytes_per_key = bytes,
        .fixed_bytes = fixed,
        .threads = team_size(m->team),
        .seed = m->run.options.model.seed,
        .out = m->dir,
        .skipped_lines = m->bad_lines,
        .tables = tables,
    };
    memcpy(r.tests, metrics, sizeof(metrics));
    result_name_labels(&r, reader_schema(m->reader));
    return eval_print(&r, v, options, report_data, e);
}

static int check_report(const struct eval_values *v, struct err *e)
{
    struct data_files read = {0};
    data_files_add_seen(&read, v->model.data.items, v->model.data.n);
    int rc = report_data_check_file(v->report, &read, e);
    data_files_free(&read);
    return rc;
}

static int eval_command(const void *values, const struct options *o, struct err *e)
{
    const struct eval_values *v = values;
    TRY(eval_tables_check(v, o, e));
    if (v->quiet)
        log_set_level(LOG_WARN);
    struct eval_tables tables = {0};
    struct opened_model *m = mem_zalloc(sizeof(*m));
    struct report_data *report_data = mem_zalloc(sizeof(*report_data));
    if (m == NULL || report_data == NULL) {
        mem_free(m);
        mem_free(report_data);
        return err_nomem(e, "a model");
    }
    node_catch_signals();
    m->interrupted = &node_interrupted;
    int rc = check_report(v, e);
    report_data_begin(report_data);
    if (rc == 0)
        rc = evaluate_opened(m, v, o, report_data, &tables, e);
    report_data_end(report_data);
    report_data_free(report_data);
    mem_free(report_data);
    eval_tables_free(&tables);
    model_close(m);
    mem_free(m);
    return rc;
}

const struct cli_command cli_eval = {&cli_eval_options, sizeof(struct eval_values),
                                     .run = eval_command};
