// Options of `tug train` about how workers cooperate: --mode, where rules are applied,
// shuffling, and where scoring is done.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/train_config_internal.h"

#include "rule/rule.h"
#include "train/rows/micro.h"

static int set_mode_alone(struct train_config *c, const struct train_settings *s,
                          const struct options *o, struct err *e)
{
    if (s->mode == TRAIN_ASYNC && c->deterministic && options_given(o, "mode"))
        return err_set(e, TUG_EUSAGE,
                       "--deterministic and --mode async cannot be used together: in "
                       "async mode the result depends on which thread is faster; give "
                       "one of them");
    if (s->mode == TRAIN_SYNC)
        c->deterministic = true;
    else if (s->mode != TRAIN_ASYNC)
        return err_set(e, TUG_EUSAGE,
                       "--mode: on one machine there are async (the default) and sync; "
                       "the other modes need several workers");
    return 0;
}

// Sets --mode geo and elastic. Copies of a row that were trained separately are merged
// by adding a part of each copy's change. A state that decays cannot be merged in this
// way and stays with its worker; and weights that are computed from a state cannot be
// merged without the state.
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
        return err_set(
            e, TUG_EUSAGE,
            "--mode %s and --table cannot be used together: servers count the shows and "
            "clicks of such features, but a worker's own copy does not; use --mode async",
            t->mode);
    if (s->mode_n == 0 || s->mode_n > UINT32_MAX)
        return err_set(e, TUG_EUSAGE,
                       "--mode %s: K, the number of batches between two exchanges, must "
                       "be 1 or more%s",
                       t->mode, s->mode_n != 0 ? ", and below 2^32" : "");
    k->geo = (uint32_t)s->mode_n;
    k->elastic = s->mode == TRAIN_ELASTIC ? (float)s->mode_rate : 0;
    return 0;
}

// Chooses where rules are applied; some modes leave no choice.
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
        return err_set(
            e, TUG_EUSAGE,
            "--shuffle%s is for clusters: leave it out. On one machine the only "
            "worker shuffles all examples if they are in memory (--data-in)",
            k->shuffle ? " global" : "-by");
    if (k->shuffle && k->mode == CONFIG_SYNC)
        return err_set(e, TUG_EUSAGE,
                       "--shuffle global: in sync mode every worker holds all examples, "
                       "which are shuffled as a whole every pass; leave it out");
    if (k->shuffle_by != NULL && !k->shuffle)
        return err_set(e, TUG_EUSAGE, "--shuffle-by works only with --shuffle global");
    return 0;
}

// Default numbers of examples in a batch. Smaller batches make more messages; with larger
// batches, workers see each other's updates later. Measured with FM on MovieLens-1M, 2
// servers and 2 workers, 5 passes: AUC .8090 at 512 and 1,024, .8086 at 2,048, .8081 at
// 4,096; one process .8092. Layers are updated once per batch: DeepFM on the same cluster
// and data, 3 passes, .8139; one process .8178 at 256. In half-async mode, all rows are
// updated once per batch: FM on 80,000 rows of tug synth, 2 servers and 2 workers, 3
// passes: AUC .7030 at 256, .7016 at 512, .6973 at 1,024; with async .7162, with sync
// .7187.
enum { CLUSTER_BATCH = 1024, CLUSTER_BATCH_ONCE = 512 };

// Refuses options that a mode of a cluster does not support.
static int check_cluster(const struct train_config *c, const struct train_options *t,
                         const struct options *o, const struct train_settings *s,
                         struct err *e)
{
    const struct train_cluster *k = c->cluster;
    if (k->dense_bounded && (k->mode != CONFIG_ASYNC || k->geo > 0 || t->table != NULL ||
                             c->model.ops->dense == NULL))
        return err_set(e, TUG_EUSAGE,
                       "--dense-staleness bounds the batches that layers miss while rows "
                       "of features are async: give a model with layers, --mode async or "
                       "half-async, and no --table");
    if (k->mode == CONFIG_SYNC && k->bf16)
        return err_set(
            e, TUG_EUSAGE,
            "--values bf16 cannot be used in sync mode: each worker's sums would be "
            "rounded, so that the result would depend on the number of workers");
    if (k->mode == CONFIG_SYNC && options_given(o, "in-flight"))
        return err_set(e, TUG_EUSAGE,
                       "--in-flight: in sync mode a batch begins when the one before is "
                       "applied; leave it out, or use --mode async or ssp:S");
    if (k->mode == CONFIG_SYNC && t->backup_pieces)
        return err_set(e, TUG_EUSAGE,
                       "--backup-pieces: in sync mode each worker trains on a share of "
                       "every batch, not on pieces; leave it out, or use --mode async or "
                       "ssp:S");
    if (s->save_batches != 0 && t->table == NULL)
        return err_set(e, TUG_EUSAGE,
                       "--save-every: without --table a cluster saves between passes "
                       "only, so give a number of passes, not of batches");
    if (s->valid_part.share > 0 && k->mode != CONFIG_SYNC)
        return err_set(
            e, TUG_EUSAGE,
            "--valid %g: on a cluster, and with --publish, a share of the data "
            "needs --mode sync; give a file",
            s->valid_part.share);
    if (t->average == 0)
        return 0;
    const char *with = t->table != NULL     ? "--table, whose rows come and go"
                       : t->publish != NULL ? "--publish, which publishes what is trained"
                       : t->score_by == 1   ? "--score-by workers: give --score-by driver"
                       : k->node == NULL    ? "servers within one process"
                                            : NULL;
    if (with != NULL)
        return err_set(e, TUG_EUSAGE, "--average cannot be used with %s", with);
    return 0;
}

