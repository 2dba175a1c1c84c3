// The charts of a page. A chart shows the curves of one or of several results.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "report/report_internal.h"

// The numbers of one or several results in the form that svg_chart takes.
struct plot {
    struct svg_series series[REPORT_SERIES];
    size_t n;
    double *memory[REPORT_SERIES];
    bool failed;
};

static double number(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

// Adds a series; its x, y, low and high have room for n points.
static struct svg_series *plot_add(struct plot *p, const char *name, enum svg_mark mark,
                                   unsigned color, size_t n, double *ret[4])
{
    if (p->n == REPORT_SERIES || n == 0)
        return NULL;
    double *all = mem_array(4 * n, sizeof(*all));
    if (all == NULL) {
        p->failed = true;
        return NULL;
    }
    for (int i = 0; i < 4; i++)
        ret[i] = all + (size_t)i * n;
    p->memory[p->n] = all;
    p->series[p->n] = (struct svg_series){
        .name = name, .mark = mark, .color = color, .n = n, .x = ret[0], .y = ret[1]};
    return &p->series[p->n++];
}

static void plot_show(struct page *page, struct plot *p, struct svg_chart *c)
{
    c->series = p->series;
    c->n = p->n;
    if (p->failed && page->rc == 0)
        page->rc = TUG_ENOMEM;
    if (p->n > 0)
        svg_chart(page, c);
    for (size_t i = 0; i < p->n; i++)
        mem_free(p->memory[i]);
}

// Adds the pairs [x, y] of an array.
static void plot_pairs(struct plot *p, const json_t *pairs, const char *name,
                       enum svg_mark mark, unsigned color)
{
    double *to[4];
    if (plot_add(p, name, mark, color, json_array_size(pairs), to) == NULL)
        return;
    for (size_t i = 0; i < json_array_size(pairs); i++)
        for (size_t k = 0; k < 2; k++)
            to[k][i] = json_number_value(json_array_get(json_array_get(pairs, i), k));
}

static void plot_straight(struct plot *p, const char *name, double y0, double y1,
                          double x1)
{
    double *to[4];
    if (plot_add(p, name, SVG_DASH, 5, 2, to) == NULL)
        return;
    to[0][0] = 0, to[1][0] = y0, to[0][1] = x1, to[1][1] = y1;
}

// ---------------------------------------------------------------- training

static bool any_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            return true;
    return false;
}

// Drops the series if it has no finite value, so that the legend does not name it.
static void plot_check(struct plot *p, const struct svg_series *s)
{
    if (s != NULL && !any_finite(s->y, s->n))
        mem_free(p->memory[--p->n]);
}

// Returns the number of a pass's examples from the history; 0 if the history lacks the
// pass.
static double pass_examples(const json_t *history, double pass)
{
    for (size_t i = 0; i < json_array_size(history); i++)
        if (number(json_array_get(history, i), "pass") == pass)
            return number(json_array_get(history, i), "examples");
    return 0;
}

// Adds the values of a metric within passes; x is the number of passes, with fractions.
static void plot_course(struct plot *p, const json_t *result, const char *metric,
                        const char *name, unsigned color)
{
    char of[32];
    double *to[4];
    const json_t *course = json_object_get(result, "course");
    struct svg_series *s = plot_add(p, name, SVG_THIN, color, json_array_size(course),
                                    to);
    snprintf(of, sizeof(of), "window_%s", metric);
    for (size_t i = 0; s != NULL && i < s->n; i++) {
        const json_t *point = json_array_get(course, i);
        double pass = number(point, "pass");
        double all = pass_examples(json_object_get(result, "history"), pass);
        to[0][i] = pass - 1 + (all > 0 ? fmin(1, number(point, "examples") / all) : 1);
        to[1][i] = number(point, of);
    }
    plot_check(p, s);
}

