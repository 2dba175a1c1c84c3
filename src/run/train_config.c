// See train_config.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/train_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "data/paths.h"
#include "remote/remote.h"
#include "remote/within.h"
#include "rule/rule.h"
#include "run/model.h"
#include "run/train_refit.h"
#include "train/merge.h"
#include "train/micro.h"
#include "train/refit.h"
#include "train/run_tables.h"

static int err_in(int rc, const char *where, struct err *e)
{
    return rc == 0 ? 0 : err_wrap(e, "%s", where);
}

static void set_penalties(struct rule_params *p, const struct train_options *t,
                          const struct options *o)
{
    if (options_given(o, "l1"))
        p->l1 = (float)t->l1;
    if (options_given(o, "l2"))
        p->l2 = (float)t->l2;
    if (options_given(o, "prior"))
        p->prior = (float)t->prior;
}

// An optimizer as it is given: its name, and behind a colon numbers that have no option of their
// own and that a save of a run holds. The numbers are for adjust.
static int find_optimizer(const char *option, const char *text, enum rule_kind *ret,
                          struct err *e)
{
    char name[RULE_NAME_MAX], known[OPTION_NAME_MAX], near[OPTION_NAME_MAX];
    size_t n = strcspn(text, ":");
    snprintf(name, sizeof(name), "%.*s", (int)n, text);
    for (const char *w = TRAIN_OPTIMIZERS; n < sizeof(name) && w != NULL;) {
        options_word(w, 0, known);
        if (strcmp(known, name) == 0)
            return rule_find(name, ret, e);
        w = strchr(w, ' ');
        w += w != NULL;
    }
    options_nearest(name, TRAIN_OPTIMIZERS, near);
    return err_set(e, TUG_EUSAGE, "--%s: '%.*s' is not one of: %s%s%s%s", option,
                   (int)(n < 200 ? n : 200), text, TRAIN_OPTIMIZERS,
                   *near ? "; did you mean '" : "", near, *near ? "'?" : "");
}

static int adjust(const char *option, const char *text, struct rule_params *p,
                  struct err *e)
{
    const char *numbers = strchr(text, ':');
    struct rule_params before = *p;
    if (numbers == NULL)
        return 0;
    if (rule_adjust(numbers + 1, p, e) != 0)
        return err_wrap(e, "--%s", option);
    before.n0 = p->n0;
    before.beta = p->beta;
    before.beta1 = p->beta1;
    before.beta2 = p->beta2;
    return rule_same(&before, p)
               ? 0
               : err_set(
                     e, TUG_EUSAGE,
                     "--%s: '%.100s': n0, beta, beta1 and beta2 can be given here; "
                     "rates and penalties are options of their own, and other numbers "
                     "are of tables (--table)",
                     option, numbers + 1);
}

static int set_layers(struct model_options *m, const struct train_options *t,
                      const struct options *o, struct err *e)
{
    const char *given = options_given_of_group(o, TRAIN_OF_LAYERS);
    if (given != NULL && m->ops->dense == NULL)
        return err_set(e, TUG_EUSAGE, "--%s: an %s model has no layers", given,
                       m->ops->name);
    enum rule_kind rule;
    if (options_given(o, "hidden"))
        TRY(err_in(model_hidden_parse(t->hidden, m->hidden, e), "--hidden", e));
    if (options_given(o, "tower"))
        TRY(err_in(model_hidden_parse(t->tower, m->tower, e), "--tower", e));
    if (options_given(o, "task-weights"))
        TRY(err_in(model_weights_parse(t->task_weights, m->task_weight, e),
                   "--task-weights", e));
    if (t->label != NULL && strchr(t->label, ',') != NULL && t->fields != 0)
        return err_set(
            e, TUG_EUSAGE,
            "several --label and --fields cannot be used together: the columns say how "
            "many fields there are");
    if (options_given(o, "cross") && m->cross == 0)
        return err_set(e, TUG_EUSAGE, "--cross: an %s model has no layers of products",
                       m->ops->name);
    if (options_given(o, "cross"))
        m->cross = (uint32_t)t->cross;
    if (options_given(o, "dropout"))
        m->dropout = (float)t->dropout;
    m->batch_norm = t->batch_norm;
    m->data_norm = t->data_norm;
    m->pooling_mean = t->pooling == 1;
    if (m->data_norm && t->fields != 0)
        return err_set(
            e, TUG_EUSAGE,
            "--data-norm and --fields cannot be used together: where there are "
            "columns of numbers, columns say how many fields there are");
    if (options_given(o, "dense-optimizer")) {
        TRY(find_optimizer("dense-optimizer", t->dense_optimizer, &rule, e));
        m->dense = rule_defaults(rule);
        TRY(adjust("dense-optimizer", t->dense_optimizer, &m->dense, e));
    }
    if (options_given(o, "dense-lr"))
        m->dense.lr = (float)t->dense_lr;
    if (m->ops->dense != NULL && !(m->dense.lr > 0))
        return err_set(e, TUG_EUSAGE, "--dense-lr: a learning rate of 0 learns nothing");
    return 0;
}

