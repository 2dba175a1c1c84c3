// tug drain: takes a server out of a running cluster, without losing a row.
//
// SPDX-License-Identifier: Apache-2.0
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "cli/cli.h"
#include "cli/nodes/node_options.h"
#include "os/clock.h"
#include "runtime/tool.h"

#define ASK_AGAIN_NS (SECOND_NS / 2)

struct drain_values {
    struct node_values node;
    struct option_list server;
    bool back, wait;
    double timeout;
};

#define OPTIONS_OF struct drain_values

static const struct option options[] = {
    {"server", .group = "What to do", LIST_AT(server, "RANK"),
     "the server's rank, as 'tug status' shows it: 2 for server 2"},
    {"back", FLAG_AT(back),
     "undo an earlier drain: the server stays, and gets partitions again"},
    {"wait", FLAG_AT(wait), "return when the server has left"},
    {"timeout", F64_AT(timeout, "SECONDS", "3600", 0.1, 1e6),
     "with --wait: how long to wait at most"},
    {TOOL_SCHEDULER_OPTION},
    NODE_REACH_OPTIONS("5"),
};

const struct option_table cli_drain_options = {
    .command = "drain",
    .summary = "take a server out of a running cluster",
    .usage = "RANK [--wait] [--scheduler HOST:PORT] [options]",
    .about = "Moves the server's partitions to the other servers while the run goes on; "
             "the server leaves the cluster when it has none left. 'tug status' shows "
             "the progress. A server whose program has handlers of its own (ps-lite, "
             "kvstore) cannot be drained, because the data of the handlers cannot be "
             "moved.",
    .examples = "tug drain 2\n"
                "tug drain 2 --wait --scheduler 10.0.0.1:9100",
    .operands = "server",
    CLI_OPTIONS(options),
};

static bool is_loop_of(const json_t *node, uint64_t rank)
{
    return strcmp(tool_text(node, "role"), "server") == 0 && tool_true(node, "alive") &&
           (uint64_t)tool_count(node, "rank") == rank;
}

// Finds a loop of the server; *ret_node is 0 if the cluster does not have this server.
static int find_server(struct tool *t, uint64_t rank, double seconds, uint32_t *ret_node,
                       struct err *e)
{
    json_t *status, *node;
    size_t i;
    *ret_node = 0;
    TRY(tool_status(t, seconds, &status, e));
    json_array_foreach(json_object_get(status, "nodes"), i, node)
        if (*ret_node == 0 && is_loop_of(node, rank))
            *ret_node = (uint32_t)tool_count(node, "id");
    json_decref(status);
    return 0;
}

static int read_rank(const struct drain_values *v, uint64_t *ret, struct err *e)
{
    const char *text = v->server.n == 1 ? v->server.items[0] : "";
    char *end;
    *ret = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && *ret < UINT32_MAX)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "give the rank of one server, as 'tug status' shows it: tug drain 2");
}

static int wait_until_left(struct tool *t, const struct drain_values *v, uint64_t rank,
                           struct err *e)
{
    uint64_t begun = van_now(t->side.van), now = begun;
    uint32_t node = 1;
    while (node != 0 && now < begun + (uint64_t)(v->timeout * 1e9)) {
        TRY(van_poll(t->side.van, now + ASK_AGAIN_NS, e));
        if (atomic_load(&node_interrupted))
            return err_set(e, TUG_EINTERRUPTED,
                           "interrupted; the cluster continues to drain the server");
        now = van_now(t->side.van);
        TRY(find_server(t, rank, v->node.connect_timeout, &node, e));
    }
    if (node == 0)
        return 0;
    return err_set(e, TUG_EIO,
                   "server %llu has not left within %.0f s; 'tug status' shows which "
                   "partitions it still has",
                   (unsigned long long)rank, v->timeout);
}

static int drain(struct tool *t, const struct drain_values *v, struct err *e)
{
    uint64_t rank;
    struct msg_drain m = {.back = v->back};
    TRY(read_rank(v, &rank, e));
    TRY(find_server(t, rank, v->node.connect_timeout, &m.node, e));
    if (m.node == 0)
        return err_set(e, TUG_EUSAGE,
                       "there is no server %llu in this cluster; 'tug status' lists the "
                       "nodes",
                       (unsigned long long)rank);
    TRY(tool_ask(t, MSG_DRAIN, &m, v->node.connect_timeout, e));
    if (v->back) {
        cli_printf("server %llu stays in the cluster\n", (unsigned long long)rank);
        return 0;
    }
    cli_printf("server %llu is drained: %llu partition%s will move; 'tug status' shows "
               "how far it is\n",
               (unsigned long long)rank, (unsigned long long)t->value,
               PLURAL_S(t->value));
    if (!v->wait)
        return 0;
    TRY(wait_until_left(t, v, rank, e));
    cli_printf("server %llu has left\n", (unsigned long long)rank);
    return 0;
}

static int drain_command(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    const struct drain_values *v = values;
    struct opened_node n;
    struct tool t = {.interrupted = &node_interrupted};
    node_catch_signals();
    int rc = node_values_open(&n, &v->node, WIRE_OPERATOR, e);
    if (rc == 0)
        rc = tool_open(&t, &n.node, n.node.scheduler, v->node.connect_timeout, e);
    if (rc == 0)
        rc = drain(&t, v, e);
    tool_close(&t);
    opened_node_close(&n);
    return rc;
}

const struct cli_command cli_drain = {&cli_drain_options, sizeof(struct drain_values),
                                      .run = drain_command};
