// The page of one run.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "report/report_internal.h"

static const char *member_text(const json_t *o, const char *name)
{
    const char *t = json_string_value(json_object_get(o, name));
    return t != NULL ? t : "";
}

static void tile(struct page *p, const json_t *m, const char *base, const char *name,
                 const char *what)
{
    const json_t *v = json_object_get(m, name);
    if (!json_is_number(v))
        return;
    html_add(p, "<div class=\"tile\"><b>");
    html_value(p, v, "%s/%s", base, name);
    html_add(p, "</b><span>%s</span></div>\n", what);
}

// Shows the most important metrics as tiles. `m` is the result, or its member "valid";
// `base` is the place of `m` in the result.
static void tiles(struct page *p, const json_t *m, const char *base)
{
    bool ranks = json_is_number(json_object_get(m, "auc"));
    html_add(p, "<div class=\"tiles\">\n");
    tile(p, m, base, "auc", "AUC: 0.5 guesses, 1 ranks perfectly");
    tile(p, m, base, "logloss", ranks ? "logloss, lower is better" : "loss");
    tile(p, m, base, "ne", "logloss / that of a constant guess (ne)");
    tile(p, m, base, "copc", "predicted / observed (copc), 1 is ideal");
    tile(p, m, base, "pr_auc", "average precision");
    if (!ranks)
        tile(p, m, base, "rmse", "root mean squared error");
    if (!ranks)
        tile(p, m, base, "mae", "mean absolute error");
    tile(p, m, base, "gauc", "AUC within groups (gauc)");
    html_add(p, "</div>\n");
}

// Appends "Trained on 900 examples, validated on 100, tested on 200."
static void data_sentence(struct page *p, const json_t *result)
{
    const json_t *data = json_object_get(result, "data");
    html_add(p, "<p class=\"soft\">");
    for (size_t i = 0; i < json_array_size(data); i++) {
        const json_t *one = json_array_get(data, i);
        const char *use = member_text(one, "use");
        bool trains = strcmp(member_text(result, "command"), "train") == 0;
        html_add(p, "%s%s ", i > 0 ? ", " : "",
                 strcmp(use, "train") == 0   ? "trained on"
                 : strcmp(use, "valid") == 0 ? "validated on"
                 : trains                    ? "tested on"
                                             : "evaluated on");
        html_value(p, json_object_get(one, "examples"), "/data/%zu/examples", i);
    }
    html_add(p, "%smodel <b>", json_array_size(data) > 0 ? " examples; " : "");
    html_text(p, member_text(result, "model"));
    html_add(p, "</b>");
    if (json_is_number(json_object_get(result, "keys"))) {
        html_add(p, ", ");
        html_value(p, json_object_get(result, "keys"), "/keys");
        html_add(p, json_integer_value(json_object_get(result, "held_out")) > 0
                        ? " features, those of validation included"
                        : " features");
    }
    html_add(p, "</p>\n");
}

// Shows the metrics of the labels after the first one. `place` is the place of the member
// "labels" in the result.
static void labels(struct page *p, const json_t *m, const char *place)
{
    const char *name;
    const json_t *all = json_object_get(m, "labels");
    for (void *at = json_object_iter((json_t *)(uintptr_t)all); at != NULL;
         at = json_object_iter_next((json_t *)(uintptr_t)all, at)) {
        char base[256];
        name = json_object_iter_key(at);
        snprintf(base, sizeof(base), "%s/%s", place, name);
        html_add(p, "<p class=\"soft\">Label <b>");
        html_text(p, name);
        html_add(p, "</b></p>\n");
        tiles(p, json_object_iter_value(at), base);
    }
}

// Shows the metrics of a cross-validation, averaged over its folds.
static void folds(struct page *p, const json_t *cv)
{
    html_add(p, "<p>Means over ");
    html_value(p, json_object_get(cv, "folds"), "/cv/folds");
    html_add(p, " parts; the loss is smallest after pass ");
    html_value(p, json_object_get(cv, "best"), "/cv/best");
    html_add(p, ".</p>\n");
    html_table(p, json_object_get(cv, "passes"), "/cv/passes",
               &(struct html_table){"Passes",
                                    "pass loss loss_deviation auc auc_deviation",
                                    "pass|loss|deviation|AUC|deviation", true});
}