// Adds the values of a metric at the ends of passes: on the training data or, if `valid`,
// on the data of --valid.
static void plot_passes(struct plot *p, const json_t *result, const char *metric,
                        bool valid, const char *name, unsigned color)
{
    double *to[4];
    const json_t *history = json_object_get(result, "history");
    struct svg_series *s = plot_add(p, name, valid ? SVG_DOTS : SVG_LINE, color,
                                    json_array_size(history), to);
    for (size_t i = 0; s != NULL && i < s->n; i++) {
        const json_t *pass = json_array_get(history, i);
        to[0][i] = number(pass, "pass");
        to[1][i] = number(valid ? json_object_get(pass, "valid") : pass, metric);
    }
    plot_check(p, s);
}

static void training_chart(struct page *page, const struct report_run *runs, size_t n,
                           const char *metric, const char *title)
{
    struct plot p = {0};
    struct svg_chart c = {SVG_FITTED, .title = title, .x = "passes over the data",
                          .y = strcmp(metric, "auc") == 0 ? "AUC" : metric};
    for (size_t i = 0; i < n; i++) {
        const json_t *result = runs[i].result;
        const json_t *kept = json_object_get(json_object_get(result, "valid"), "epoch");
        if (n == 1 && json_is_number(kept)) {
            c.mark = json_number_value(kept);
            c.marked = report_is_interrupted(result) ? "best" : "kept";
        }
        if (n == 1)
            plot_course(&p, result, metric, "training, within passes", 5);
        size_t before = p.n;
        plot_passes(&p, result, metric, true, n == 1 ? "validation" : runs[i].name,
                    n == 1 ? 1 : (unsigned)i);
        if (n == 1 || p.n == before)
            plot_passes(&p, result, metric, false,
                        n == 1 ? "training, whole pass" : runs[i].name,
                        n == 1 ? 0 : (unsigned)i);
    }
    if (p.n > 0)
        c.x_from = 0;
    // The chart of a run of one pass shows the course within the pass.
    c.x_whole = n > 1 || json_array_size(json_object_get(runs[0].result, "history")) > 1;
    c.note = n == 1 ? "Training examples are scored before the model learns from them."
                    : "On validation data, or, for a run without it, on training data.";
    plot_show(page, &p, &c);
}

void report_training_charts(struct page *page, const struct report_run *runs, size_t n)
{
    training_chart(page, runs, n, "loss", "Loss");
    training_chart(page, runs, n, "auc", "AUC");
}

// ---------------------------------------------------------------- scores

static void roc_chart(struct page *page, const struct report_run *runs, size_t n)
{
    struct plot p = {0};
    for (size_t i = 0; i < n; i++)
        plot_pairs(&p, json_object_get(runs[i].result, "roc"),
                   n == 1 ? "model" : runs[i].name, SVG_LINE, (unsigned)i);
    if (p.n > 0)
        plot_straight(&p, "guess", 0, 1, 1);
    struct svg_chart c = {.title = "ROC",
                          .x = "share of negatives above the threshold",
                          .y = "share of positives",
                          .x_to = 1,
                          .y_to = 1,
                          .mark = NAN};
    plot_show(page, &p, &c);
}

static void precision_chart(struct page *page, const struct report_run *runs, size_t n)
{
    struct plot p = {0};
    for (size_t i = 0; i < n; i++)
        plot_pairs(&p, json_object_get(runs[i].result, "precision_recall"),
                   n == 1 ? "model" : runs[i].name, SVG_LINE, (unsigned)i);
    struct svg_chart c = {.title = "Precision and recall",
                          .x = "recall",
                          .y = "precision",
                          .x_to = 1,
                          .y_to = NAN,
                          .mark = NAN};
    plot_show(page, &p, &c);
}

