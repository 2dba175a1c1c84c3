// Roles of a cluster in this process; see roles.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/nodes/roles.h"
#include "cli/log_options.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/train_output.h"

int training_words(int argc, char *const *argv, struct train_options *values,
                   struct options **ret_options, struct err *e)
{
    *ret_options = NULL;
    if (argc == 0)
        return 0;
    if (strcmp(argv[0], "train") != 0)
        return err_set(e, TUG_EUSAGE,
                       "only 'train' with its options can follow --, not '%.200s'",
                       argv[0]);
    TRY(options_parse(ret_options, &cli_train_options, argc - 1, argv + 1, values, 0, e));
    log_options_apply(&cli_train_options, *ret_options);
    return 0;
}

// Gets a role's options without arguments: the defaults and the environment.
static int from_environment(const struct option_table *table, void *values,
                            struct options **ret, struct err *e)
{
    return options_parse(ret, table, 0, NULL, values, 0, e);
}

static int be_scheduler(const struct role *r, const struct node_values *of,
                        const struct training *t, struct err *e)
{
    struct scheduler_values v = {0};
    struct options *o = NULL;
    TRY(from_environment(&cli_scheduler_options, &v, &o, e));
    scheduler_values_fill(&v, o, r);
    // The role's host and port are those of a server; the scheduler has its own address.
    if (r->scheme == ROLE_PADDLE) {
        v.node.scheduler = r->scheduler;
        v.node.host = NULL;
        v.node.port = 0;
        v.tells_late = true;
    }
    if (of != NULL) { // both roles have the cluster's name and keys of `of`
        v.node.cluster = of->cluster;
        v.node.ca = of->ca;
        v.node.cert = of->cert;
        v.node.key = of->key;
        v.node.insecure = of->insecure;
        v.node.log_level = of->log_level;
    }
    int rc = role_scheduler(&v, t, e);
    options_close(o);
    return rc;
}

struct beside {
    const struct role *role;
    const struct training *training;
    // Options of the server in this process; NULL: from the environment.
    const struct node_values *node;
    int rc;
    struct err error;
    atomic_bool failed; // the server cannot go on without the scheduler
};

static void *run_beside(void *arg)
{
    struct beside *b = arg;
    b->rc = be_scheduler(b->role, b->node, b->training, &b->error);
    if (b->rc != 0)
        atomic_store(&b->failed, true);
    return NULL;
}

int role_first_server(const struct server_values *v, const struct role *r,
                      const struct training *t, struct err *e)
{
    struct beside b = {.role = r, .training = t, .node = &v->node};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_beside, &b) != 0)
        return err_set(e, TUG_EIO, "cannot start the scheduler's thread");
    int rc = role_server(v, &b.failed, e);
    pthread_join(thread, NULL);
    if (b.rc != 0 && e != NULL)
        *e = b.error; // the scheduler's error has the reason why the run ended
    return b.rc != 0 ? b.rc : rc;
}

static int be_server(const struct role *r, const struct training *t, struct err *e)
{
    struct server_values v = {0};
    struct options *o = NULL;
    TRY(from_environment(&cli_server_options, &v, &o, e));
    node_values_fill(&v.node, o, r);
    int rc = r->hosts_scheduler ? role_first_server(&v, r, t, e)
                                : role_server(&v, NULL, e);
    options_close(o);
    return rc;
}

static int be_worker(const struct role *r, const struct training *t, struct err *e)
{
    struct worker_values v = {0};
    struct options *o = NULL;
    TRY(from_environment(&cli_worker_options, &v, &o, e));
    node_values_fill(&v.node, o, r);
    int rc = role_worker(&v, t, e);
    options_close(o);
    return rc;
}

int role_of_environment(const struct role *r, const struct train_options *t,
                        const struct options *o, struct err *e)
{
    struct training training = {t, o};
    node_catch_signals();
    if (r->role == WIRE_SCHEDULER)
        return be_scheduler(r, NULL, &training, e);
    return r->role == WIRE_SERVER ? be_server(r, &training, e)
                                  : be_worker(r, &training, e);
}
