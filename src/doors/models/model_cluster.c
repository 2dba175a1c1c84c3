// See model_cluster.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/models/model_cluster.h"

#include <stdlib.h>

#include "doors/tables/tug_client.h"
#include "runtime/last_error.h"

static const char *get_variable(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

int model_cluster_find(struct tug_model *m, const struct tug_model_options *o,
                       struct err *e)
{
    struct role role;
    m->client = o->client;
    m->own_files = o->own_files;
    if (o->client != NULL)
        return !o->client->o.guest
                   ? 0
                   : err_set(e, TUG_EUSAGE,
                             "the client is a guest of its cluster, and only a worker "
                             "trains there: open it without `guest`");
    if (o->alone)
        return 0;
    TRY(role_read(&role, WIRE_NOBODY, get_variable, NULL, e));
    if (role.scheme == ROLE_NONE)
        return 0;
    m->joins = role.role == WIRE_WORKER;
    return m->joins
               ? 0
               : err_set(e, TUG_EUSAGE,
                         "the environment makes this process the %s of a cluster "
                         "(%s), and only workers train: let it serve (tug_node_start "
                         "of tug/kvapp.h, tug.serve in Python), or let it train alone "
                         "(alone = true)",
                         role.role == WIRE_SERVER ? "server" : "scheduler",
                         role.scheme == ROLE_DMLC ? "DMLC_ROLE" : "TRAINING_ROLE");
}

void model_cluster_leave(struct tug_model *m)
{
    if (m->joins && m->client != NULL)
        (void)tug_client_close(m->client);
    m->client = NULL;
}

int model_cluster_check(const struct tug_model *m, const struct train_options *t,
                        const struct tug_data *data, const struct tug_data *valid,
                        struct err *e)
{
    const char *what = valid != NULL || t->valid != NULL ? "--valid"
                       : t->refit                        ? "--refit"
                       : t->table != NULL                ? "--table"
                       : t->shuffle == 1                 ? "--shuffle global"
                       : t->score_by == 1                ? "--score-by workers"
                       : t->keep_names > 0               ? "--keep-names"
                       : t->average > 0                  ? "--average"
                       : t->publish != NULL              ? "--publish"
                       : t->fetch != NULL                ? "--fetch"
                       : t->dump != NULL                 ? "--dump"
                                                         : NULL;
    if (m->client == NULL && !m->joins)
        return 0;
    if (data != NULL && given_rows_are(data))
        return err_set(e, TUG_EUSAGE,
                       "training on a cluster reads files, but the data is rows in "
                       "memory: write them to a file, or train alone");
    if (what == NULL)
        return 0;
    return err_set(
        e, TUG_EUSAGE,
        "%s needs a driver, which only 'tug launch -- train' has: leave it out%s", what,
        what[2] == 'v' ? ", and evaluate the model after each call" : "");
}

int model_cluster_join(struct tug_model *m, const struct train_options *t, struct err *e)
{
    if (m->client != NULL || !m->joins)
        return 0;
    struct tug_client_options o = {
        .bf16 = t->values == 1, .pack_keys = t->pack_keys, .cache_keys = t->cache_keys};
    int rc = tug_client_open(&m->client, &o);
    if (rc != 0 && e != last_error())
        *e = *last_error();
    return rc;
}

bool model_cluster_first(const struct tug_model *m)
{
    return tug_client_rank(m->client) == 0;
}

struct node *model_cluster_node(const struct tug_model *m)
{
    static struct node nowhere; // means: will join a cluster; its members are never read
    if (m->client != NULL)
        return &m->client->node;
    return m->joins ? &nowhere : NULL;
}

// A wait for other workers is reported after the time limit of waits divided by this
// number: 600 s / 20 = 30 s.
enum { PATIENCE_PARTS = 20 };

// Leaves the cluster after the error *e, so that the other workers do not wait for this
// worker. Later calls of this worker fail with the same error: without this, they would
// wait for servers that no longer know the worker.
static void leave_others(struct client *c, const struct err *e)
{
    struct err why;
    (void)client_leave(c, e, NULL);
    err_set(&why, e->code, "this worker left its cluster when its training failed: %s",
            e->text);
    client_abandon(c, &why);
}

int model_cluster_run(struct tug_model *m, struct train_setup *s, uint32_t passes,
                      struct train_result *ret, struct err *e)
{
    struct tug_client *c = m->client;
    struct train_peer peer = {.van = c->van,
                              .client = c->client,
                              .own_files = m->own_files,
                              .begun = m->begun,
                              .passes = m->passes,
                              .call = ++c->trainings,
                              .patience = c->o.wait_seconds / PATIENCE_PARTS};
    s->cluster.course = &course_peer;
    s->cluster.peer = &peer;
    if (s->config.threads > 1 && s->cluster.mode != CONFIG_SYNC)
        s->cluster.together = true; // the other nodes see all passes as one training
    pump_enter(c->pump);
    int rc = train_setup_run(s, ret, e);
    if (rc != 0 && c->workers > 1)
        leave_others(c->client, e);
    pump_leave(c->pump);
    s->cluster.peer = NULL;
    if (rc == 0) {
        m->passes += passes;
        m->begun = true;
    }
    return rc;
}