static int set_model(struct model_options *m, const struct train_options *t,
                     const struct options *o, struct err *e)
{
    char name[OPTION_NAME_MAX];
    enum rule_kind rule;
    const struct model_ops *ops;
    TRY(find_optimizer("optimizer", t->optimizer, &rule, e));
    TRY(model_find(options_word(TRAIN_MODELS, t->model, name), &ops, e));
    model_defaults(m, ops, rule);
    TRY(adjust("optimizer", t->optimizer, &m->linear, e));
    TRY(adjust("optimizer", t->optimizer, &m->latent, e));
    m->seed = t->seed;
    m->fields = ops->needs_fields ? (uint32_t)t->fields : 0;
    m->normalize &= t->normalize;
    if (options_given(o, "dim"))
        m->dim = (uint32_t)t->dim;
    if (options_given(o, "init"))
        m->init = (float)t->init;
    float ratio = m->linear.lr > 0 ? m->latent.lr / m->linear.lr : 1;
    if (options_given(o, "lr"))
        m->linear.lr = (float)t->lr;
    m->latent.lr = options_given(o, "latent-lr") ? (float)t->latent_lr
                                                 : m->linear.lr * ratio;
    set_penalties(&m->linear, t, o);
    set_penalties(&m->latent, t, o);
    if (t->dims != NULL)
        TRY(model_check_dims_by_field(ops, e));
    TRY(set_layers(m, t, o, e));
    if (!(m->linear.lr > 0 && m->latent.lr > 0))
        return err_set(e, TUG_EUSAGE, "--lr: a learning rate of 0 learns nothing");
    return 0;
}

static int set_mode_alone(struct train_config *c, const struct train_settings *s,
                          struct err *e)
{
    if (s->mode == TRAIN_SYNC)
        c->deterministic = true;
    else if (s->mode != TRAIN_ASYNC)
        return err_set(e, TUG_EUSAGE,
                       "--mode: on one machine there are async (the default) and sync; "
                       "the other modes need several workers");
    return 0;
}

// Copies of a row that have been trained apart are brought together by adding a part of
// what each has changed. States that decay would not bear that, and stay with their
// worker; weights that follow from a state cannot be brought together without it.
static int set_geo(const struct train_config *c, struct train_cluster *k,
                   const struct train_options *t, const struct train_settings *s,
                   struct err *e)
{
    const struct model_options *m = &c->model;
    const struct rule_params *rules[] = {&m->linear, &m->latent,
                                         m->ops->dense != NULL ? &m->dense : &m->linear};
    for (size_t i = 0; i < 3; i++)
        if (rule_info(rules[i]->kind)->weights_follow)
            return err_set(e, TUG_EUSAGE,
                           "--mode %s: rows that workers have trained apart cannot be "
                           "averaged under %s: its weights are computed from its state; "
                           "give another %s, such as adagrad",
                           t->mode, rule_info(rules[i]->kind)->name,
                           rules[i] == &m->dense ? "--dense-optimizer" : "--optimizer");
    if (t->table != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--mode %s and --table cannot be used together: of features that "
                       "come and go servers count shows and clicks, which a worker's own "
                       "copy does not; use --mode async",
                       t->mode);
    if (s->mode_n == 0 || s->mode_n > UINT32_MAX)
        return err_set(e, TUG_EUSAGE,
                       "--mode %s: K, the batches between two exchanges, is 1 or more%s",
                       t->mode, s->mode_n != 0 ? ", and below 2^32" : "");
    k->geo = (uint32_t)s->mode_n;
    k->elastic = s->mode == TRAIN_ELASTIC ? (float)s->mode_rate : 0;
    return 0;
}

