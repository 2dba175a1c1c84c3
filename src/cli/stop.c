// tug stop: ends a running cluster in order.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cli/cli.h"
#include "cli/nodes/node_options.h"
#include "runtime/tool.h"

struct stop_values {
    struct node_values node;
    double timeout;
};

#define OPTIONS_OF struct stop_values

static const struct option options[] = {
    {TOOL_SCHEDULER_OPTION},
    NODE_REACH_OPTIONS("5"),
    {"timeout", F64_AT(timeout, "SECONDS", "60", 0.1, 86400),
     "how long to wait until all nodes have left"},
};

const struct option_table cli_stop_options = {
    .command = "stop",
    .summary = "end a running cluster",
    .usage = "[--scheduler HOST:PORT] [options]",
    .about =
        "Asks the scheduler to end the cluster: all nodes leave, and the scheduler ends "
        "last. Returns when the scheduler has ended. Training since the last save is "
        "lost; Ctrl-C in the terminal of `tug launch` saves first.",
    .examples = "tug stop\n"
                "tug stop --scheduler 10.0.0.1:9100 --timeout 10",
    CLI_OPTIONS(options),
};

// Waits until the scheduler has closed its link, which it does when it ends.
static int wait_until_gone(struct tool *t, double seconds, struct err *e)
{
    uint64_t until = van_now(t->side.van) + (uint64_t)(seconds * 1e9);
    while (t->s.link != 0 && van_now(t->side.van) < until) {
        TRY(van_poll(t->side.van, until, e));
        if (atomic_load(&node_interrupted))
            return err_set(e, TUG_EINTERRUPTED, "interrupted");
    }
    if (t->s.link == 0)
        return 0;
    return err_set(e, TUG_EIO,
                   "%s was told to stop, but has not ended within %.0f s; 'tug status' "
                   "shows which nodes have not left",
                   t->address, seconds);
}

static int stop_command(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    const struct stop_values *v = values;
    struct opened_node n;
    struct tool t = {.interrupted = &node_interrupted};
    struct msg_stop stop = {.code = TUG_EINTERRUPTED,
                            .why = wire_text("ended by 'tug stop'")};
    node_catch_signals();
    int rc = node_values_open(&n, &v->node, WIRE_OPERATOR, e);
    if (rc == 0)
        rc = tool_open(&t, &n.node, n.node.scheduler, v->node.connect_timeout, e);
    if (rc == 0)
        rc = tool_ask(&t, MSG_STOP, &stop, v->timeout, e);
    if (rc == 0)
        rc = wait_until_gone(&t, v->timeout, e);
    if (rc == 0)
        cli_printf("the cluster at %s has ended\n", n.node.scheduler);
    tool_close(&t);
    opened_node_close(&n);
    return rc;
}

const struct cli_command cli_stop = {&cli_stop_options, sizeof(struct stop_values),
                                     .run = stop_command};
