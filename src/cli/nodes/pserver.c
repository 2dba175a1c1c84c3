// tug pserver: runs the servers of a host, with the flags of Paddle's first version.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"
#include "cli/nodes/roles.h"
#include "cli/v0.h"
#include "os/log.h"

struct pserver_values {
    struct node_values node;
    uint64_t trainers, dense_loops, sparse_loops, memory;
    const char *pservers, *comment;
    const char *save_root, *cold_root;
    struct option_list load_roots;
};

#define OPTIONS_OF struct pserver_values

static const struct option options[] = {
    {"num_gradient_servers", .group = "Flags of Paddle's first version",
     U64_AT(trainers, "N", "1", 1, ROLE_PROCESSES_MAX),
     "trainers of the run; the first server waits for all of them"},
    {"nics", STRING_AT(node.interface, "NAME"),
     "the network interface to listen on (default: loopback)"},
    {"port", U64_AT(node.port, "P", "7164", 1, 65535),
     "port of the run, which trainers also get as --port; the first server listens "
     "there"},
    {"ports_num", U64_AT(dense_loops, "N", "1", 1, 256),
     "event loops for dense tables (loops of tug server)"},
    {"ports_num_for_sparse", U64_AT(sparse_loops, "N", "0", 0, 255),
     "event loops for sparse tables; 0: the loops for dense tables hold sparse tables, "
     "too"},
    {"pservers", STRING_AT(pservers, "HOST,..."),
     "all servers of the run, as the trainers get them; the first one also runs the "
     "scheduler. Without this option this server is the only one"},
    {"comment", STRING_AT(comment, "TEXT"), "has no effect, except that ps shows it"},
    NODE_REACH_OPTIONS("60"),
    {NODE_HOST_OPTION("the address to listen on, in place of --nics")},
    {NODE_LOG_LEVEL_OPTION},
    NODE_LOG_OPTIONS,
    {"memory", .group = "What it holds", SIZE_AT(memory, "SIZE", "0", 0, 0),
     "memory for rows and buffers together, as in tug server; 0: no limit for rows"},
    {"save-root", STRING_AT(save_root, "DIR"),
     "directory below which this server writes and reads saves; without this option it "
     "writes no saves"},
    {"load-root", LIST_AT(load_roots, "DIR"),
     "another directory below which this server reads saves"},
    {"cold-root", STRING_AT(cold_root, "DIR"),
     "directory below which this server keeps rows on disk"},
};

const struct option_table cli_pserver_options = {
    .command = "pserver",
    .summary = "run a server by the flags of Paddle's first version",
    .usage = "--num_gradient_servers=N [--pservers=A,B] [options]",
    .about =
        "Does what `tug server` does, with the flags of `paddle pserver`. The first "
        "server also runs the scheduler of the run, at --port. Trainers are `tug train "
        "--local=0 --pservers=A,B --trainer_id=I --num_gradient_servers=N` with the "
        "options of the training; trainer 0 drives the run, writes its saves and prints "
        "its result. docs/from-paddle-v0.md lists the flags.",
    .examples =
        "tug pserver --num_gradient_servers=2 --nics=eth0 --port=7164 --ports_num=2 "
        "--ports_num_for_sparse=2",
    CLI_OPTIONS(options),
};

static int pserver_command(const void *values, const struct options *o, struct err *e)
{
    const struct pserver_values *p = values;
    struct role role;
    (void)o;
    TRY(v0_role_server(&role, p->pservers, p->node.host, p->node.interface,
                       (uint16_t)p->node.port, e));
    role.workers = (uint32_t)p->trainers;
    struct server_values v = {
        .node = p->node,
        .loops = p->dense_loops + p->sparse_loops,
        .sparse_loops = p->sparse_loops,
        .memory = p->memory,
        .save_root = p->save_root,
        .cold_root = p->cold_root,
        .load_roots = p->load_roots,
    };
    v.node.scheduler = role.scheduler;
    v.node.host = role.host;
    v.node.interface = NULL; // role.host is the address of this interface
    v.node.port = role.port;
    v.node.rank = role.rank;
    node_catch_signals();
    return role.hosts_scheduler ? role_first_server(&v, &role, NULL, e)
                                : role_server(&v, NULL, e);
}

static int pserver_words(int argc, char *const *argv, struct err *e)
{
    struct v0_words w;
    struct pserver_values values = {0};
    struct options *o = NULL;
    int rc = v0_words_take_server(&w, argc, argv, e);
    if (rc == 0)
        rc = v0_words_parse(&w, &cli_pserver_options, &o, &values, e);
    if (rc == 0 && w.unused[0] != '\0')
        log_info("these flags have no effect: %s", w.unused);
    if (rc == 0)
        rc = pserver_command(&values, o, e);
    options_close(o);
    v0_words_free(&w);
    return rc;
}

const struct cli_command cli_pserver = {
    &cli_pserver_options, sizeof(struct pserver_values), .run = pserver_command,
    .takes_words = v0_given, .run_words = pserver_words};