// Who applies the rules, which some modes leave no choice of.
static int set_rules(struct train_config *c, struct train_cluster *k,
                     const struct train_options *t, const struct train_settings *s,
                     struct err *e)
{
    bool geo = train_mode_copies(s->mode), half = s->mode == TRAIN_HALF_ASYNC;
    k->rules = (enum train_rules)t->rules;
    k->together = geo || half;
    if (geo && k->rules == TRAIN_RULES_SERVER)
        return err_set(e, TUG_EUSAGE,
                       "--mode %s: each worker applies the rules to its own copy of the "
                       "rows; give --rules auto or worker",
                       t->mode);
    if (half && k->rules == TRAIN_RULES_WORKER)
        return err_set(e, TUG_EUSAGE,
                       "--mode half-async: the threads of a worker add up the gradients "
                       "of a batch, and servers apply the rules; give --rules auto or "
                       "server");
    if (half)
        k->rules = TRAIN_RULES_SERVER;
    return geo ? set_geo(c, k, t, s, e) : 0;
}

static int set_shuffle(struct train_cluster *k, const struct train_options *t,
                       struct err *e)
{
    k->shuffle = t->shuffle == 1;
    k->shuffle_by = t->shuffle_by;
    if (k->node == NULL && (k->shuffle || k->shuffle_by != NULL))
        return err_set(e, TUG_EUSAGE,
                       "--shuffle%s: on one machine there is one worker, which shuffles "
                       "all examples with --data-in memory; leave it out",
                       k->shuffle ? " global" : "-by");
    if (k->shuffle && k->mode == CONFIG_SYNC)
        return err_set(e, TUG_EUSAGE,
                       "--shuffle global: in sync mode every worker holds all examples, "
                       "which are shuffled as a whole every pass; leave it out");
    if (k->shuffle_by != NULL && !k->shuffle)
        return err_set(e, TUG_EUSAGE, "--shuffle-by works only with --shuffle global");
    return 0;
}

// Examples of a batch: fewer make more messages, more make workers see less of each
// other. FM on MovieLens-1M, 2 + 2, 5 passes: AUC .8090 at 512 and 1,024, .8086 at 2,048,
// .8081 at 4,096; one process .8092.
// Layers step once a batch: of DeepFM there, 3 passes, .8139; one process .8178 at 256.
// In half-async mode all rows do: FM on 80,000 rows of tug synth, 2 + 2, 3 passes: AUC
// .7030 at 256, .7016 at 512, .6973 at 1,024; async .7162, sync .7187.
enum { CLUSTER_BATCH = 1024, CLUSTER_BATCH_ONCE = 512 };

// What a mode of a cluster cannot do.
static int check_cluster(const struct train_config *c, const struct train_options *t,
                         const struct options *o, const struct train_settings *s,
                         struct err *e)
{
    const struct train_cluster *k = c->cluster;
    if (k->dense_bounded && (k->mode != CONFIG_ASYNC || k->geo > 0 || t->table != NULL ||
                             c->model.ops->dense == NULL))
        return err_set(
            e, TUG_EUSAGE,
            "--dense-staleness: bounds what layers miss while rows of features "
            "are async: give a model with layers, --mode async or half-async, "
            "and no --table");
    if (k->mode == CONFIG_SYNC && k->bf16)
        return err_set(
            e, TUG_EUSAGE,
            "--values bf16 cannot be used in sync mode: each worker's sums would be "
            "rounded, so that the result would depend on the number of workers");
    if (k->mode == CONFIG_SYNC && options_given(o, "in-flight"))
        return err_set(e, TUG_EUSAGE,
                       "--in-flight: in sync mode a batch begins when the one before is "
                       "applied; leave it out, or use --mode async or ssp:S");
    if (s->save_batches != 0 && t->table == NULL)
        return err_set(e, TUG_EUSAGE,
                       "--save-every: on a cluster saves are made between passes, unless "
                       "there is a --table: give a number of passes");
    if (s->valid_fraction > 0 && k->mode != CONFIG_SYNC)
        return err_set(e, TUG_EUSAGE,
                       "--valid %g: a share of the data needs --mode sync on a cluster, "
                       "and with --publish; give a file instead",
                       s->valid_fraction);
    if (t->average > 0)
        return err_set(e, TUG_EUSAGE,
                       "--average: a mean is made where one process has all parameters; "
                       "on a cluster, and with --table or --publish, there is none");
    return 0;
}

