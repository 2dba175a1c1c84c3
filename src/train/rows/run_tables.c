// The tables of a run; see run_tables.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/run_tables.h"

#include <stdio.h>

struct table_config run_living_defaults(const struct model_options *o)
{
    struct table_config t = table_config_defaults();
    (void)table_config_set(&t, "accessor", "sparse",
                           NULL); // also sets the accessor's other settings
    t.accessor.rule = o->linear;
    t.accessor.extra = o->latent;
    // The prior needs a count of updates, which rows with a lifecycle do not have.
    t.accessor.rule.prior = t.accessor.extra.prior = 0;
    t.accessor.life.show_scale = false;
    t.extra_low = -o->init;
    t.extra_high = o->init;
    return t;
}

// Sets the settings that both tables share.
static void set_run(const struct train_config *c, const struct model *m,
                    struct table_config *t)
{
    t->seed = m->options.seed;
    t->mode = c->cluster != NULL ? c->cluster->mode : CONFIG_ASYNC;
    t->staleness = t->mode == CONFIG_SSP ? c->cluster->staleness : 0;
    t->mean = c->reduce_mean && t->mode == CONFIG_SYNC;
}

// Returns whether the step functions of models can apply the rule: they cannot clip
// gradients, and have tug's own rules only.
static bool steps_apply(const struct rule_params *r)
{
    return r->kind < RULE_KINDS && r->clip == 0 && r->clip_norm == 0 && !r->bounded;
}

bool run_steps_in_place(const struct train_config *c)
{
    const struct train_cluster *k = c->cluster;
    const struct table_config *t = c->table;
    // Publishing needs a server, which records changed rows, and copies rows
    // while others are pushed.
    if (c->publish != NULL)
        return false;
    // Only a server has clocks and deterministic sums; and --rules can ask
    // for a server explicitly.
    if (k->mode != CONFIG_ASYNC || c->deterministic || k->rules != TRAIN_RULES_AUTO)
        return false;
    // Saves in the middle of a pass record which pieces of the data are done. Only
    // workers of a cluster train piece by piece.
    if (c->save_batches != 0)
        return false;
    // Only a server reads rows from disk when they are asked for.
    if (t->cold[0] != '\0')
        return false;
    // Models without a step function of their own need each row in one block of memory.
    return c->model.ops->step != NULL && steps_apply(&t->accessor.rule) &&
           steps_apply(&t->accessor.extra);
}

static int check_living(const struct table_config *t, const struct model *m,
                        struct err *e)
{
    struct accessor a;
    if (t->rate.kind != RATE_CONSTANT || t->rate.warmup != 0)
        return err_set(
            e, TUG_EUSAGE,
            "--table: the setting 'rate' cannot be used in training; use --schedule");
    TRY(accessor_make(&a, &t->accessor, e));
    if (m->accessor.groups[0].n > 1 && m->options.tasks > 1)
        return err_set(
            e, TUG_EUSAGE,
            "--table: a row has one weight beside its vector, and %s needs one "
            "for each of the %u labels: give --model mlp or dcn",
            m->options.ops->name, m->options.tasks);
    if (a.n_groups == m->accessor.n_groups && a.groups[0].n == 1 && a.pushed_stats == 3)
        return 0;
    char names[ACCESSOR_NAMES_MAX];
    accessor_names(true, names);
    return err_set(e, TUG_EUSAGE,
                   "--table: models cannot be trained on accessor %s; choose from %s",
                   t->accessor.name, names);
}

struct table_config run_features(const struct model *m)
{
    struct table_config t = table_config_defaults();
    snprintf(t.name, sizeof(t.name), RUN_SPARSE);
    t.accessor = m->layout;
    t.extra_low = -m->options.init;
    t.extra_high = m->options.init;
    t.seed = m->options.seed;
    return t;
}

struct table_config run_dense(const struct model *m)
{
    struct table_config t = table_config_defaults();
    snprintf(t.name, sizeof(t.name), RUN_DENSE);
    t.accessor.dim = m->dense.groups[0].n;
    t.accessor.rule = m->dense.groups[0].rule;
    t.place = CONFIG_DENSE;
    t.sums_from = m->summaries / m->dense.groups[0].n;
    t.seed = m->options.seed;
    return t;
}

int run_tables(const struct train_config *c, const struct model *m,
               struct table_config *ret_sparse, struct table_config *ret_dense,
               struct err *e)
{
    *ret_sparse = c->table != NULL ? *c->table : run_features(m);
    snprintf(ret_sparse->name, sizeof(ret_sparse->name), RUN_SPARSE);
    ret_sparse->accessor.dim = m->layout.dim; // 0: rows have no second group
    ret_sparse->place = CONFIG_HASH;
    set_run(c, m, ret_sparse);
    if (c->table != NULL)
        TRY(check_living(ret_sparse, m, e));

    *ret_dense = run_dense(m);
    set_run(c, m, ret_dense);
    if (c->cluster != NULL && c->cluster->dense_bounded) {
        ret_dense->mode = CONFIG_SSP;
        ret_dense->staleness = c->cluster->dense_staleness;
    }
    if (c->publish != NULL)
        ret_sparse->deltas = ret_dense->deltas = true;
    ret_dense->mean |= model_has_layers(m) && ret_dense->mode == CONFIG_SYNC;
    TRY(table_config_check(ret_sparse, e));
    return table_config_check(ret_dense, e);
}
