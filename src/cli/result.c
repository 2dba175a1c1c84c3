// Prints results.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/result.h"
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/plural.h"
#include "os/json.h"
#include "train/evaluate/guard.h"

static double peak_rss_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (double)u.ru_maxrss * 1024 : 0;
}

static bool has_groups(const struct metrics *m)
{
    return m->groups > 0 || m->one_class > 0 || m->without_group > 0;
}

// Adds the metrics; if `m` is NULL, all are null.
static void add_metrics(json_t *o, const struct metrics *m)
{
    struct metrics values = m != NULL ? *m : (struct metrics){0};
    for (size_t i = 0; i < METRICS_FIELDS; i++)
        json_object_set_new(o, metrics_fields[i].name,
                            m != NULL ? json_real_or_null(*metrics_value(&values, i))
                                      : json_null());
    if (has_groups(&values))
        json_object_set_new(o, "groups",
                            json_pack("{s:I, s:I, s:I}", "counted",
                                      (json_int_t)values.groups, "one_class",
                                      (json_int_t)values.one_class, "without",
                                      (json_int_t)values.without_group));
}

// Adds, for several labels, the metrics of each label under its name. The members outside
// are those of the first label.
static void add_labels(json_t *o, const struct result *r, const struct metrics *m)
{
    json_t *all = r->labels > 1 ? json_object() : NULL;
    for (uint32_t k = 0; all != NULL && k < r->labels; k++) {
        json_t *one = json_pack("{s:I}", "examples", (json_int_t)m[k].examples);
        add_metrics(one, &m[k]);
        json_object_set_new(all, r->label[k], one);
    }
    if (all != NULL)
        json_object_set_new(o, "labels", all);
}

void result_name_labels(struct result *r, const struct schema *s)
{
    r->labels = schema_labels(s);
    for (uint32_t k = 0; k < r->labels; k++) {
        const char *name = schema_label(s, k);
        snprintf(r->label[k], sizeof(r->label[k]), "%s", name != NULL ? name : "");
    }
}

double result_other_seconds(const struct result *r)
{
    double other = r->total_seconds - r->read_seconds - r->train_seconds -
                   r->valid_seconds - r->save_seconds - r->test_seconds;
    return other > 0 ? other : 0;
}

// The times add up to the total; "wait" is a part of "train".
static json_t *seconds_to_json(const struct result *r)
{
    json_t *o = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "read", r->read_seconds,
                          "train", r->train_seconds, "valid", r->valid_seconds, "save",
                          r->save_seconds, "test", r->test_seconds, "other",
                          result_other_seconds(r), "total", r->total_seconds);
    if (r->workers > 0)
        json_object_set_new(o, "wait", json_real(r->wait_seconds));
    return o;
}

static json_t *to_json(const struct result *r)
{
    json_t *o = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:i, s:o,"
        " s:o, s:I, s:f, s:I, s:I, s:i, s:i, s:i, s:I, s:s, s:I}",
        "command", r->command, "model", r->model, "format", r->format, "examples",
        (json_int_t)r->examples, "held_out", (json_int_t)r->held_out, "epochs",
        (int)r->epochs, "seconds", seconds_to_json(r), "examples_per_second",
        json_real_or_null(r->examples_per_second), "keys", (json_int_t)r->keys,
        "bytes_per_key", r->bytes_per_key, "fixed_bytes", (json_int_t)r->fixed_bytes,
        "peak_rss_bytes", (json_int_t)peak_rss_bytes(), "threads", r->threads, "workers",
        (int)r->workers, "servers", (int)r->servers, "seed", (json_int_t)r->seed, "out",
        r->out, "skipped_lines", (json_int_t)r->skipped_lines);
    if (o != NULL)
        add_metrics(o, r->tested ? &r->test : NULL);
    if (o != NULL && r->tested)
        add_labels(o, r, r->tests);
    if (o != NULL && r->tested)
        json_object_set_new(o, "known_features",
                            json_real_or_null(guard_known(&r->test)));
    if (o != NULL)
        json_object_set_new(o, "data_bytes", json_integer((json_int_t)r->data_bytes));
    if (o != NULL && r->validated) {
        json_t *valid = json_pack("{s:i}", "epoch", (int)r->best_epoch);
        if (valid != NULL)
            add_metrics(valid, &r->valid);
        if (valid != NULL)
            add_labels(valid, r, r->valids);
        json_object_set_new(o, "valid", valid);
    }
    if (o != NULL && r->history != NULL)
        json_object_set_new(o, "history", history_to_json(r->history));
    if (o != NULL && r->tables != NULL)
        eval_tables_add_json(o, r->tables);
    return o;
}

int result_print_json(const struct result *r, struct err *e)
{
    json_begin();
    return json_print(to_json(r), 0, e);
}

static void print_metric(const char *name, double x)
{
    if (isfinite(x))
        cli_printf("  %s %.5f", name, x);
    else
        cli_printf("  %s none", name);
}