static void head(struct page *p, const json_t *result)
{
    const char *command = member_text(result, "command"), *of = "the data";
    const json_t *valid = json_object_get(result, "valid");
    bool trains = strcmp(command, "train") == 0;
    bool tested = json_is_number(json_object_get(result, "logloss"));
    html_add(p, "<h1>tug ");
    html_text(p, command);
    html_add(p, "</h1>\n");
    data_sentence(p, result);
    if (trains)
        of = "test data";
    if (tested) {
        html_add(p, "<h2>On %s</h2>\n", of);
        tiles(p, result, "");
        labels(p, result, "/labels");
    }
    if (json_is_object(valid)) {
        html_add(p, "<h2>On validation data, after pass ");
        html_value(p, json_object_get(valid, "epoch"), "/valid/epoch");
        html_add(p, report_is_interrupted(result) ? ", the best so far</h2>\n"
                                                  : ", which is kept</h2>\n");
        tiles(p, valid, "/valid");
        labels(p, valid, "/valid/labels");
    }
    const json_t *cv = json_object_get(result, "cv");
    if (cv != NULL)
        folds(p, cv);
    else if (!tested && valid == NULL)
        html_add(p, "<p>The run had neither test nor validation data (--test, --valid), "
                    "so there is no metric of data that the model has not learnt from."
                    "</p>\n");
}

static void warnings(struct page *p, const json_t *run)
{
    const json_t *all = json_object_get(run, "warnings");
    for (size_t i = 0; i < json_array_size(all); i++) {
        html_add(p, "<div class=\"warn\"><p>Warning: ");
        html_text(p, json_string_value(json_array_get(all, i)));
        html_add(p, "</p></div>\n");
    }
}

static void training(struct page *p, const struct report_run *run)
{
    const json_t *history = json_object_get(run->result, "history");
    if (json_array_size(history) == 0)
        return;
    html_add(p, "<h2>Training</h2>\n<div class=\"grid\">\n");
    report_training_charts(p, run, 1);
    html_add(p, "</div>\n");
    html_table(
        p, history, "/history",
        &(struct html_table){
            "Passes",
            "pass examples loss auc valid/examples valid/loss valid/auc seconds best",
            "pass|examples|loss|AUC|validation examples|validation loss|"
            "validation AUC|seconds, with reading and validation|better than before",
            .open = json_array_size(history) <= 12});
    html_table(p, json_object_get(run->result, "course"), "/course",
               &(struct html_table){"Points within passes",
                                    "pass examples loss auc window_loss window_auc",
                                    "pass|examples|loss since the pass began|AUC|loss "
                                    "since the previous point|AUC",
                                    false});
}

static void scores(struct page *p, const struct report_run *run)
{
    const json_t *r = run->result;
    const char *of = member_text(r, "curves_of");
    if (of[0] == '\0')
        return;
    html_add(p, "<h2>Predictions on %s</h2>\n<div class=\"grid\">\n",
             strcmp(of, "valid") == 0 ? "validation data" : "test data");
    report_score_charts(p, run, 1);
    html_add(p, "</div>\n");
    html_table(p, json_object_get(r, "calibration"), "/calibration",
               &(struct html_table){
                   "Calibration, by tenths of the examples",
                   "examples weight from to predicted observed low high",
                   "examples|weight|lowest prediction|highest|mean prediction|share of "
                   "positives|95 % from|to",
                   false});
    html_table(p, json_object_get(r, "lift"), "/lift",
               &(struct html_table){"Lift, highest predictions first",
                                    "examples positives observed lift captured",
                                    "examples|positives|share of positives|lift|share of "
                                    "all positives so far",
                                    false});
    html_table(p, json_object_get(r, "scores"), "/scores",
               &(struct html_table){"Histogram of predictions",
                                    "from to negatives positives",
                                    "from|to|negatives|positives", false});
    html_table(p, json_object_get(r, "roc"), "/roc",
               &(struct html_table){"ROC", "0 1",
                                    "false positive rate|true positive "
                                    "rate",
                                    false});
    html_table(
        p, json_object_get(r, "precision_recall"), "/precision_recall",
        &(struct html_table){"Precision and recall", "0 1", "recall|precision", false});
}

