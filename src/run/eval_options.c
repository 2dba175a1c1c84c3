// The table of `tug eval`, with the texts of --help.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/eval_options.h"

#include "os/log.h"
#include "train/evaluate/groups.h"

#define OPTIONS_OF struct eval_values

static const struct option options[] = {
    MODEL_OPTIONS("What to evaluate",
                  "files, directories, globs in quotes, or - for standard input; .gz, "
                  ".zst and .lz4 files are decompressed"),
    {"max-bad-lines", U64_AT(model.max_bad_lines, "N", "0", 0, 0),
     "number of unreadable lines that are skipped and counted before the command "
     "gives up"},
    {"group", .group = "Output", STRING_AT(group, "COLUMN,..."),
     "also print the AUC by group (gauc), such as by user: the mean of the groups' "
     "AUCs, weighted by their examples; groups with a single class are "
     "skipped. " GROUP_COLUMNS},
    {"by", STRING_AT(by, "COLUMN,..."),
     "also print a table of the metrics for each value of the columns, the values with "
     "most examples first"},
    {"top", U64_AT(top, "N", "20", 1, 1000000000),
     "with --by: number of values to "
     "print"},
    {"importance", FLAG_AT(importance),
     "also print the importance of each column: the loss of AUC and the increase of "
     "logloss if every example gets this column's features from another, random "
     "example. The data is kept in memory"},
    {"only", STRING_AT(only, "COLUMN,..."),
     "with --importance: only these columns; b+c in the list measures b and c together"},
    {"calibration", FLAG_AT(calibration),
     "also print the mean prediction and the share of positives of each tenth of the "
     "examples, from the lowest predictions to the highest"},
    {"report", STRING_AT(report, "FILE.html"),
     "write a page about the model on this data: metrics, ROC, calibration, lift, "
     "importance of columns (if the data fits in memory). --json adds these "
     "curves to the result. See docs/reports.md"},
    {"quiet", FLAG_AT(quiet), "print only results and warnings, no notices"},
    {"log-format", CHOICE_AT(log_format, LOG_FORMATS, "text"), LOG_FORMAT_HELP},
    {"json", FLAG_AT(json), "the last line of standard output is one JSON object"},
};

const struct option_table cli_eval_options = {
    .command = "eval",
    .summary = "evaluate a saved model: AUC, logloss, copc and others",
    .usage = "--from DIR --data PATH... [options]",
    .about = "Prints these metrics: AUC (exact; ties count half); logloss; copc, the "
             "predicted clicks divided by the clicks in the data (1 is ideal); pr_auc, "
             "the average precision; and ne, the normalized entropy: logloss divided by "
             "the logloss of a model that predicts the share of positives for every "
             "example (below 1 is better than this model). With --loss squared the "
             "metrics are the root of the mean squared error (rmse) and the mean "
             "absolute error (mae). --json prints all of them. Features that the model "
             "was not trained on are ignored.",
    .examples = "tug eval --from model --data test.tsv\n"
                "tug eval --from model --data test.csv --group user_id\n"
                "tug eval --from model --data test.csv --by device,hour --top 50\n"
                "tug eval --from model --data test.csv --importance",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

int eval_options_evaluation(struct opened_model *m, const struct eval_values *v,
                            struct evaluation_options *ret, struct err *e)
{
    struct evaluation_options o = model_evaluation(m, &v->model);
    o.group = v->group;
    o.by = v->by;
    o.top = v->top;
    TRY(groups_check("--group", o.group, o.loss, e));
    TRY(groups_check("--by", o.by, o.loss, e));
    o.seed = m->run.options.model.seed;
    o.merge = m->run.options.merge[0] != '\0' ? m->run.options.merge : NULL;
    if (o.merge != NULL && (v->group != NULL || v->by != NULL))
        return err_set(e, TUG_EUSAGE,
                       "the model was trained with --merge-ids: an example is several "
                       "lines, but --group and --by need one");
    *ret = o;
    return 0;
}
