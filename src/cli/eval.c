// tug eval: metrics of a saved model on data.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "cli/result.h"
#include "train/group_table.h"
#include "train/guard.h"
#include "train/importance.h"

struct eval_values {
    struct model_values model;
    const char *group, *by, *only;
    uint64_t top;
    bool importance, json;
};

#define AT(field) .offset = offsetof(struct eval_values, field)

static const struct option options[] = {
    MODEL_OPTIONS("What to evaluate",
                  "files, directories, globs in quotes, or - for standard input; .gz, "
                  ".zst and .lz4 files are decompressed"),
    {"max-bad-lines", U64_AT(model.max_bad_lines, "N", "0", 0, 0),
     "how many lines that cannot be read are skipped and counted before the command "
     "gives up"},
    {"group", .group = "Output", STRING_AT(group, "COLUMN,..."),
     "also the AUC by group (gauc), such as by user: the mean of the groups' AUC by "
     "their "
     "examples, without groups that have labels of one kind. " GROUP_COLUMNS},
    {"by", STRING_AT(by, "COLUMN,..."),
     "also a table of the metrics for each value of the columns, the values with most "
     "examples first"},
    {"top", U64_AT(top, "N", "20", 1, 1000000000), "how many values --by prints"},
    {"importance", FLAG_AT(importance),
     "also print what each column is worth: the AUC lost and the logloss gained when "
     "every example has that column's features of another, random example. Holds the "
     "data in memory"},
    {"only", STRING_AT(only, "COLUMN,..."),
     "with --importance: only of these columns, and of several together, as in a,b+c"},
    {"json", FLAG_AT(json), "the last line of standard output is one JSON object"},
};

const struct option_table cli_eval_options = {
    .command = "eval",
    .summary = "evaluate a saved model: AUC, logloss, copc and others",
    .usage = "--from DIR --data PATH... [options]",
    .about = "Prints the AUC (exact; ties count half), the logloss, copc: clicks that "
             "the model predicts over clicks that there were, so that 1 is right, the "
             "area below the curve of precision and recall (pr_auc: average precision), "
             "and ne: the normalized entropy, logloss over that of predicting the share "
             "of positives for every example, so that below 1 is better than a guess. "
             "With --loss squared it is the root of the mean squared error (rmse) and "
             "the mean absolute error (mae). --json has all of them. Features that the "
             "model was not trained on count as absent.",
    .examples = "tug eval --from model --data test.tsv\n"
                "tug eval --from model --data test.csv --group user_id\n"
                "tug eval --from model --data test.csv --by device,hour --top 50\n"
                "tug eval --from model --data test.csv --importance",
    CLI_OPTIONS(options),
};

static int evaluate_opened(struct opened_model *m, const struct eval_values *v,
                           struct group_table *table, struct importance *lines,
                           struct err *e)
{
    double start = clock_seconds();
    TRY(model_open(m, &v->model, true, e));
    struct evaluation_options o = model_evaluation(m, &v->model);
    o.group = v->group;
    o.by = v->by;
    o.top = v->top;
    o.table = table;
    TRY(groups_check("--group", o.group, o.loss, e));
    TRY(groups_check("--by", o.by, o.loss, e));
    struct metrics metrics;
    double opened = clock_seconds();
    o.seed = m->run.options.model.seed;
    o.merge = m->run.options.merge[0] != '\0' ? m->run.options.merge : NULL;
    if (o.merge != NULL && (v->group != NULL || v->by != NULL))
        return err_set(e, TUG_EUSAGE,
                       "the model was trained with --merge-ids: its examples are several "
                       "lines, and --group and --by are of one");
    TRY(v->importance ? importance(&o, v->only, lines, &metrics, e)
                      : evaluate(&o, &metrics, e));
    guard_columns(m->reader);
    guard_scores(&metrics, "this data", true);
    struct table_stats s = table_stats(m->parameters.sparse);
    struct result r = {
        .command = "eval",
        .model = m->run.options.model.ops->name,
        .format = m->format,
        .examples = metrics.examples,
        .epochs = m->run.at.epoch,
        .tested = true,
        .test = metrics,
        .read_seconds = opened - start,
        .test_seconds = clock_seconds() - opened,
        .total_seconds = clock_seconds() - start,
        .examples_per_second = (double)NAN,
        .keys = s.rows,
        .bytes_per_key = s.rows > 0
                             ? (double)(s.row_bytes + s.index_bytes) / (double)s.rows
                             : 0,
        .threads = team_size(m->team),
        .seed = m->run.options.model.seed,
        .out = m->dir,
        .skipped_lines = m->bad_lines,
        .by = v->by,
        .table = table,
        .importance = v->importance ? lines : NULL,
    };
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
