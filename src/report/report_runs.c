// The page that compares runs: their metrics, the options and data in which they differ,
// and charts with the curves of all runs.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "report/report_internal.h"

struct runs {
    struct page p;
    const struct report_run *run;
    size_t n;
};

// Returns the value at a place such as "/valid/auc" in a result; NULL if it is missing.
static const json_t *find(const json_t *o, const char *place)
{
    char name[64];
    for (const char *at = place; *at == '/' && o != NULL;) {
        size_t n = strcspn(at + 1, "/");
        snprintf(name, sizeof(name), "%.*s", (int)n, at + 1);
        o = json_object_get(o, name);
        at += n + 1;
    }
    return o;
}

// Begins a table. Its headings are `first` and the names of the runs; `numbers`: the
// columns below the names contain numbers, not texts.
static void heads(struct runs *r, const char *first, bool numbers)
{
    html_add(&r->p, "<div class=\"scroll\"><table><thead><tr><th class=\"text\">%s</th>",
             first);
    for (size_t i = 0; i < r->n; i++) {
        html_add(&r->p, numbers ? "<th>" : "<th class=\"text\">");
        html_text(&r->p, r->run[i].name);
        html_add(&r->p, "</th>");
    }
    html_add(&r->p, "</tr></thead><tbody>\n");
}

static void tail(struct runs *r)
{
    html_add(&r->p, "</tbody></table></div>\n");
}

// Appends a row with each run's value at `place`, unless no run has a value there.
static void metric_row(struct runs *r, const char *what, const char *place)
{
    bool any = false;
    for (size_t i = 0; i < r->n; i++) {
        const json_t *v = find(r->run[i].result, place);
        any |= v != NULL && !json_is_null(v);
    }
    if (!any)
        return;
    html_add(&r->p, "<tr><td>%s</td>", what);
    for (size_t i = 0; i < r->n; i++) {
        const json_t *v = find(r->run[i].result, place);
        char where[128];
        size_t n = strlen(place);
        snprintf(where, sizeof(where), "/%zu%s", i, place);
        html_add(&r->p, "<td>");
        if (v == NULL || json_is_null(v))
            html_add(&r->p, "–");
        else if (n > 6 && strcmp(place + n - 6, "_bytes") == 0)
            html_bytes(&r->p, v, where);
        else
            html_value(&r->p, v, "%s", where);
        html_add(&r->p, "</td>");
    }
    html_add(&r->p, "</tr>\n");
}

static void metrics(struct runs *r)
{
    static const char *const rows[][2] = {
        {"model", "/model"},
        {"AUC", "/auc"},
        {"logloss", "/logloss"},
        {"normalized entropy (ne)", "/ne"},
        {"predicted / observed (copc)", "/copc"},
        {"average precision", "/pr_auc"},
        {"root mean squared error", "/rmse"},
        {"validation AUC", "/valid/auc"},
        {"validation logloss", "/valid/logloss"},
        {"pass that is kept", "/valid/epoch"},
        {"passes", "/epochs"},
        {"examples", "/examples"},
        {"features", "/keys"},
        {"seconds in all", "/seconds/total"},
        {"examples a second", "/examples_per_second"},
        {"most memory", "/peak_rss_bytes"},
        {"CPU", "/run/cpu"},
        {"tug", "/run/version"},
    };
    html_add(&r->p, "<h2>Results</h2>\n");
    heads(r, "", true);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        metric_row(r, rows[i][0], rows[i][1]);
    tail(r);
}

// Returns the value of a run's option as text. Returns NULL if the option has its
// default, or if the result was read from a save and lacks the value: a save has only
// options that the model depends on.
static const char *option_of(const json_t *result, const char *name)
{
    const json_t *all = find(result, "/run/options");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        const char *is = json_string_value(json_object_get(one, "name"));
        const char *value = json_string_value(json_object_get(one, "value"));
        if (is != NULL && value != NULL && strcmp(is, name) == 0)
            return value;
    }
    return NULL;
}

static bool is_of_save(const json_t *result)
{
    return json_is_true(find(result, "/run/of_save"));
}

// Returns whether both results are of the same command: tug eval does not have most of
// the options of tug train.
static bool same_command(const json_t *a, const json_t *b)
{
    const char *x = json_string_value(json_object_get(a, "command")),
               *y = json_string_value(json_object_get(b, "command"));
    return x != NULL && y != NULL && strcmp(x, y) == 0;
}

// Returns the default of an option, or NULL if no result has it: the result of a run has
// the default only if the run was given the option.
static const char *default_of(const struct runs *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++) {
        const json_t *all = find(r->run[i].result, "/run/options"), *one;
        size_t k;
        json_array_foreach(all, k, one) {
            const char *is = json_string_value(json_object_get(one, "name"));
            if (is != NULL && strcmp(is, name) == 0)
                return json_string_value(json_object_get(one, "default"));
        }
    }
    return NULL;
}

// Returns whether the runs differ in an option. A run whose result lacks the option has
// its default, unless the result was read from a save.
static bool differs(const struct runs *r, const char *name)
{
    const json_t *first = r->run[0].result;
    const char *a = option_of(first, name);
    for (size_t i = 1; i < r->n; i++) {
        const json_t *other = r->run[i].result;
        const char *b = option_of(other, name);
        if ((a == NULL || b == NULL) && !same_command(first, other))
            continue;
        if (a != NULL && b != NULL ? strcmp(a, b) != 0
                                   : a != b && !is_of_save(first) && !is_of_save(other))
            return true;
    }
    return false;
}

