// Features that live; see lives.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/lives.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/below.h"
#include "base/relaxed.h"
#include "cluster/node.h"
#include "save/save.h"
#include "server/embedded.h"

int lives_model(const struct table_config *t, const struct model *m, struct model *ret,
                struct err *e)
{
    *ret = *m;
    return accessor_make(&ret->accessor, &t->accessor, e);
}

void lives_put(const struct accessor *pulled, const struct accessor *own,
               const float *values, float *ret_row)
{
    values += pulled->pulled_stats;
    for (uint32_t g = 0; g < own->n_groups; g++) {
        relaxed_store_n(ret_row + own->groups[g].weights, values, own->groups[g].n);
        values += own->groups[g].n;
    }
    if (own->count != ACCESSOR_NO_COUNT)
        relaxed_store(ret_row + own->count, 1);
}

// Loading for scores: tables as they were, then their rows as pulls return them.

struct copying {
    const struct accessor *from, *own;
    struct table *to;
};

void lives_copy_row(const struct accessor *from, const struct accessor *own,
                    const float *row, const float *extra, float *ret_row)
{
    for (uint32_t g = 0; g < own->n_groups; g++) {
        const struct accessor_group *group = &own->groups[g];
        const float *weights = g == 0 ? row : extra;
        for (uint32_t i = 0; i < group->n; i++)
            relaxed_store(ret_row + group->weights + i,
                          weights != NULL
                              ? relaxed_load(weights + from->groups[g].weights + i)
                              : 0);
    }
    if (own->count != ACCESSOR_NO_COUNT)
        relaxed_store(ret_row + own->count, 1);
}

static int copy_row(void *ctx, uint64_t key, const float *row, const float *extra,
                    struct err *e)
{
    struct copying *x = ctx;
    uint32_t handle;
    if (table_rows(x->to, &key, 1, &handle) != 0)
        return err_nomem(e, "the rows of a model");
    lives_copy_row(x->from, x->own, row, extra, table_row(table_slabs(x->to), handle));
    return 0;
}

static bool same_groups(const struct accessor *a, const struct accessor *b)
{
    bool same = a->n_groups == b->n_groups;
    for (uint32_t g = 0; g < a->n_groups && same; g++)
        same = a->groups[g].n == b->groups[g].n;
    return same;
}

static int copy_table(const struct save_chain *chain, const struct save_table *t,
                      const struct accessor *own, struct table *to, struct err *e)
{
    struct table_config config = t->config;
    config.cold[0] = 0;
    struct store_options o = {.config = &config, .partition_bits = t->partition_bits};
    struct store *s;
    TRY(store_open(&s, &o, e));
    struct copying x = {store_accessor(s), own, to};
    int rc = save_load(chain, config.name, s, NULL, NULL, e);
    if (rc == 0 && !same_groups(x.from, own))
        rc = err_set(e, TUG_EDATA, "the rows of table %s in %s are not this model's",
                     config.name, chain->paths[0]);
    for (uint32_t i = 0; rc == 0 && i < (uint32_t)1 << t->partition_bits; i++)
        rc = store_each(s, i, copy_row, &x, e);
    store_close(s);
    return rc;
}

static int load_chain(const struct save_chain *chain, struct parameters *p, struct err *e)
{
    const struct save_manifest *newest = &chain->saves[chain->n - 1];
    bool sparse = false, dense = false;
    for (size_t i = 0; i < newest->n_tables; i++) {
        const struct save_table *t = &newest->tables[i];
        bool is_sparse = strcmp(t->config.name, RUN_SPARSE) == 0;
        if (!is_sparse && strcmp(t->config.name, RUN_DENSE) != 0)
            continue;
        TRY(copy_table(chain, t, is_sparse ? &p->model.accessor : &p->model.bias,
                       is_sparse ? p->sparse : p->dense, e));
        *(is_sparse ? &sparse : &dense) = true;
    }
    if (sparse && dense)
        return 0;
    return err_set(e, TUG_EDATA, "%s does not hold both tables of a model",
                   chain->paths[chain->n - 1]);
}

int lives_load(const char *dir, struct parameters *p, struct err *e)
{
    char path[FILE_PATH_MAX];
    struct save_chain chain;
    TRY(file_join(path, dir, RUN_SPARSE, e));
    TRY(save_chain_open(&chain, path, e));
    int rc = load_chain(&chain, p, e);
    save_chain_close(&chain);
    return rc;
}

// A run in this process: a driver on this thread, a worker on another.

struct within {
    struct train_config config;
    struct table_config table;
    struct train_cluster cluster;
    struct node node;
    atomic_bool stop; // the worker's: there is no driver any more
    struct err end;
    pthread_t thread;
};

static int open_node(struct within *w, const struct train_config *c,
                     const struct embedded *l, struct err *e)
{
    struct node_options o = {.cluster = embedded_cluster(l),
                             .scheduler = embedded_scheduler(l),
                             .token = embedded_token(l)};
    TRY(node_open(&w->node, &o, e));
    w->config = *c;
    w->table = *c->table;
    w->config.table = &w->table;
    if (w->table.cold[0] != '\0') { // of this process, wherever that is
        char cold[FILE_PATH_MAX];
        TRY(below_absolute(w->table.cold, cold, e));
        TRY(table_config_set(&w->table, "cold", cold, e));
    }
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
    worker->config.interrupted = &worker->stop; // a signal is the driver's business
    if (pthread_create(&worker->thread, NULL, work, worker) != 0)
        return err_set(e, TUG_EIO, "cannot start a thread to train");
    int rc = train_run(&driver->config, ret, e);
    atomic_store(&worker->stop, rc != 0);
    pthread_join(worker->thread, NULL);
    // Of the two the worker knows why, unless it was told to stop.
    if (rc == 0 || rc == TUG_EINTERRUPTED || worker->end.code == 0 ||
        worker->end.code == TUG_EINTERRUPTED)
        return rc;
    *e = worker->end;
    return e->code;
}

int lives_run(const struct train_config *c, struct train_result *ret, struct err *e)
{
    struct train_config here = *c;
    here.cluster = NULL;
    if (run_steps_in_place(c))
        return train_run(&here, ret, e);
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