// --deterministic means sync: the one mode in which workers cannot change the result.
static int set_mode_cluster(struct train_setup *setup, const struct train_options *t,
                            const struct options *o, const struct train_settings *s,
                            struct err *e)
{
    struct train_config *c = &setup->config;
    struct train_cluster *k = &setup->cluster;
    if (k->node == NULL && (s->mode == TRAIN_HALF_ASYNC || train_mode_copies(s->mode)))
        return set_mode_alone(c, s, e);
    if (t->deterministic && options_given(o, "mode") && s->mode != TRAIN_SYNC)
        return err_set(e, TUG_EUSAGE,
                       "--deterministic on a cluster means --mode sync; the result of "
                       "'%s' depends on which worker is faster",
                       t->mode);
    c->deterministic = t->deterministic || s->mode == TRAIN_SYNC;
    k->mode = c->deterministic       ? CONFIG_SYNC
              : s->mode == TRAIN_SSP ? CONFIG_SSP
                                     : CONFIG_ASYNC;
    k->staleness = (uint32_t)(s->mode_n < UINT32_MAX ? s->mode_n : UINT32_MAX);
    TRY(set_rules(c, k, t, s, e));
    k->in_flight = options_given(o, "in-flight") ? (uint32_t)t->in_flight
                   : c->model.ops->dense != NULL ? 1
                                                 : TRAIN_MAX_IN_FLIGHT;
    k->dense_bounded = options_given(o, "dense-staleness");
    k->dense_staleness = (uint32_t)t->dense_staleness;
    k->bf16 = t->values == 1;
    k->pack_keys = t->pack_keys;
    k->cache_keys = t->cache_keys;
    if (k->mode != CONFIG_SYNC && !options_given(o, "batch"))
        c->batch = c->model.ops->dense != NULL || s->mode == TRAIN_HALF_ASYNC
                       ? CLUSTER_BATCH_ONCE
                       : CLUSTER_BATCH;
    return check_cluster(c, t, o, s, e);
}

// Workers take the files of --valid and --test in parts; a share of the data they have cut
// into other ones.
static int set_scoring(struct train_cluster *k, const struct train_options *t,
                       const struct train_settings *s, struct err *e)
{
    k->workers_score = t->score_by == 1;
    if (k->workers_score && s->valid_fraction > 0)
        return err_set(e, TUG_EUSAGE,
                       "--score-by workers, and --valid %g: workers score files; give a "
                       "file, or leave --score-by out",
                       s->valid_fraction);
    if (k->workers_score && t->test.n == 0 && t->valid == NULL)
        return err_set(e, TUG_EUSAGE,
                       "--score-by is of no use without --valid or --test: it says who "
                       "scores them");
    return 0;
}

// Examples that are computed together have a mean and a variance of their own.
static int check_batch_norm(const struct train_config *c, struct err *e)
{
    uint32_t least = c->deterministic ? SYNC_MICROS + 1 : 2;
    if (!c->model.batch_norm || c->batch >= least)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "--batch-norm: with --batch %u%s each example is computed alone, and "
                   "one has no variance: give --batch %u or more",
                   c->batch, c->deterministic ? ", a sixteenth of it at a time," : "",
                   least);
}