static void calibration_chart(struct page *page, const struct report_run *runs, size_t n)
{
    struct plot p = {0};
    double most = 0, *to[4];
    for (size_t i = 0; i < n; i++) {
        const json_t *bins = json_object_get(runs[i].result, "calibration");
        struct svg_series *s = plot_add(&p,
                                        n == 1 ? "tenths of the examples" : runs[i].name,
                                        SVG_DOTS, (unsigned)i, json_array_size(bins), to);
        for (size_t k = 0; s != NULL && k < s->n; k++) {
            const json_t *bin = json_array_get(bins, k);
            to[0][k] = number(bin, "predicted");
            to[1][k] = number(bin, "observed");
            to[2][k] = number(bin, "low");
            to[3][k] = number(bin, "high");
            most = fmax(most, fmax(to[0][k], to[1][k]));
        }
        if (s != NULL && n == 1)
            s->low = to[2], s->high = to[3];
    }
    if (p.n > 0)
        plot_straight(&p, "perfect", 0, most, most);
    struct svg_chart c = {.title = "Calibration",
                          .x = "mean prediction",
                          .y = "share of positives",
                          .x_to = NAN,
                          .y_to = NAN,
                          .mark = NAN,
                          .note = n == 1 ? "Vertical lines are 95 % intervals of the "
                                           "share of positives (Wilson)."
                                         : NULL};
    plot_show(page, &p, &c);
}

// The bars of each label are shares of that label's examples, because positives are often
// few.
static void scores_chart(struct page *page, const json_t *result)
{
    static const char *const of[] = {"negatives", "positives"};
    const json_t *bars = json_object_get(result, "scores");
    struct plot p = {0};
    for (unsigned k = 0; k < 2; k++) {
        double *to[4], sum = 0;
        struct svg_series *s = plot_add(&p, of[k], SVG_BARS, k, json_array_size(bars),
                                        to);
        for (size_t i = 0; s != NULL && i < s->n; i++)
            sum += number(json_array_get(bars, i), of[k]);
        for (size_t i = 0; s != NULL && i < s->n; i++) {
            const json_t *bar = json_array_get(bars, i);
            to[2][i] = to[0][i] = number(bar, "from");
            to[3][i] = number(bar, "to");
            to[1][i] = sum > 0 ? number(bar, of[k]) / sum : 0;
        }
        if (s != NULL)
            s->low = to[2], s->high = to[3];
    }
    struct svg_chart c = {SVG_FITTED, .title = "Predictions by label", .x = "prediction",
                          .y = "share of the label's examples",
                          .note = "The table has the counts."};
    c.y_from = 0;
    plot_show(page, &p, &c);
}

static void lift_chart(struct page *page, const struct report_run *runs, size_t n)
{
    struct plot p = {0};
    for (size_t i = 0; i < n; i++) {
        const json_t *lift = json_object_get(runs[i].result, "lift");
        double *to[4];
        struct svg_series *s = plot_add(&p, n == 1 ? "model" : runs[i].name,
                                        n == 1 ? SVG_BARS : SVG_DOTS, (unsigned)i,
                                        json_array_size(lift), to);
        for (size_t k = 0; s != NULL && k < s->n; k++) {
            to[0][k] = (double)k + (n == 1 ? 0.5 : 1);
            to[1][k] = number(json_array_get(lift, k), "lift");
            to[2][k] = (double)k + 0.52;
            to[3][k] = (double)k + 1.48;
        }
        if (s != NULL && n == 1)
            s->low = to[2], s->high = to[3], s->x = to[2];
    }
    struct svg_chart c = {.title = "Lift",
                          .x = "tenths of the examples, highest predictions first",
                          .y = "share of positives / overall share",
                          .x_from = 0,
                          .x_to = 10.5,
                          .y_to = NAN,
                          .mark = NAN};
    if (p.n > 0)
        plot_straight(&p, "all examples", 1, 1, 10.5);
    plot_show(page, &p, &c);
}

void report_score_charts(struct page *page, const struct report_run *runs, size_t n)
{
    roc_chart(page, runs, n);
    calibration_chart(page, runs, n);
    if (n == 1)
        scores_chart(page, runs[0].result);
    lift_chart(page, runs, n);
    precision_chart(page, runs, n);
}
