// Features that live; see lives.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/lives.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/relaxed.h"
#include "cluster/node.h"
#include "server/embedded.h"
#include "table/save.h"

static_assert((int)CONFIG_ASYNC == WIRE_ASYNC && (int)CONFIG_SSP == WIRE_SSP &&
                  (int)CONFIG_SYNC == WIRE_SYNC,
              "modes have one order");

struct table_config lives_defaults(const struct model_options *o)
{
    struct table_config t = table_config_defaults();
    snprintf(t.accessor.name, sizeof(t.accessor.name), "sparse");
    t.accessor.rule = o->linear;
    t.accessor.extra = o->latent;
    // They count updates, which rows with a life do not.
    t.accessor.rule.prior = t.accessor.extra.prior = 0;
    t.accessor.life.show_scale = false;
    t.extra_low = -o->init;
    t.extra_high = o->init;
    return t;
}

int lives_config(const struct train_config *c, const struct model *m,
                 struct table_config *ret, struct err *e)
{
    *ret = *c->table;
    snprintf(ret->name, sizeof(ret->name), LIVES_TABLE);
    ret->accessor.dim = (uint32_t)model_latent(m);
    ret->seed = m->options.seed;
    ret->mode = (enum config_mode)c->cluster->mode;
    ret->staleness = c->cluster->mode == WIRE_SSP ? c->cluster->staleness : 0;
    ret->mean = c->reduce_mean;
    ret->place = CONFIG_HASH;
    if (ret->rate.kind != RATE_CONSTANT || ret->rate.warmup != 0)
        return err_set(e, TUG_EUSAGE,
                       "--table: rate: the rates of a training run are --schedule's");
    struct accessor a;
    TRY(accessor_make(&a, &ret->accessor, e));
    if (a.n_groups != m->accessor.n_groups || a.groups[0].n != 1 || a.pushed_stats != 3)
        return err_set(e, TUG_EUSAGE,
                       "--table: rows of accessor %s are no features of a model; there "
                       "are sparse, ctr and ctr_double",
                       ret->accessor.name);
    return table_config_check(ret, e);
}

int lives_model(const struct table_config *t, const struct model *m, struct model *ret,
                struct err *e)
{
    *ret = *m;
    return accessor_make(&ret->accessor, &t->accessor, e);
}

void lives_put(const struct accessor *pulled, const struct model *m, const float *values,
               float *ret_row)
{
    const struct accessor *own = &m->accessor;
    values += pulled->pulled_stats;
    for (uint32_t g = 0; g < own->n_groups; g++) {
        relaxed_store_n(ret_row + own->groups[g].weights, values, own->groups[g].n);
        values += own->groups[g].n;
    }
    relaxed_store(ret_row + own->count, 1);
}

// Loading for scores: the table as it was, then its rows as pulls return them.

struct copying {
    const struct store *from;
    struct parameters *to;
};

static int copy_row(void *ctx, uint64_t key, const float *row, const float *extra,
                    struct err *e)
{
    struct copying *x = ctx;
    const struct accessor *a = store_accessor(x->from);
    const struct accessor *own = &x->to->model.accessor;
    uint32_t handle;
    if (table_rows(x->to->sparse, &key, 1, &handle) != 0)
        return err_nomem(e, "the rows of a model");
    float *to = table_row(table_slabs(x->to->sparse), handle);
    for (uint32_t g = 0; g < own->n_groups; g++) {
        const float *from = g == 0 ? row : extra;
        for (uint32_t i = 0; i < own->groups[g].n; i++)
            relaxed_store(to + own->groups[g].weights + i,
                          from != NULL ? from[a->groups[g].weights + i] : 0);
    }
    relaxed_store(to + own->count, 1);
    return 0;
}

static int copy_rows(struct store *s, uint32_t partitions, struct parameters *p,
                     struct err *e)
{
    struct copying x = {s, p};
    for (uint32_t i = 0; i < partitions; i++)
        TRY(store_each(s, i, copy_row, &x, e));
    return 0;
}

static int load_chain(const struct save_chain *chain, struct parameters *p, struct err *e)
{
    const struct save_manifest *newest = &chain->saves[chain->n - 1];
    if (newest->n_tables != 1)
        return err_set(e, TUG_EDATA, "%s holds %zu tables, not one", chain->paths[0],
                       newest->n_tables);
    struct table_config config = newest->tables[0].config;
    config.cold[0] = 0;
    struct store_options o = {.config = &config,
                              .partition_bits = newest->tables[0].partition_bits};
    struct store *s;
    TRY(store_open(&s, &o, e));
    int rc = save_load(chain, LIVES_TABLE, s, NULL, NULL, e);
    const struct accessor *a = store_accessor(s), *own = &p->model.accessor;
    if (rc == 0 && (a->n_groups != own->n_groups || a->groups[0].n != 1 ||
                    a->groups[a->n_groups - 1].n != own->groups[own->n_groups - 1].n))
        rc = err_set(e, TUG_EDATA, "the rows in %s are not this model's",
                     chain->paths[0]);
    if (rc == 0)
        rc = copy_rows(s, (uint32_t)1 << o.partition_bits, p, e);
    store_close(s);
    return rc;
}

int lives_load(const char *dir, struct parameters *p, struct err *e)
{
    char path[FILE_PATH_MAX];
    struct save_chain chain;
    TRY(file_join(path, dir, LIVES_TABLE, e));
    TRY(save_chain_open(&chain, path, e));
    int rc = load_chain(&chain, p, e);
    save_chain_close(&chain);
    return rc;
}

// A run in this process: a driver on this thread, a worker on another.

struct within {
    struct train_config config;
    struct train_cluster cluster;
    struct node node;
    struct err end;
    pthread_t thread;
};

static int open_node(struct within *w, const struct train_config *c,
                     const struct embedded *l, struct err *e)
{
    struct node_options o = {.cluster = embedded_cluster(l),
                             .scheduler = embedded_scheduler(l)};
    TRY(node_open(&w->node, &o, e));
    w->config = *c;
    w->cluster = *c->cluster;
    w->cluster.node = &w->node;
    w->config.cluster = &w->cluster;
    return 0;
}

static void *work(void *arg)
{
    struct within *w = arg;
    (void)train_worker_run(&w->config, &w->end);
    return NULL;
}

static int run(const struct train_config *c, const struct embedded *l,
               struct within *worker, struct within *driver, struct train_result *ret,
               struct err *e)
{
    TRY(open_node(worker, c, l, e));
    TRY(open_node(driver, c, l, e));
    worker->config.interrupted = NULL; // the pass is finished first
    if (pthread_create(&worker->thread, NULL, work, worker) != 0)
        return err_set(e, TUG_EIO, "cannot start a thread to train");
    int rc = train_run(&driver->config, ret, e);
    pthread_join(worker->thread, NULL);
    // Of the two the worker knows why.
    if (rc == 0 || rc == TUG_EINTERRUPTED || worker->end.code == 0)
        return rc;
    *e = worker->end;
    return e->code;
}

int lives_run(const struct train_config *c, struct train_result *ret, struct err *e)
{
    struct embedded *l;
    struct within *both = mem_zalloc(2 * sizeof(*both));
    if (both == NULL)
        return err_nomem(e, "a run");
    int rc = embedded_open(&l, 1, e);
    if (rc == 0) {
        rc = run(c, l, &both[0], &both[1], ret, e);
        node_close(&both[0].node);
        node_close(&both[1].node);
        embedded_close(l);
        ret->workers = ret->servers = 0;
    }
    mem_free(both);
    return rc;
}
