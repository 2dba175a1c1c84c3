// Features that live; see lifecycle.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/lifecycle.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/below.h"
#include "base/relaxed.h"
#include "cluster/node.h"
#include "server/embedded.h"

int lifecycle_model(const struct table_config *t, const struct model *m,
                    struct model *ret, struct err *e)
{
    *ret = *m;
    return accessor_make(&ret->accessor, &t->accessor, e);
}

void lifecycle_put(const struct accessor *pulled, const struct accessor *own,
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

void lifecycle_copy_row(const struct accessor *from, const struct accessor *own,
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

int lifecycle_run(const struct train_config *c, struct train_result *ret, struct err *e)
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