// The values come last, since their width varies.
static void print_groups(const struct eval_tables *of)
{
    const struct group_table *t = &of->groups;
    if (t->n < t->groups)
        cli_printf("the %zu of %llu values with most examples:\n", t->n,
                   (unsigned long long)t->groups);
    cli_printf("%12s  %12s  %8s  %8s  %8s  %s\n", "examples", "positives", "auc",
               "logloss", "copc", of->by);
    for (size_t i = 0; i < t->n; i++) {
        const struct group_metrics *m = &t->line[i].metrics;
        cli_printf("%12llu  %12llu", (unsigned long long)m->examples,
                   (unsigned long long)m->positives);
        cli_cell(8, m->auc);
        cli_cell(8, m->logloss);
        cli_cell(8, m->copc);
        cli_printf("  %s\n", t->line[i].value[0] != '\0' ? t->line[i].value : "(empty)");
    }
}

// Without an AUC (labels are numbers, or all of one class) the loss decides.
static void print_importance_of_loss(const struct importance *m)
{
    cli_printf("  %12s  %8s  %8s  column\n", "loss rise", "loss", "rmse");
    for (size_t i = 0; i < m->n; i++) {
        const struct importance_line *l = &m->line[i];
        cli_printf("    ");
        cli_cell(8, l->loss_rise);
        cli_cell(8, l->metrics.logloss);
        cli_cell(8, l->metrics.rmse);
        cli_printf("  %s\n", m->names.data + l->name);
    }
}

static void print_importance(const struct importance *m)
{
    bool ranks = m->n == 0;
    for (size_t i = 0; i < m->n; i++)
        ranks |= isfinite(m->line[i].metrics.auc);
    if (!ranks) {
        print_importance_of_loss(m);
        return;
    }
    cli_printf("  %8s  %12s  %8s  %8s  column\n", "auc drop", "logloss rise", "auc",
               "logloss");
    for (size_t i = 0; i < m->n; i++) {
        const struct importance_line *l = &m->line[i];
        cli_cell(8, l->auc_drop);
        cli_printf("    ");
        cli_cell(8, l->loss_rise);
        cli_cell(8, l->metrics.auc);
        cli_cell(8, l->metrics.logloss);
        const char *name = m->names.data + l->name;
        cli_printf("  %s\n", name[0] != '\0' ? name : "''");
    }
}

static void print_calibration(const struct calibration *c)
{
    cli_printf("%12s  %8s  %8s  %8s  %8s\n", "examples", "from", "to", "predicted",
               "observed");
    for (uint32_t i = 0; i < c->n; i++) {
        const struct calibration_bin *b = &c->bin[i];
        cli_printf("%12llu", (unsigned long long)b->examples);
        cli_cell(8, b->from);
        cli_cell(8, b->to);
        cli_printf(" ");
        cli_cell(8, b->predicted);
        cli_cell(8, b->observed);
        cli_printf("\n");
    }
}

static void print_tables(const struct eval_tables *t)
{
    if (t->by != NULL)
        print_groups(t);
    if (t->has_importance)
        print_importance(&t->importance);
    if (t->has_calibration)
        print_calibration(&t->calibration);
}

static void print_label(const struct metrics *m, const char *label)
{
    cli_printf("test%s%s", label[0] != '\0' ? " " : "", label);
    print_metric("auc", m->auc);
    print_metric("logloss", m->logloss);
    print_metric("copc", m->copc);
    bool ranks = isfinite(m->pr_auc); // false if labels are numbers, or all of one class
    print_metric(ranks ? "pr_auc" : "rmse", ranks ? m->pr_auc : m->rmse);
    print_metric(ranks ? "ne" : "mae", ranks ? m->ne : m->mae);
    if (has_groups(m))
        print_metric("gauc", m->gauc);
    cli_printf("  (%llu example%s)\n", (unsigned long long)m->examples,
               PLURAL_S(m->examples));
}

int result_print_metrics(const struct result *r)
{
    print_label(&r->test, r->labels > 1 ? r->label[0] : "");
    for (uint32_t k = 1; k < r->labels; k++)
        print_label(&r->tests[k], r->label[k]);
    if (has_groups(&r->test))
        cli_printf(
            "gauc averages %llu group%s; skipped %llu with a single class, and %llu "
            "example%s without a group\n",
            (unsigned long long)r->test.groups, PLURAL_S(r->test.groups),
            (unsigned long long)r->test.one_class,
            (unsigned long long)r->test.without_group, PLURAL_S(r->test.without_group));
    if (r->skipped_lines > 0)
        cli_printf("%llu line%s skipped\n", (unsigned long long)r->skipped_lines,
                   r->skipped_lines == 1 ? " was" : "s were");
    if (r->tables != NULL)
        print_tables(r->tables);
    return 0;
}