// Sets the mode of a run on a cluster. --deterministic implies sync, the only mode in
// which the result does not depend on workers.
static int set_mode_cluster(struct train_setup *setup, const struct train_options *t,
                            const struct options *o, const struct train_settings *s,
                            struct err *e)
{
    struct train_config *c = &setup->config;
    struct train_cluster *k = &setup->cluster;
    if (k->node == NULL && (s->mode == TRAIN_HALF_ASYNC || train_mode_copies(s->mode)))
        return set_mode_alone(c, s, o, e);
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
    k->backups = t->backup_pieces;
    if (k->mode != CONFIG_SYNC && !options_given(o, "batch"))
        c->batch = c->model.ops->dense != NULL || s->mode == TRAIN_HALF_ASYNC
                       ? CLUSTER_BATCH_ONCE
                       : CLUSTER_BATCH;
    return check_cluster(c, t, o, s, e);
}

// Sets whether the workers or the driver score. Workers score files of --valid and
// --test, piece by piece. They cannot score a fraction of the training data, because its
// examples do not form pieces.
static int set_scoring(struct train_cluster *k, const struct train_options *t,
                       const struct train_settings *s, struct err *e)
{
    k->workers_score = t->score_by == 1;
    if (k->workers_score && s->valid_part.share > 0)
        return err_set(e, TUG_EUSAGE,
                       "--score-by workers, and --valid %g: workers score files; give a "
                       "file, or leave --score-by out",
                       s->valid_part.share);
    if (k->workers_score && t->test.n == 0 && t->valid == NULL)
        return err_set(e, TUG_EUSAGE,
                       "--score-by needs --valid or --test: it chooses the processes "
                       "that score them");
    return 0;
}

// With --batch-norm, checks that a step computes more than one example at a time, because
// batch normalisation needs the variance over several examples.
static int check_batch_norm(const struct train_config *c, struct err *e)
{
    uint32_t least = c->deterministic ? SYNC_MICROS + 1 : 2;
    if (!c->model.batch_norm || c->batch >= least)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "--batch-norm: with --batch %u%s each example is computed alone and "
                   "has no variance: give --batch %u or more",
                   c->batch, c->deterministic ? ", a sixteenth of it at a time," : "",
                   least);
}

// Refuses options that would have no effect.
static int check_use(const struct train_config *c, const struct options *o, struct err *e)
{
    const char *of_clusters = options_given_of_group(o, TRAIN_OF_CLUSTERS);
    if (c->cluster == NULL && of_clusters != NULL)
        return err_set(
            e, TUG_EUSAGE,
            "--%s only works on a cluster of workers and servers, such as 'tug "
            "launch' starts it",
            of_clusters);
    if (c->reduce_mean && !c->deterministic)
        return err_set(e, TUG_EUSAGE,
                       "--reduce mean needs --deterministic or --mode "
                       "sync: in other modes gradients of a batch are not averaged; a "
                       "smaller --lr has the same effect");
    return 0;
}

int train_set_mode(struct train_setup *setup, const struct train_options *t,
                   const struct options *o, const struct train_settings *s, struct err *e)
{
    struct train_config *c = &setup->config;
    if (c->model.ops->dense != NULL && t->rules == TRAIN_RULES_WORKER &&
        !train_mode_copies(s->mode))
        return err_set(e, TUG_EUSAGE,
                       "--rules worker: workers update layers only in --mode geo:K and "
                       "elastic:K; give auto or server");
    TRY(c->cluster != NULL ? set_mode_cluster(setup, t, o, s, e)
                           : set_mode_alone(c, s, o, e));
    TRY(set_shuffle(&setup->cluster, t, e));
    TRY(check_use(c, o, e));
    TRY(check_batch_norm(c, e));
    return set_scoring(&setup->cluster, t, s, e);
}
