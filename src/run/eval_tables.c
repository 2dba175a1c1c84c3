// See eval_tables.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/eval_tables.h"

void eval_tables_free(struct eval_tables *t)
{
    group_table_free(&t->groups);
    importance_free(&t->importance);
}

int eval_tables_check(const struct eval_values *v, const struct options *o, struct err *e)
{
    if (v->by == NULL && options_given(o, "top"))
        return err_set(e, TUG_EUSAGE,
                       "--top needs --by COLUMN: it limits the table of --by");
    if (v->only != NULL && !v->importance)
        return err_set(e, TUG_EUSAGE,
                       "--only needs --importance: it limits the columns that "
                       "--importance measures");
    if (v->importance && (v->group != NULL || v->by != NULL))
        return err_set(
            e, TUG_EUSAGE,
            "--importance cannot be combined with --group or --by: evaluate once "
            "for each");
    return 0;
}

int eval_tables_find(const struct evaluation_options *o, const struct eval_values *v,
                     struct eval_tables *ret, struct metrics *ret_metrics, struct err *e)
{
    struct evaluation_options mine = *o;
    if (v->calibration && o->loss != LOSS_LOGISTIC)
        return err_set(e, TUG_EUSAGE,
                       "--calibration needs probabilities, but the model was trained "
                       "with --loss squared");
    ret->by = v->by;
    ret->has_importance = v->importance;
    ret->has_calibration = v->calibration;
    mine.table = &ret->groups;
    mine.calibration = v->calibration ? &ret->calibration : NULL;
    ret->has_curves = v->report != NULL && o->loss == LOSS_LOGISTIC;
    mine.curves = ret->has_curves ? &ret->curves : NULL;
    ret->silent_importance = !v->importance;
    if (v->report != NULL && !v->importance)
        return importance_if_possible(&mine, &ret->importance, &ret->has_importance,
                                      ret_metrics, e);
    return v->importance ? importance(&mine, v->only, &ret->importance, ret_metrics, e)
                         : evaluate(&mine, ret_metrics, e);
}

static json_t *groups_to_json(const struct eval_tables *t)
{
    json_t *lines = json_array();
    for (size_t i = 0; i < t->groups.n; i++) {
        const struct group_line *l = &t->groups.line[i];
        const struct group_metrics *m = &l->metrics;
        json_array_append_new(
            lines, json_pack("{s:o, s:I, s:I, s:o, s:o, s:o}", "value",
                             l->value[0] != '\0' ? json_string(l->value) : json_null(),
                             "examples", (json_int_t)m->examples, "positives",
                             (json_int_t)m->positives, "auc", json_real_or_null(m->auc),
                             "logloss", json_real_or_null(m->logloss), "copc",
                             json_real_or_null(m->copc)));
    }
    return json_pack("{s:s, s:I, s:o}", "columns", t->by, "values",
                     (json_int_t)t->groups.groups, "table", lines);
}

json_t *importance_to_json(const struct importance *m)
{
    json_t *lines = json_array();
    for (size_t i = 0; i < m->n; i++) {
        const struct importance_line *l = &m->line[i];
        json_array_append_new(lines,
                              json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "column",
                                        m->names.data + l->name, "auc_drop",
                                        json_real_or_null(l->auc_drop), "logloss_rise",
                                        json_real_or_null(l->loss_rise), "auc",
                                        json_real_or_null(l->metrics.auc), "logloss",
                                        json_real_or_null(l->metrics.logloss), "unknown",
                                        json_real_or_null(l->unknown)));
    }
    return lines;
}

void eval_tables_add_json(json_t *to, const struct eval_tables *t)
{
    if (t->by != NULL)
        json_object_set_new(to, "by", groups_to_json(t));
    if (t->has_importance)
        json_object_set_new(to, "importance", importance_to_json(&t->importance));
    if (t->has_calibration)
        json_object_set_new(to, "calibration", calibration_to_json(&t->calibration));
}
