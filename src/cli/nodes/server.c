// tug server: runs a process that holds a part of the tables.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"
#include "cli/cli.h"
#include "cli/nodes/roles.h"
#include "os/log.h"

#define OPTIONS_OF struct server_values

static const struct option options[] = {
    {NODE_SCHEDULER_OPTION(
        "address of the cluster's scheduler; with standbys, the addresses of all "
        "schedulers, with commas (DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, or the first of "
        "PADDLE_PSERVERS_IP_PORT_LIST)")},
    NODE_REACH_OPTIONS("60"),
    {NODE_PEM_OPTION},
    {NODE_HOST_OPTION(NODE_MEMBER_HOST)},
    {NODE_INTERFACE_OPTION},
    {NODE_PORT_OPTION("PORT PADDLE_PORT", "port of the first loop; the other loops take "
                                          "the ports that follow; 0: any free ones")},
    {NODE_ADVERTISE_OPTION},
    {NODE_RANK_OPTION("DMLC_SERVER_ID")},
    {NODE_SPIN_OPTION},
    {NODE_LOG_LEVEL_OPTION},
    NODE_LOG_OPTIONS,
    NODE_HTTP_OPTIONS,
    {"loops", U64_AT(loops, "N", "1", 1, 256),
     "number of event loops, each with its own part of the tables; use one for each "
     "core that the server may use"},
    {"sparse-loops", U64_AT(sparse_loops, "M", "0", 0, 255),
     "number of these loops that hold sparse tables, while the others hold dense ones; "
     "0: all loops hold both"},
    {"memory", SIZE_AT(memory, "SIZE", "0", 0, 0),
     "memory for rows and buffers together, such as 8G: a quarter (64M to 4G) is for "
     "buffers, the rest for rows; requests that need more memory wait or are refused. "
     "Updates that other servers lack (with replicas) take up to 64M more for each of "
     "their loops. "
     "0: rows have no limit, and buffers get a quarter of the memory that is free at "
     "the start, at most 4G"},
    {"join", FLAG_AT(node.join),
     "join a cluster that is running already: partitions move here from the other "
     "servers while the run goes on"},
    {"zone", STRING_AT(node.zone, "NAME"),
     "name of the machines that may fail together with this one, such as a rack or data "
     "center; replicas of a partition are in different zones if possible (default: "
     "this machine is a zone of its own)"},
    {"save-root", .group = "Files", STRING_AT(save_root, "DIR"),
     "directory below which this server writes and reads saves; it is created if it is "
     "missing. Without this option the server writes no saves"},
    {"load-root", LIST_AT(load_roots, "DIR"),
     "another directory below which this server reads saves"},
    {"cold-root", STRING_AT(cold_root, "DIR"),
     "directory below which this server keeps rows on disk: the setting 'cold' of a "
     "table names a directory in it"},
};

const struct option_table cli_server_options = {
    .command = "server",
    .summary = "run a server of a cluster: it holds a part of the tables",
    .usage = "--scheduler HOST:PORT [options]",
    .about =
        "Joins the cluster, keeps its partitions of all tables in memory, and leaves "
        "when the last worker has finished. With --join it joins a running cluster and "
        "takes over a part of the partitions; 'tug drain', or SIGTERM in a run of 'tug "
        "train', later moves this server's partitions to the other servers.",
    .examples =
        "tug server --scheduler 10.0.0.1:9100 --loops 4 --ca ca.pem --cert s0.pem "
        "--key s0.key",
    CLI_OPTIONS(options),
};

static void say(void *ctx, const char *line)
{
    (void)ctx;
    log_info("%s", line);
}

int role_server(const struct server_values *v, const atomic_bool *at_once, struct err *e)
{
    struct opened_node n;
    struct roots *roots = NULL;
    struct usage *usage = NULL;
    struct role_http *http = NULL;
    const struct usage_disk disks[] = {{"saves", v->save_root}, {"cold", v->cold_root}};
    struct roots_options ro = {.save = v->save_root,
                               .cold = v->cold_root,
                               .load = v->load_roots.items,
                               .n_load = v->load_roots.n};
    TRY(roots_open(&roots, &ro, e));
    struct node_values values = v->node;
    values.memory = v->memory;
    int rc = node_values_open(&n, &values, WIRE_SERVER, e);
    if (rc == 0)
        rc = usage_open(&usage, disks, sizeof(disks) / sizeof(*disks), e);
    if (rc == 0)
        rc = role_http_server(&http, &n.http, &n.node, e);
    struct server_options o = {
        .node = &n.node,
        .loops = (uint32_t)v->loops,
        .sparse_loops = (uint32_t)v->sparse_loops,
        .usage = usage,
        .listens = http != NULL ? role_http_add_loop : NULL,
        .listens_ctx = http,
        .roots = roots,
        .interrupted = at_once,
        .asked = &node_interrupted,
        .log = say,
    };
    (void)budget_of(v->memory, &o.max_bytes);
    if (rc == 0)
        rc = server_run(&o, e);
    role_http_close(http);
    opened_node_close(&n);
    usage_close(usage);
    roots_close(roots);
    return rc;
}

static int server_command(const void *values, const struct options *o, int argc,
                          char *const *argv, struct err *e)
{
    struct server_values v = *(const struct server_values *)values;
    struct role role = {0};
    struct train_options train;
    struct options *parsed = NULL;
    if (v.node.scheduler == NULL)
        TRY(node_role(&role, WIRE_SERVER, e));
    node_values_fill(&v.node, o, &role);
    node_catch_signals();
    if (!role.hosts_scheduler)
        return role_server(&v, NULL, e);
    TRY(training_words(argc, argv, &train, &parsed, e));
    struct training t = {&train, parsed};
    int rc = role_first_server(&v, &role, parsed != NULL ? &t : NULL, e);
    options_close(parsed);
    return rc;
}

const struct cli_command cli_server = {&cli_server_options, sizeof(struct server_values),
                                       .run_tail = server_command};
