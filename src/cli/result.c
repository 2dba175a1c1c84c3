// Prints results.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/result.h"
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>

#include "base/plural.h"
#include "os/json.h"
#include "train/evaluate/guard.h"

static void print_metric(const char *name, double x)
{
    if (isfinite(x))
        cli_printf("  %s %.5f", name, x);
    else
        cli_printf("  %s none", name);
}

// The column of values comes last, because their width varies.
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

// Prints importances by the loss, for data without an AUC (labels are numbers,
// or all of one class).
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
    if (t->has_importance && !t->silent_importance)
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
    if (result_has_groups(m))
        print_metric("gauc", m->gauc);
    cli_printf("  (%llu example%s)\n", (unsigned long long)m->examples,
               PLURAL_S(m->examples));
}

int result_print_metrics(const struct result *r)
{
    print_label(&r->test, r->labels > 1 ? r->label[0] : "");
    for (uint32_t k = 1; k < r->labels; k++)
        print_label(&r->tests[k], r->label[k]);
    if (result_has_groups(&r->test))
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
