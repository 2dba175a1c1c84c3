// A trainer in the scheme of Paddle's first version: a worker; the first trainer also
// runs the driver, on a thread beside it. The scheduler is in the first server's process,
// which can learn only by a message that a trainer is missing. So a trainer asks the
// scheduler for the sizes of the run before it joins, and tells it when it fails.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/nodes/roles.h"
#include "cli/train_output.h"
#include "run/train_resumed.h"
#include "runtime/tool.h"

enum {
    ASK_SECONDS = 60,
    TELL_SECONDS = 1, // short, because the run may have ended already
};

struct trainer {
    const struct role *role;
    const struct training *training;
    struct worker_values worker;
    // Settings and result of the driver, which runs in the first trainer.
    struct train_setup setup;
    struct train_result result;
    int rc;
    struct err error;
};

// Asks the scheduler to end the run for all processes, with this trainer's error. If the
// trainer lacks the right to do so, the scheduler notices later that the trainer is
// missing.
static void stop_run(struct tool *scheduler, const struct err *why)
{
    struct msg_stop stop = {
        .code = why->code, .reason = (uint16_t)why->reason, .why = wire_text(why->text)};
    (void)tool_ask(scheduler, MSG_STOP, &stop, TELL_SECONDS, NULL);
}

// Returns whether the error ends the run for all processes, because the trainer would
// fail again.
static bool concerns_all(int rc)
{
    return rc == TUG_EUSAGE || rc == TUG_EDATA || rc == TUG_ENOMEM || rc == TUG_EINTERNAL;
}

static void tell_failure(const struct trainer *t, int rc, const struct err *why)
{
    struct opened_node n;
    struct tool scheduler = {0};
    struct node_values v = t->worker.node;
    if (!concerns_all(rc))
        return;
    v.connect_timeout = TELL_SECONDS;
    if (node_values_open(&n, &v, WIRE_OPERATOR, NULL) == 0) {
        if (tool_open(&scheduler, &n.node, n.node.scheduler, TELL_SECONDS, NULL) == 0)
            stop_run(&scheduler, why);
        tool_close(&scheduler);
    }
    opened_node_close(&n);
}

static int role_trainer_compare(const struct role *r, const json_t *run, struct err *e)
{
    uint32_t servers = (uint32_t)tool_count(run, "servers_wanted"),
             workers = (uint32_t)tool_count(run, "workers_wanted");
    if (r->servers != servers)
        return err_set(e, TUG_EUSAGE,
                       "--pservers names %u server%s, but the run has %u: all of its "
                       "processes need the same list",
                       r->servers, PLURAL_S(r->servers), servers);
    if (r->workers != 0 && r->workers != workers)
        return err_set(e, TUG_EUSAGE,
                       "--num_gradient_servers is %u, but the first server was told %u: "
                       "all processes of the run need the same number",
                       r->workers, workers);
    return 0;
}

// Waits for the scheduler, and checks this trainer's numbers of servers and trainers.
// While the run gathers its processes, wrong numbers end the run for all of them.
static int check_sizes(const struct trainer *t, struct err *e)
{
    struct opened_node n;
    struct tool scheduler = {.interrupted = &node_interrupted};
    json_t *run = NULL;
    struct err why = {0};
    int rc = node_values_open(&n, &t->worker.node, WIRE_OPERATOR, e);
    if (rc == 0)
        rc = tool_open(&scheduler, &n.node, n.node.scheduler,
                       t->worker.node.connect_timeout, &why);
    if (rc == TUG_EIO && why.code != 0)
        err_add(&why,
                "; start 'tug pserver' on the first host of --pservers, with the same "
                "--port");
    if (why.code != 0)
        err_copy(e, &why);
    if (rc == 0)
        rc = tool_status(&scheduler, ASK_SECONDS, &run, e);
    if (rc == 0 && (rc = role_trainer_compare(t->role, run, &why)) != 0) {
        if (strcmp(tool_text(run, "phase"), "gathering") == 0)
            stop_run(&scheduler, &why);
        *e = why;
    }
    json_decref(run);
    tool_close(&scheduler);
    opened_node_close(&n);
    return rc;
}

static int role_trainer_work(struct trainer *t, struct err *e)
{
    return role_worker(&t->worker, t->training, e);
}

static void *drive(void *arg)
{
    struct trainer *t = arg;
    struct opened_node n;
    t->setup.interrupted = &node_interrupted;
    int rc = node_values_open(&n, &t->worker.node, WIRE_SCHEDULER, &t->error);
    if (rc == 0)
        rc = train_configure(&t->setup, t->training->values, t->training->options,
                             &n.node, &t->error);
    if (rc == 0)
        rc = train_open_log(t->training->values, t->training->options, &n.node,
                            &t->error);
    if (rc == 0)
        rc = train_tell_taken(
            &t->setup, train_run(&t->setup.config, &t->result, &t->error), &t->error);
    opened_node_close(&n);
    t->rc = rc;
    if (rc != 0) {
        // without a driver, all other processes would wait until their deadline
        tell_failure(t, rc, &t->error);
        atomic_store(&node_interrupted, true);
    }
    return NULL;
}

static int work_and_drive(struct trainer *t, struct err *e)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, drive, t) != 0) {
        err_set(e, TUG_EIO, "cannot start the thread that drives the training");
        tell_failure(t, TUG_EIO, e);
        return TUG_EIO;
    }
    int rc = role_trainer_work(t, e);
    if (rc != 0)
        atomic_store(&node_interrupted, true);
    pthread_join(thread, NULL);
    if (t->rc == TUG_EINTERRUPTED)
        train_report_interrupted(&t->setup, &t->result, t->result.servers,
                                 t->result.workers, &t->error);
    // If the scheduler has ended the worker with the run, the driver's error is the
    // cause.
    if (t->rc != 0 &&
        (rc == 0 || rc == TUG_EINTERRUPTED || e->reason == REASON_RUN_ENDED)) {
        *e = t->error;
        return t->rc;
    }
    return rc != 0 ? rc
                   : train_print(&t->setup, &t->result, t->result.servers,
                                 t->result.workers, e);
}

static int run_trainer(struct trainer *t, struct err *e)
{
    TRY(check_sizes(t, e));
    if (t->role->rank == 0)
        return work_and_drive(t, e);
    int rc = role_trainer_work(t, e);
    tell_failure(t, rc, e);
    return rc;
}

int role_trainer(const struct role *r, const struct training *training, int argc,
                 char *const *argv, struct err *e)
{
    struct options *o = NULL;
    struct err why = {0};
    struct trainer *t = mem_zalloc(sizeof(*t));
    if (t == NULL)
        return err_nomem(e, "the run");
    t->role = r;
    t->training = training;
    int rc = options_parse(&o, &cli_worker_options, argc, argv, &t->worker, 0, &why);
    if (rc == 0) {
        node_values_fill(&t->worker.node, o, r);
        rc = run_trainer(t, &why);
    }
    if (rc != 0 && e != NULL)
        *e = why;
    options_close(o);
    train_setup_close(&t->setup);
    mem_free(t);
    return rc;
}