static bool named_before(const struct runs *r, size_t run, const char *name)
{
    for (size_t i = 0; i < run; i++)
        if (option_of(r->run[i].result, name) != NULL)
            return true;
    return false;
}

// Returns whether the command of a run has the option: whether some run of the same
// command was given it.
static bool named_by_command(const struct runs *r, size_t run, const char *name)
{
    for (size_t i = 0; i < r->n; i++)
        if (same_command(r->run[i].result, r->run[run].result) &&
            option_of(r->run[i].result, name) != NULL)
            return true;
    return false;
}

static void option_row(struct runs *r, const char *name)
{
    html_add(&r->p, "<tr><td>");
    html_text(&r->p, name);
    html_add(&r->p, "</td>");
    for (size_t i = 0; i < r->n; i++) {
        const json_t *run = r->run[i].result;
        const char *value = option_of(run, name), *usual = default_of(r, name);
        html_add(&r->p, "<td class=\"text\">");
        bool by_default = value == NULL && !is_of_save(run) &&
                          named_by_command(r, i, name);
        html_text(&r->p, value != NULL     ? value
                         : is_of_save(run) ? "unknown"
                         : !by_default     ? "–"
                         : usual != NULL   ? usual
                                           : "none");
        if (by_default)
            html_add(&r->p, " <span class=\"usual\">(default)</span>");
        html_add(&r->p, "</td>");
    }
    html_add(&r->p, "</tr>\n");
}

static void options(struct runs *r)
{
    size_t rows = 0;
    html_add(&r->p, "<h2>Options that differ</h2>\n");
    for (size_t i = 0; i < r->n; i++) {
        const json_t *all = find(r->run[i].result, "/run/options");
        for (size_t k = 0; k < json_array_size(all); k++) {
            const char *name = json_string_value(
                json_object_get(json_array_get(all, k), "name"));
            if (name == NULL || named_before(r, i, name) || !differs(r, name))
                continue;
            if (rows++ == 0)
                heads(r, "option", false);
            option_row(r, name);
        }
    }
    if (rows > 0)
        tail(r);
    else
        html_add(&r->p, "<p>None, as far as the results tell.</p>\n");
}

static const json_t *data_of(const json_t *result, const char *use)
{
    const json_t *all = json_object_get(result, "data");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const char *is = json_string_value(
            json_object_get(json_array_get(all, i), "use"));
        if (is != NULL && strcmp(is, use) == 0)
            return json_array_get(all, i);
    }
    return NULL;
}

static void amounts(struct runs *r, size_t i, const json_t *one, const char *use)
{
    const json_t *positives = json_object_get(one, "positives");
    if (one == NULL) {
        html_add(&r->p, "–");
        return;
    }
    html_value(&r->p, json_object_get(one, "examples"), "/%zu/data/%s/examples", i, use);
    html_add(&r->p, " examples");
    if (!json_is_number(positives))
        return;
    html_add(&r->p, ", ");
    html_value(&r->p, positives, "/%zu/data/%s/positives", i, use);
    html_add(&r->p, " positives");
}

// Appends a row about the data of one `use` (training, validation or test), if the runs
// differ in its files or number of examples.
static void data_row(struct runs *r, const char *use, size_t *rows)
{
    bool same = true;
    for (size_t i = 1; i < r->n; i++) {
        const json_t *a = data_of(r->run[0].result, use);
        const json_t *b = data_of(r->run[i].result, use);
        same &= (a == NULL && b == NULL) || (a != NULL && b != NULL && json_equal(a, b));
    }
    if (same)
        return;
    if ((*rows)++ == 0)
        heads(r, "data", false);
    html_add(&r->p, "<tr><td>%s</td>", use);
    for (size_t i = 0; i < r->n; i++) {
        const json_t *one = data_of(r->run[i].result, use);
        const json_t *files = json_object_get(one, "files");
        html_add(&r->p, "<td class=\"text\">");
        for (size_t k = 0; k < json_array_size(files); k++) {
            html_text(&r->p, json_string_value(json_array_get(files, k)));
            html_add(&r->p, "<br>");
        }
        amounts(r, i, one, use);
        html_add(&r->p, "</td>");
    }
    html_add(&r->p, "</tr>\n");
}

int report_write_runs(const struct report_run *runs, size_t n, const char *path,
                      struct err *e)
{
    struct runs r = {.run = runs, .n = n < REPORT_RUNS ? n : REPORT_RUNS};
    size_t rows = 0;
    html_begin(&r.p, "tug report");
    html_add(&r.p, "<h1>%zu runs beside each other</h1>\n", r.n);
    metrics(&r);
    options(&r);
    html_add(&r.p, "<h2>Data that differs</h2>\n");
    data_row(&r, "train", &rows);
    data_row(&r, "valid", &rows);
    data_row(&r, "test", &rows);
    if (rows > 0)
        tail(&r);
    else
        html_add(&r.p, "<p>None, as far as the results tell.</p>\n");
    html_add(&r.p, "<h2>Curves</h2>\n<div class=\"grid\">\n");
    report_training_charts(&r.p, r.run, r.n);
    report_score_charts(&r.p, r.run, r.n);
    html_add(&r.p, "</div>\n");
    return report_page_write(&r.p, path, e);
}