// What would be passed over in silence.
static int check_use(const struct train_config *c, const struct options *o, struct err *e)
{
    const char *of_clusters = options_given_of_group(o, TRAIN_OF_CLUSTERS);
    if (c->cluster == NULL && of_clusters != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--%s is of no use on one machine: it is about workers and "
                       "servers, as 'tug launch' starts them",
                       of_clusters);
    if (c->reduce_mean && !c->deterministic)
        return err_set(e, TUG_EUSAGE,
                       "--reduce mean is of no use without --deterministic or --mode "
                       "sync: else no batch is applied as a whole, or its gradients are "
                       "added; a smaller --lr does the same");
    return 0;
}

static int set_mode(struct train_setup *setup, const struct train_options *t,
                    const struct options *o, const struct train_settings *s,
                    struct err *e)
{
    struct train_config *c = &setup->config;
    if (c->model.ops->dense != NULL && t->rules == TRAIN_RULES_WORKER &&
        !train_mode_copies(s->mode))
        return err_set(e, TUG_EUSAGE,
                       "--rules worker: layers are updated by the servers, or by the one "
                       "process, or in --mode geo:K and elastic:K; give auto or server");
    TRY(c->cluster != NULL ? set_mode_cluster(setup, t, o, s, e)
                           : set_mode_alone(c, s, e));
    TRY(set_shuffle(&setup->cluster, t, e));
    TRY(check_use(c, o, e));
    TRY(check_batch_norm(c, e));
    return set_scoring(&setup->cluster, t, s, e);
}

int train_read_table(struct table_config *c, const char *text, struct err *e)
{
    if (strchr(text, '=') != NULL || !file_exists(text))
        return err_in(table_config_parse(c, text, e), "--table", e);
    struct buf b = BUF_INIT(1 << 16);
    int rc = file_read(text, &b, e);
    if (rc == 0)
        rc = err_in(table_config_parse(c, buf_str(&b), e), text, e);
    buf_free(&b);
    return rc;
}

