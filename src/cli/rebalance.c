// tug rebalance: moves partitions until all servers of a running cluster have their share.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/nodes/node_options.h"
#include "runtime/tool.h"

struct rebalance_values {
    struct node_values node;
};

#define OPTIONS_OF struct rebalance_values

static const struct option options[] = {
    {TOOL_SCHEDULER_OPTION},
    NODE_REACH_OPTIONS("5"),
};

const struct option_table cli_rebalance_options = {
    .command = "rebalance",
    .summary = "give each server of a running cluster its share of the partitions",
    .usage = "[--scheduler HOST:PORT] [options]",
    .about = "The scheduler moves partitions by itself when servers join or are "
             "drained. This command tells the scheduler to compare the servers' shares "
             "again, and to try failed moves again, for example after a server got more "
             "memory.",
    .examples = "tug rebalance\n"
                "tug rebalance --scheduler 10.0.0.1:9100",
    CLI_OPTIONS(options),
};

static int rebalance_command(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    const struct rebalance_values *v = values;
    struct opened_node n;
    struct tool t = {.interrupted = &node_interrupted};
    struct msg_rebalance m = {};
    node_catch_signals();
    int rc = node_values_open(&n, &v->node, WIRE_OPERATOR, e);
    if (rc == 0)
        rc = tool_open(&t, &n.node, n.node.scheduler, v->node.connect_timeout, e);
    if (rc == 0)
        rc = tool_ask(&t, MSG_REBALANCE, &m, v->node.connect_timeout, e);
    if (rc == 0 && t.value == 0)
        cli_printf("nothing moves: each server has its share\n");
    else if (rc == 0)
        cli_printf("%llu partition%s will move; 'tug status' shows how far it is\n",
                   (unsigned long long)t.value, PLURAL_S(t.value));
    tool_close(&t);
    opened_node_close(&n);
    return rc;
}

const struct cli_command cli_rebalance = {
    &cli_rebalance_options, sizeof(struct rebalance_values), .run = rebalance_command};