// Shows the table of --by.
static void groups(struct page *p, const json_t *result)
{
    const json_t *by = json_object_get(result, "by");
    if (by == NULL)
        return;
    html_add(p, "<h2>By ");
    html_text(p, member_text(by, "columns"));
    html_add(p, "</h2>\n");
    html_add(p, "<p class=\"soft\">There are ");
    html_value(p, json_object_get(by, "values"), "/by/values");
    html_add(p, " values.</p>\n");
    html_table(p, json_object_get(by, "table"), "/by/table",
               &(struct html_table){"Values with most examples",
                                    "value examples positives auc logloss copc",
                                    "value|examples|positives|AUC|logloss|predicted / "
                                    "observed",
                                    true});
}

static double importance_of(const json_t *line)
{
    const json_t *auc = json_object_get(line, "auc_drop");
    return json_number_value(json_is_number(auc) ? auc
                                                 : json_object_get(line, "logloss_rise"));
}

static void columns(struct page *p, const json_t *result)
{
    const json_t *all = json_object_get(result, "importance");
    if (json_array_size(all) == 0)
        return;
    double most = importance_of(json_array_get(all, 0));
    bool ranks = json_is_number(json_object_get(json_array_get(all, 0), "auc_drop"));
    html_add(p,
             "<h2>Importance of columns</h2>\n<p class=\"soft\">%s if every example gets "
             "the column's values of another, random example. A value is unknown if the "
             "model has not learnt it.</p>\n<div class=\"card "
             "scroll\"><table><thead><tr><th>column</th><th>%s</th><th></th><th>%s</"
             "th><th>unknown values</th></tr></thead><tbody>\n",
             ranks ? "The fall of AUC and the rise of logloss" : "The rise of the loss",
             ranks ? "AUC lost" : "", ranks ? "rise of logloss" : "rise of the loss");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        double share = most > 0 ? fmax(0, importance_of(one) / most) : 0;
        html_add(p, "<tr><td class=\"text\">");
        html_text(p, member_text(one, "column"));
        html_add(p, "</td><td>");
        html_value(p, json_object_get(one, "auc_drop"), "/importance/%zu/auc_drop", i);
        html_add(p,
                 "</td><td class=\"text\"><span class=\"share\" style=\"width:%.0fpx\">"
                 "</span></td><td>",
                 90 * fmin(1, share));
        html_value(p, json_object_get(one, "logloss_rise"),
                   "/importance/%zu/logloss_rise", i);
        html_add(p, "</td><td>");
        html_value(p, json_object_get(one, "unknown"), "/importance/%zu/unknown", i);
        html_add(p, "</td></tr>\n");
    }
    html_add(p, "</tbody></table></div>\n");
}

// Shows a number in bytes if its place ends with "_bytes", in seconds if its place begins
// with "/seconds/", and else without a unit.
static void show(struct page *p, const json_t *v, const char *where)
{
    size_t n = strlen(where);
    if (n > 6 && strcmp(where + n - 6, "_bytes") == 0)
        html_bytes(p, v, where);
    else if (strncmp(where, "/seconds/", 9) == 0)
        html_seconds(p, v, where);
    else
        html_value(p, v, "%s", where);
}

// Returns whether a member with this name counts processes of a cluster. In a run of one
// process the count is 0 and is not shown.
static bool n_of_others(const char *name)
{
    return strcmp(name, "workers") == 0 || strcmp(name, "servers") == 0;
}

// Appends a table with a row for each of the object's members `names` that has a value.
// `headings` has the headings of the rows.
static void members(struct page *p, const json_t *o, const char *place, const char *names,
                    const char *headings)
{
    char name[64];
    html_add(p, "<table><tbody>\n");
    while (*names != '\0') {
        size_t n = strcspn(names, " "), h = strcspn(headings, "|");
        snprintf(name, sizeof(name), "%.*s", (int)n, names);
        const json_t *v = json_object_get(o, name);
        const char *words = json_string_value(v);
        bool alone = n_of_others(name) && json_integer_value(v) == 0;
        if (v != NULL && !json_is_null(v) && !alone &&
            (words == NULL || words[0] != '\0')) {
            char where[128];
            snprintf(where, sizeof(where), "%s/%s", place, name);
            html_add(p, "<tr><td>%.*s</td><td>", (int)h, headings);
            show(p, v, where);
            html_add(p, "</td></tr>\n");
        }
        names += n + (names[n] == ' ');
        headings += h + (headings[h] == '|');
    }
    html_add(p, "</tbody></table>\n");
}