// What the run says of its table, from which settings may not differ. From then on they
// stay out of c, so that the same run has the same settings.
static int take_run_settings(struct table_config *c, const struct table_config *run,
                             const struct table_config *usual, struct err *e)
{
    const struct {
        const char *name, *instead;
        bool differs;
    } settings[] = {
        {"dim", ", or give that as --dim", c->accessor.dim != run->accessor.dim},
        {"seed", ", or give that as --seed", c->seed != run->seed},
        {"mode", ", or give that as --mode",
         c->mode != run->mode || c->staleness != run->staleness},
        {"reduce", ", or give that as --reduce", c->mean != run->mean},
        {"placement", "", c->place != run->place},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        if (settings[i].differs)
            return err_set(e, TUG_EUSAGE,
                           "--table: the setting '%s' follows from the run, which has "
                           "another one: leave it out%s",
                           settings[i].name, settings[i].instead);
    c->accessor.dim = usual->accessor.dim;
    c->seed = usual->seed;
    c->mode = usual->mode;
    c->staleness = usual->staleness;
    c->mean = usual->mean;
    return 0;
}

static int read_run_table(struct train_setup *setup, const char *text, struct err *e)
{
    const struct train_config *c = &setup->config;
    struct table_config usual = run_living_defaults(&c->model), run = usual;
    bool sync = c->deterministic || setup->cluster.mode == CONFIG_SYNC;
    run.accessor.dim = c->model.dim;
    run.seed = c->model.seed;
    run.mode = sync ? CONFIG_SYNC : setup->cluster.mode;
    run.staleness = setup->cluster.staleness;
    run.mean = sync && c->reduce_mean;
    setup->table = run;
    TRY(train_read_table(&setup->table, text, e));
    return take_run_settings(&setup->table, &run, &usual, e);
}

static int set_table(struct train_setup *setup, const struct train_options *t,
                     const struct options *o, struct err *e)
{
    struct train_config *c = &setup->config;
    if (t->valid != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--table and --valid cannot be used together: of tables made from "
                       "settings the best pass cannot be kept");
    if (t->prior != 0 && options_given(o, "prior"))
        return err_set(e, TUG_EUSAGE,
                       "--table and --prior cannot be used together: rows of such tables "
                       "do not count their updates; use --l2");
    if (t->data_norm)
        return err_set(
            e, TUG_EUSAGE,
            "--table and --data-norm cannot be used together: some features of "
            "such tables have no vector, and their numbers no place");
    if (t->dims != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--table and --dims cannot be used together: vectors of such "
                       "tables are made with one length; use --dim");
    if (setup->cluster.bf16)
        return err_set(e, TUG_EUSAGE,
                       "--table and --values bf16 cannot be used together: shows and "
                       "clicks would be rounded");
    TRY(read_run_table(setup, t->table, e));
    c->table = &setup->table;
    return 0;
}

static int check_paths(const struct train_config *c, const struct path_list *l,
                       bool twice, struct problems *problems, struct err *e)
{
    struct data_files files = {.command = l->command, .interrupted = c->interrupted};
    int rc = data_files_add_all(&files, l->items, l->n, problems, e);
    const struct data_file *pipe = twice ? data_files_pipe(&files) : NULL;
    if (rc == 0 && pipe != NULL)
        rc = err_set(e, TUG_EUSAGE,
                     "--refit reads the data twice, and %s is a pipe, which comes once: "
                     "write it to a file",
                     pipe->name);
    data_files_free(&files);
    return rc;
}

// The worker and the driver of a cluster each see their own data, and open it themselves.
static int check_data(const struct train_config *c, bool refit, struct err *e)
{
    struct problems problems = PROBLEMS_INIT;
    int rc = check_paths(c, &c->data, refit, &problems, e);
    if (rc == 0)
        rc = check_paths(c, &c->test, false, &problems, e); // after the second run only
    if (rc == 0)
        rc = check_paths(c, &c->valid, refit, &problems, e);
    if (rc == 0)
        rc = problems_tell(&problems, e);
    problems_free(&problems);
    return rc;
}

// Lines that belong together lie anywhere in the data.
static int check_merge(const struct train_options *t, const struct node *node,
                       struct err *e)
{
    struct merge m = {0};
    struct dataset_options waste;
    TRY(merge_begin(&m, t->merge_ids, &waste, e));
    if (t->merge_ids == NULL)
        return 0;
    if (node != NULL)
        return err_set(
            e, TUG_EUSAGE,
            "--merge-ids needs all of the data in one process; merge it first");
    if (t->data_in == DATA_IN_STREAM)
        return err_set(e, TUG_EUSAGE,
                       "--merge-ids needs the data in memory: not --data-in stream");
    if (t->group != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--merge-ids: examples are several lines, and --group is of one");
    return 0;
}

// They look at rows of this process, between two of its batches; on a cluster the driver looks
// at the servers' rows.
static int check_looks(const struct train_config *c, const struct options *o,
                       struct err *e)
{
    if (c->fetch == NULL && c->dump == NULL) {
        bool fields = c->dump_fields != NULL;
        return !fields && !options_given(o, "fetch-every")
                   ? 0
                   : err_set(e, TUG_EUSAGE, "--%s is of no use without --%s",
                             fields ? "dump-fields" : "fetch-every",
                             fields ? "dump" : "fetch or --dump");
    }
    if (c->dump_fields != NULL && c->dump == NULL)
        return err_set(e, TUG_EUSAGE, "--dump-fields is of no use without --dump");
    if (c->table != NULL || c->publish != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--%s cannot be used with --table, whose rows come and go, or "
                       "--publish, whose rows a server has: 'tug table get' and 'top' "
                       "look at those",
                       c->fetch != NULL ? "fetch" : "dump");
    if (c->cluster != NULL && c->dump_fields != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--dump-fields is of examples, which are with the workers: on a "
                       "cluster --dump writes layers only");
    if (c->merge != NULL && c->dump_fields != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--dump-fields: with --merge-ids an example is several lines");
    return 0;
}

static struct reader_options reader_options_of(struct train_setup *setup,
                                               const struct train_options *t,
                                               const struct options *o,
                                               const struct train_settings *s)
{
    return (struct reader_options){
        .format = options_given(o, "format")
                      ? options_word(TRAIN_FORMATS, t->format, setup->format)
                      : NULL,
        .loss = (enum loss)t->loss,
        .loss_given = options_given(o, "loss"),
        .labels = true,
        .fields = (uint32_t)t->fields,
        .label_column = t->label,
        .drop = t->drop,
        .numeric = t->numeric,
        .slots = t->slots,
        .weight_column = t->weight_column,
        .lists = t->lists,
        .list_separator = s->list_separator,
        .missing = t->missing,
        .cross_columns = t->cross_columns,
        .columns = t->columns,
        .separator = options_given(o, "separator") ? s->separator : (char)0,
        .allow_missing = t->allow_missing,
    };
}

// What the options say as they are, before it is checked against anything.
static void set_config(struct train_setup *setup, const struct train_options *t,
                       const struct options *o, const struct train_settings *s,
                       struct node *node)
{
    setup->json = t->json;
    setup->cluster = (struct train_cluster){.node = node, .course = &course_cluster};
    setup->valid[0] = s->valid;
    setup->config = (struct train_config){
        .data = {t->data.items, t->data.n, t->pipe_command},
        .test = {t->test.items, t->test.n, t->pipe_command},
        .valid = {setup->valid, s->valid != NULL, t->pipe_command},
        .valid_fraction = s->valid_fraction,
        .group = t->group,
        .merge = t->merge_ids,
        .reader = reader_options_of(setup, t, o, s),
        .schedule = {(enum schedule_kind)t->schedule, t->schedule_a, t->schedule_b},
        .epochs = (uint32_t)t->epochs,
        .batch = (uint32_t)t->batch,
        .threads = model_threads(t->threads),
        .deterministic = t->deterministic,
        .average = t->average,
        .reduce_mean = t->reduce == 1,
        .data_in = (enum data_in)t->data_in,
        .window_bytes = t->window_mb << 20,
        .patience = (uint32_t)t->patience,
        .max_bad_lines = t->max_bad_lines,
        .out = t->out,
        .resume = (enum train_resume)t->resume,
        .init_from = t->init_from,
        .init_tables = t->init_tables,
        .save_passes = (uint32_t)s->save_passes,
        .save_batches = s->save_batches,
        .log_batches = t->log_every,
        .keep = (uint32_t)t->keep,
        .publish = t->publish,
        .publish_seconds = t->publish_every,
        .publish_deltas = (uint32_t)t->publish_deltas,
        .keep_names = t->keep_names,
        .fetch = t->fetch,
        .dump = t->dump,
        .dump_fields = t->dump_fields,
        .fetch_batches = t->fetch_every,
        .dims = t->dims,
        .interrupted = setup->interrupted,
    };
}

int train_configure(struct train_setup *setup, const struct train_options *t,
                    const struct options *o, struct node *node, struct err *e)
{
    struct train_config *c = &setup->config;
    struct train_settings s;
    TRY(train_options_check(t, o, &s, e));
    TRY(check_merge(t, node, e));
    set_config(setup, t, o, &s, node);
    if (node != NULL || t->table != NULL ||
        t->publish != NULL) // perhaps within this process
        c->cluster = &setup->cluster;
    TRY(set_model(&c->model, t, o, e));
    TRY(set_mode(setup, t, o, &s, e));
    if (t->table != NULL)
        TRY(set_table(setup, t, o, e));
    TRY(check_looks(c, o, e));
    setup->refit = t->refit;
    if (t->refit)
        TRY(train_check_refit(c, e));
    if (t->keep_names > 0 && t->out == NULL)
        return err_set(e, TUG_EUSAGE,
                       "--keep-names is of no use without --out, where words are saved");
    if (node == NULL)
        TRY(check_data(c, t->refit, e));
    else if (t->refit)
        TRY(train_set_stage(setup, e));
    return 0;
}

int train_setup_run(const struct train_setup *s, struct train_result *ret, struct err *e)
{
    const struct train_cluster *k = s->config.cluster;
    return s->refit                       ? refit_run(&s->config, ret, e)
           : k != NULL && k->node == NULL ? within_run(&s->config, ret, e)
                                          : train_run(&s->config, ret, e);
}
