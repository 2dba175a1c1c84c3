// A run in one process with a server: the driver runs in this thread and a worker in
// another. See within.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/within.h"

#include <pthread.h>

#include "base/alloc.h"
#include "cluster/node.h"
#include "os/below.h"
#include "server/embedded.h"
#include "train/rows/run_tables.h"
#include "train_cluster/remote.h"

struct within {
    struct train_config config;
    struct table_config table;
    struct train_cluster cluster;
    struct node node;
    atomic_bool stop; // set to stop the worker when the driver has ended
    struct err end;
    pthread_t thread;
};

static int set_table(struct within *w, const struct table_config *t, struct err *e)
{
    w->table = *t;
    w->config.table = &w->table;
    if (w->table.cold[0] == '\0')
        return 0;
    char cold[FILE_PATH_MAX]; // absolute path of the directory for cold rows
    TRY(below_absolute(w->table.cold, cold, e));
    return table_config_set(&w->table, "cold", cold, e);
}

static int open_node(struct within *w, const struct train_config *c,
                     const struct embedded *l, struct err *e)
{
    struct node_options o = {.cluster = embedded_cluster(l),
                             .scheduler = embedded_scheduler(l),
                             .token = embedded_token(l)};
    TRY(node_open(&w->node, &o, e));
    w->config = *c;
    w->cluster = *c->cluster;
    w->cluster.node = &w->node;
    w->cluster.within = true;
    w->cluster.course = &course_cluster;
    w->config.cluster = &w->cluster;
    return c->table != NULL ? set_table(w, c->table, e) : 0;
}

static void *within_work(void *arg)
{
    struct within *w = arg;
    (void)remote_worker_run(&w->config, NULL, &w->end);
    return NULL;
}

static int within_run_both(const struct train_config *c, const struct embedded *l,
                           struct within *worker, struct within *driver,
                           struct train_result *ret, struct err *e)
{
    TRY(open_node(worker, c, l, e));
    TRY(open_node(driver, c, l, e));
    worker->config.interrupted = &worker->stop; // signals are handled by the driver
    if (pthread_create(&worker->thread, NULL, within_work, worker) != 0)
        return err_set(e, TUG_EIO, "cannot start a thread to train");
    int rc = train_run(&driver->config, ret, e);
    atomic_store(&worker->stop, rc != 0);
    pthread_join(worker->thread, NULL);
    // If the worker has failed by itself, its error is also the reason why the driver
    // failed.
    if (rc == 0 || rc == TUG_EINTERRUPTED || worker->end.code == 0 ||
        worker->end.code == TUG_EINTERRUPTED)
        return rc;
    *e = worker->end;
    return e->code;
}

int within_run(const struct train_config *c, struct train_result *ret, struct err *e)
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
        rc = within_run_both(c, l, &both[0], &both[1], ret, e);
        node_close(&both[0].node);
        node_close(&both[1].node);
        embedded_close(l);
        ret->workers = ret->servers = 0;
    }
    mem_free(both);
    return rc;
}