// Shows the command that repeats the run, and the directory in which it was given. The command
// needs another --out, because a new run does not write to a directory that has a save.
static void repeat(struct page *p, const json_t *result, const json_t *run)
{
    const char *directory = member_text(run, "directory");
    json_int_t servers = json_integer_value(json_object_get(result, "servers")),
               workers = json_integer_value(json_object_get(result, "workers"));
    html_add(p, "<p>This command");
    if (*directory != '\0') {
        html_add(p, ", in the directory <b>");
        html_text(p, directory);
        html_add(p, "</b>,");
    }
    html_add(p, " repeats it");
    if (servers > 0)
        html_add(p,
                 ", on a cluster behind 'tug launch --servers %lld --workers %lld --' in "
                 "place of 'tug'",
                 (long long)servers, (long long)workers);
    if (*member_text(result, "out") != '\0')
        html_add(p, ", with another directory for --out");
    html_add(p, ":</p>\n<pre>");
    html_text(p, member_text(run, "command"));
    html_add(p, "</pre>\n");
}

#define MORE_HEADINGS                                                                    \
    "|bytes of a feature|further bytes of the table|data in memory|most memory|threads|" \
    "workers|servers|seed|saved in|examples a second|known share of features"

static void about(struct page *p, const json_t *result)
{
    const json_t *run = json_object_get(result, "run");
    bool trains = strcmp(member_text(result, "command"), "train") == 0;
    html_add(p, "<h2>The run</h2>\n");
    if (json_is_string(json_object_get(run, "command")))
        repeat(p, result, run);
    html_table(p, json_object_get(result, "data"), "/data",
               &(struct html_table){"Data", "use files examples positives",
                                    "use|files|examples|positives", .open = true});
    bool saved = json_is_true(json_object_get(run, "of_save"));
    html_table(p, json_object_get(run, "options"), "/run/options",
               &(struct html_table){saved ? "Options that the model depends on"
                                          : "Options that differ from their defaults",
                                    "name value default from",
                                    "option|value|default|given by", !saved});
    html_add(p, "<div class=\"grid\">\n<div class=\"card scroll\">");
    members(p, result, "",
            "model format examples held_out epochs skipped_lines keys bytes_per_key "
            "fixed_bytes data_bytes peak_rss_bytes threads workers servers seed out "
            "examples_per_second known_features",
            trains ? "model|format|examples of a pass|held out for validation|passes|"
                     "skipped lines|features" MORE_HEADINGS
                   : "model|format|examples|held out|passes of the saved model|skipped "
                     "lines|features of the saved model" MORE_HEADINGS);
    html_add(p, "</div>\n<div class=\"card scroll\">");
    members(p, json_object_get(result, "seconds"), "/seconds",
            "read train wait valid save test other total",
            "seconds of reading|training|of these waiting for servers|validation|saving|"
            "testing|other|in all");
    members(p, run, "/run", "version kernels cpu cores host began",
            "tug|vector instructions|CPU|cores|host|began");
    html_add(p, "</div>\n</div>\n");
}

static void document(struct page *p, const json_t *result)
{
    char *text = json_dumps(result, JSON_INDENT(1));
    if (text == NULL && p->rc == 0)
        p->rc = TUG_ENOMEM;
    html_add(p, "<details><summary>The result as JSON, as --json prints "
                "it</summary>" REPORT_RESULT);
    html_text(p, text);
    html_add(p, "</pre></details>\n");
    mem_free(text);
}

int report_write_run(const json_t *result, const char *path, struct err *e)
{
    struct page p;
    char title[128];
    if (result == NULL)
        return err_nomem(e, "a report");
    struct report_run run = {.name = "", .result = (json_t *)(uintptr_t)result};
    snprintf(title, sizeof(title), "tug %s: %s", member_text(result, "command"),
             member_text(result, "model"));
    html_begin(&p, title);
    head(&p, result);
    warnings(&p, json_object_get(result, "run"));
    training(&p, &run);
    scores(&p, &run);
    groups(&p, result);
    columns(&p, result);
    about(&p, result);
    document(&p, result);
    return report_page_write(&p, path, e);
}
