// tug worker: runs a process that reads data, computes, and pushes gradients to the
// servers.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"
#include "cli/nodes/roles.h"
#include "cli/train_output.h"
#include "run/model.h"
#include "run/train_resumed.h"
#include "train_cluster/remote.h"

#define OPTIONS_OF struct worker_values

static const struct option options[] = {
    {NODE_SCHEDULER_OPTION(
        "address of the cluster's scheduler; with standbys, the addresses of all "
        "schedulers, with commas (DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, or the first of "
        "PADDLE_PSERVERS_IP_PORT_LIST)")},
    NODE_REACH_OPTIONS("60"),
    {NODE_PEM_OPTION},
    {NODE_HOST_OPTION(NODE_MEMBER_HOST)},
    {NODE_INTERFACE_OPTION},
    {NODE_PORT_OPTION("PORT PADDLE_PORT",
                      "port for messages of other workers; 0: any free one")},
    {NODE_ADVERTISE_OPTION},
    {NODE_RANK_OPTION("DMLC_WORKER_ID PADDLE_TRAINER_ID")},
    {NODE_SPIN_OPTION},
    {NODE_LOG_LEVEL_OPTION},
    NODE_LOG_OPTIONS,
    NODE_HTTP_OPTIONS,
    {"threads", U64_AT(threads, "N", "0", 0, 1024),
     "number of threads, if `train` has no --threads; 0: one for each core"},
};

const struct option_table cli_worker_options = {
    .command = "worker",
    .summary = "run a worker of a cluster: it reads data and computes",
    .usage = "--scheduler HOST:PORT [options] -- train ...",
    .about =
        "Joins the cluster and trains on the data that the scheduler assigns to it, "
        "until the run is over. The words after -- must be the same as the scheduler's.",
    .examples = "tug worker --scheduler 10.0.0.1:9100 -- train --data day.tsv --format "
                "criteo",
    CLI_OPTIONS(options),
};

// The sources of the facts on a worker's page.
struct told {
    struct usage *usage;
    struct work_facts *facts;
    struct role_http *http;
    int64_t asked; // the rank that this worker has asked for; -1: none
};

static void tell(void *of, struct json_out *o)
{
    const struct told *t = of;
    work_facts_put(t->facts, t->asked, o);
}

static int begin_telling(struct told *t, const struct monitor_options *at,
                         const struct train_config *c, struct err *e)
{
    if (at->address == NULL)
        return 0;
    TRY(usage_open(&t->usage, NULL, 0, e));
    TRY(work_facts_open(&t->facts, remote_worker_lanes(c), e));
    return role_http_process(&t->http, at, "worker", t->usage, tell, t, e);
}

static void end_telling(struct told *t)
{
    role_http_close(t->http);
    work_facts_close(t->facts);
    usage_close(t->usage);
}

int role_worker(const struct worker_values *v, const struct training *t, struct err *e)
{
    // Set when a signal has asked for an end and the scheduler lets this worker leave.
    atomic_bool leave = false;
    struct train_setup s = {.interrupted = &leave};
    struct opened_node n;
    struct told told = {.asked = (int64_t)v->node.rank};
    if (t == NULL)
        return err_set(e, TUG_EUSAGE,
                       "there is nothing to train: add -- and a train command, as in "
                       "'tug worker ... -- train ...'");
    int rc = node_values_open(&n, &v->node, WIRE_WORKER, e);
    if (rc == 0)
        rc = train_configure(&s, t->values, t->options, &n.node, e);
    if (rc == 0)
        rc = train_open_log(t->values, t->options, &n.node, e);
    if (rc == 0 && !options_given(t->options, "threads"))
        s.config.threads = model_threads(v->threads);
    n.node.asked = &node_interrupted;
    n.node.leave = &leave;
    if (rc == 0)
        rc = begin_telling(&told, &n.http, &s.config, e);
    if (rc == 0)
        rc = train_tell_taken(&s, remote_worker_run(&s.config, told.facts, e), e);
    end_telling(&told);
    train_setup_close(&s);
    opened_node_close(&n);
    return rc;
}

static int worker_command(const void *values, const struct options *o, int argc,
                          char *const *argv, struct err *e)
{
    struct worker_values v = *(const struct worker_values *)values;
    struct role role = {0};
    struct train_options train;
    struct options *parsed = NULL;
    if (v.node.scheduler == NULL)
        TRY(node_role(&role, WIRE_WORKER, e));
    node_values_fill(&v.node, o, &role);
    TRY(training_words(argc, argv, &train, &parsed, e));
    struct training t = {&train, parsed};
    node_catch_signals();
    int rc = role_worker(&v, parsed != NULL ? &t : NULL, e);
    options_close(parsed);
    return rc;
}

const struct cli_command cli_worker = {&cli_worker_options, sizeof(struct worker_values),
                                       .run_tail = worker_command};
