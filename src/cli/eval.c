// tug eval: metrics of a saved model on data.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/result.h"
#include "run/eval_options.h"
#include "train/group_table.h"
#include "train/guard.h"
#include "train/importance.h"

static int evaluate_opened(struct opened_model *m, const struct eval_values *v,
                           struct group_table *table, struct importance *lines,
                           struct err *e)
{
    double start = clock_seconds();
    TRY(model_open(m, &v->model, true, e));
    struct evaluation_options o;
    TRY(eval_options_evaluation(m, v, &o, e));
    o.table = table;
    struct metrics metrics[MODEL_MAX_TASKS] = {0};
    double opened = clock_seconds();
    TRY(v->importance ? importance(&o, v->only, lines, metrics, e)
                      : evaluate(&o, metrics, e));
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
        .epochs = m->run.has_best ? m->run.best_epoch : m->run.at.epoch, // of the model
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
        .by = v->by,
        .table = table,
        .importance = v->importance ? lines : NULL,
    };
    memcpy(r.tests, metrics, sizeof(metrics));
    result_name_labels(&r, reader_schema(m->reader));
    return v->json ? result_print_json(&r, e) : result_print_metrics(&r);
}

static int eval_command(const void *values, const struct options *o, struct err *e)
{
    const struct eval_values *v = values;
    if (v->by == NULL && options_given(o, "top"))
        return err_set(e, TUG_EUSAGE,
                       "--top is of no use without --by COLUMN, whose table it bounds");
    if (v->only != NULL && !v->importance)
        return err_set(
            e, TUG_EUSAGE,
            "--only is of no use without --importance, whose columns it names");
    if (v->importance && (v->group != NULL || v->by != NULL))
        return err_set(e, TUG_EUSAGE,
                       "--importance goes without --group and --by: ask for them apart");
    struct group_table table = {0};
    struct importance lines = {0};
    struct opened_model *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(e, "a model");
    int rc = evaluate_opened(m, v, &table, &lines, e);
    importance_free(&lines);
    group_table_free(&table);
    model_close(m);
    mem_free(m);
    return rc;
}

const struct cli_command cli_eval = {&cli_eval_options, sizeof(struct eval_values),
                                     .run = eval_command};
