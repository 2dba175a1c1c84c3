// tug status: asks the scheduler and each server loop about the state of a running
// cluster.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/status.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "monitor/monitor.h"
#include "os/clock.h"
#include "os/json.h"
#include "runtime/loop_facts.h"
#include "runtime/tool.h"

struct status_values {
    struct node_values node;
    bool rates, json;
};

#define OPTIONS_OF struct status_values

static const struct option options[] = {
    {TOOL_SCHEDULER_OPTION},
    NODE_REACH_OPTIONS("5"),
    {"rates", .group = "Output", FLAG_AT(rates),
     "ask twice, a second apart, and show the rates in between"},
    {"json", FLAG_AT(json),
     "one JSON object: the scheduler's answer, with \"servers\" and \"tables\""},
};

const struct option_table cli_status_options = {
    .command = "status",
    .summary = "show the nodes, tables and progress of a running cluster",
    .usage = "[--scheduler HOST:PORT] [--rates] [--json]",
    .about = "Asks the scheduler for the nodes, and each server loop for the tables "
             "that it holds. docs/cluster.md explains the figures.",
    .examples = "tug status\n"
                "tug status --scheduler 10.0.0.1:9100 --rates",
    CLI_OPTIONS(options),
};

// The most bytes of a loop's answer (four times the answer of a loop with 4,096
// tables), and the most values in it. With these limits, a server cannot fill the memory
// of a scheduler whose page is open: an answer takes about 120 bytes for each value, until
// all but the documented values are dropped.
enum { LOOP_TEXT_MAX = 16 << 20, LOOP_VALUES_MAX = 1 << 20 };
// The limits of the scheduler's answer: three times what an answer with 65,535 nodes takes.
enum { SCHEDULER_TEXT_MAX = 64 << 20, SCHEDULER_VALUES_MAX = 6 << 20 };
enum { LOOP_SECONDS = 5, LOOPS_SECONDS = 30 }; // limits for one loop, and for all

// ---------------------------------------------------------------- asking

struct status_limits status_usual(double seconds)
{
    return (struct status_limits){seconds, LOOP_SECONDS, &node_interrupted};
}

json_t *status_ask_loop(struct node *n, const json_t *node, const struct status_limits *l)
{
    static const char *const names[][2] = {
        {"node", "id"}, {"rank", "rank"}, {"loop", "loop"}};
    struct tool t = {
        .interrupted = l->stop, .max_text = LOOP_TEXT_MAX, .max_values = LOOP_VALUES_MAX};
    struct err e = {0};
    json_t *told = NULL, *answer = NULL;
    int rc = tool_open(&t, n, tool_text(node, "address"), l->loop_seconds, &e);
    if (rc == 0)
        rc = tool_status(&t, l->loop_seconds, &told, &e);
    tool_close(&t);
    answer = rc == 0 ? loop_facts_keep(told) : json_pack("{s:s}", "error", e.text);
    json_decref(told);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && answer != NULL; i++)
        if (json_object_get(node, names[i][1]) != NULL)
            json_object_set(answer, names[i][0], json_object_get(node, names[i][1]));
    return answer;
}

static json_t *ask_next_loop(struct node *n, const json_t *node,
                             const struct status_limits *l, uint64_t until)
{
    if (clock_ns() < until)
        return status_ask_loop(n, node, l);
    char why[128];
    snprintf(why, sizeof(why),
             "it was not asked, because asking the earlier loops took %d s",
             LOOPS_SECONDS);
    return json_pack("{s:s, s:O, s:O, s:O}", "error", why, "node",
                     json_object_get(node, "id"), "rank", json_object_get(node, "rank"),
                     "loop", json_object_get(node, "loop"));
}

// A node of the scheduler's answer. `place` is its index there: nodes come in the order
// of their joining.
struct placed {
    json_t *node;
    int role;
    double rank, loop;
    size_t place;
};

static int by_place(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    int order = x->role - y->role;
    if (order == 0)
        order = (x->rank > y->rank) - (x->rank < y->rank);
    if (order == 0)
        order = (x->loop > y->loop) - (x->loop < y->loop);
    // A node that replaces another one has joined later.
    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

void status_sort_nodes(json_t *status)
{
    static const char *const roles[] = {"driver", "server", "worker"};
    json_t *nodes = json_object_get(status, "nodes"), *node;
    size_t n = json_array_size(nodes), i, k;
    struct placed *all = n > 1 ? mem_array(n, sizeof(*all)) : NULL;
    if (all == NULL)
        return;
    json_array_foreach(nodes, i, node) {
        for (k = 0; k < 3 && strcmp(tool_text(node, "role"), roles[k]) != 0;)
            k++;
        all[i] = (struct placed){json_incref(node), (int)k, tool_number(node, "rank"),
                                 tool_number(node, "loop"), i};
    }
    qsort(all, n, sizeof(*all), by_place);
    for (i = 0; i < n; i++)
        (void)json_array_set_new(nodes, i, all[i].node);
    mem_free(all);
}

int status_ask(struct node *n, const struct status_limits *l, json_t **ret, struct err *e)
{
    struct tool t = {.interrupted = l->stop,
                     .max_text = SCHEDULER_TEXT_MAX,
                     .max_values = SCHEDULER_VALUES_MAX};
    json_t *status = NULL, *node;
    size_t i;
    int rc = tool_open(&t, n, n->scheduler, l->seconds, e);
    if (rc == 0)
        rc = tool_status(&t, l->seconds, &status, e);
    tool_close(&t);
    TRY(rc);
    status_sort_nodes(status);
    json_t *servers = json_array();
    uint64_t until = clock_ns() + LOOPS_SECONDS * SECOND_NS;
    json_array_foreach(json_object_get(status, "nodes"), i, node)
        if (strcmp(tool_text(node, "role"), "server") == 0 && tool_true(node, "alive"))
            json_array_append_new(servers, ask_next_loop(n, node, l, until));
    json_object_set_new(status, "servers", servers);
    json_object_set_new(status, "tables", loop_facts_sum_tables(servers));
    json_object_set_new(status, "sampled_ns", json_integer((json_int_t)clock_ns()));
    *ret = status;
    return 0;
}

// ---------------------------------------------------------------- rates

static double rate_of(const json_t *before, const json_t *after, const char *name,
                      double seconds)
{
    return (tool_number(after, name) - tool_number(before, name)) / seconds;
}

static void set_rates(const json_t *before, json_t *after)
{
    static const char *const names[] = {"pushes",      "pulls",    "pushed_keys",
                                        "pulled_keys", "examples", "rows"};
    double seconds = (tool_number(after, "sampled_ns") -
                      tool_number(before, "sampled_ns")) *
                     1e-9;
    json_t *table;
    size_t i;
    json_array_foreach(json_object_get(after, "tables"), i, table) {
        const json_t *old = json_array_get(json_object_get(before, "tables"), i);
        json_t *rates = json_object();
        for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++)
            json_object_set_new(rates, names[k],
                                json_real(rate_of(old, table, names[k], seconds)));
        json_object_set_new(table, "per_second", rates);
    }
}

// ---------------------------------------------------------------- for people

// Returns whether the next node of the sorted list took the place of a dead one.
static bool is_replaced(const json_t *n, const json_t *next)
{
    return !tool_true(n, "alive") && next != NULL &&
           strcmp(tool_text(n, "role"), tool_text(next, "role")) == 0 &&
           tool_count(n, "rank") == tool_count(next, "rank") &&
           tool_count(n, "loop") == tool_count(next, "loop");
}

static void print_node(const json_t *n, const json_t *next)
{
    char name[64], state[96] = "";
    snprintf(name, sizeof(name), "%s %.0f%s%.0f", tool_text(n, "role"),
             tool_number(n, "rank"), tool_number(n, "loop") > 0 ? " loop " : "",
             tool_number(n, "loop"));
    if (tool_number(n, "loop") == 0)
        name[strlen(name) - 1] = 0;
    if (tool_true(n, "left"))
        snprintf(state, sizeof(state), "left");
    else if (!tool_true(n, "alive"))
        snprintf(state, sizeof(state), is_replaced(n, next) ? "replaced" : "dead");
    else if (!tool_true(n, "linked"))
        snprintf(state, sizeof(state), "link broken, no sign for %.1f s",
                 tool_number(n, "seconds_since_sign"));
    else
        snprintf(state, sizeof(state), "alive%s, heard %.1f s ago",
                 tool_true(n, "draining") ? ", is drained" : "",
                 tool_number(n, "seconds_since_sign"));
    cli_printf("  %-16s %-8.0f %-20s %-28s %s\n", name, tool_number(n, "pid"),
               tool_text(n, "host"), tool_text(n, "address"), state);
}

static void print_placement(const json_t *placement)
{
    const char *name;
    json_t *space;
    json_object_foreach((json_t *)(uintptr_t)placement, name, space)
        cli_printf(
            "  %-8s %.0f partitions on %zu loop%s, the fullest has %.2f times the mean\n",
            name, tool_number(space, "partitions"),
            json_object_size(json_object_get(space, "loops")),
            PLURAL_S(json_object_size(json_object_get(space, "loops"))),
            tool_number(space, "max_over_mean"));
}

// Prints a clock. In a training, the upper half of the clock is the pass, and the
// lower half the batch.
static void print_clock(const char *name, int64_t clock)
{
    if (clock >> 32 > 0)
        cli_printf("%s %lld of pass %lld", name, (long long)(clock & UINT32_MAX),
                   (long long)(clock >> 32));
    else
        cli_printf("%s %lld", name, (long long)clock);
}

static void print_table(const json_t *t)
{
    const json_t *r = json_object_get(t, "per_second");
    cli_printf(
        "  %-12s %-6s %12.0f rows %9.1f MB  %.0f pushes (%.0f repeated), %.0f pulls "
        "(%.0f wait)",
        tool_text(t, "name"), tool_text(t, "mode"), tool_number(t, "rows"),
        tool_number(t, "bytes") * 1e-6, tool_number(t, "pushes"),
        tool_number(t, "repeats"), tool_number(t, "pulls"), tool_number(t, "held"));
    if (strcmp(tool_text(t, "mode"), "async") != 0 && tool_number(t, "clock") >= 0) {
        print_clock(", clock", tool_count(t, "clock"));
        if (tool_number(t, "clock_max") > tool_number(t, "clock"))
            print_clock(" to", tool_count(t, "clock_max"));
    }
    if (tool_number(t, "refused") > 0)
        cli_printf(", %.0f keys refused", tool_number(t, "refused"));
    if (tool_number(t, "left_out") > 0)
        cli_printf(", %.0f updates left out", tool_number(t, "left_out"));
    cli_printf("\n");
    if (r != NULL)
        cli_printf(
            "  %-12s a second: %.0f pushes of %.0f keys, %.0f pulls of %.0f keys, %.0f "
            "examples\n",
            "", tool_number(r, "pushes"), tool_number(r, "pushed_keys"),
            tool_number(r, "pulls"), tool_number(r, "pulled_keys"),
            tool_number(r, "examples"));
}

static void print_work(const json_t *s)
{
    const json_t *pass = json_object_get(s, "pass"), *barrier, *server;
    size_t i;
    double pieces = pass != NULL ? tool_number(pass, "pieces") : 0;
    char of[64] = "";
    if (pieces > 0) // the number of pieces is known (0: no file was read to its end yet)
        snprintf(of, sizeof(of), " of %.0f", pieces);
    if (pass != NULL)
        cli_printf("pass %.0f: %.0f%s pieces, %.0f examples%s\n",
                   tool_number(pass, "number"), tool_number(pass, "pieces_done"), of,
                   tool_number(pass, "examples"),
                   tool_true(pass, "done")      ? ", done"
                   : tool_true(pass, "dealing") ? ", examples are dealt anew first"
                                                : "");
    json_array_foreach(json_object_get(s, "barriers"), i, barrier)
        cli_printf("a barrier waits for %s\n", tool_text(barrier, "missing"));
    json_array_foreach(json_object_get(s, "servers"), i, server)
        if (json_object_get(server, "error") != NULL)
            cli_printf("server %.0f loop %.0f does not answer: %s\n",
                       tool_number(server, "rank"), tool_number(server, "loop"),
                       tool_text(server, "error"));
}

// Counts the processes that died and were not replaced.
static unsigned count_dead(const json_t *s)
{
    json_t *nodes = json_object_get(s, "nodes"), *n;
    unsigned dead = 0;
    size_t i;
    json_array_foreach(nodes, i, n)
        dead += !tool_true(n, "alive") && !tool_true(n, "left") &&
                tool_count(n, "loop") == 0 &&
                !is_replaced(n, json_array_get(nodes, i + 1));
    return dead;
}

static void print_head(json_t *s)
{
    int64_t servers = tool_count(s, "servers_wanted"),
            workers = tool_count(s, "workers_wanted");
    unsigned n_dead = count_dead(s);
    char dead[64] = "", problems[MONITOR_TEXT_MAX];
    if (n_dead > 0)
        snprintf(dead, sizeof(dead), ", %u dead", n_dead);
    cli_printf(
        "scheduler %s, tug %s, up %.0f s: %s (%lld server%s, %lld worker%s%s), placement "
        "%.0f\n",
        tool_text(s, "address"), tool_text(s, "version"),
        tool_number(s, "uptime_seconds"), tool_text(s, "phase"), (long long)servers,
        PLURAL_S(servers), (long long)workers, PLURAL_S(workers), dead,
        tool_number(s, "epoch"));
    monitor_problems(s, problems);
    if (problems[0] != '\0')
        cli_printf("problems: %s\n", problems);
}

static void print_all(json_t *s)
{
    json_t *one;
    size_t i;
    print_head(s);
    cli_printf("nodes\n");
    json_array_foreach(json_object_get(s, "nodes"), i, one)
        print_node(one, json_array_get(json_object_get(s, "nodes"), i + 1));
    if (json_object_get(s, "placement") != NULL) {
        cli_printf("placement\n");
        print_placement(json_object_get(s, "placement"));
    }
    status_print_moves(s);
    if (json_array_size(json_object_get(s, "tables")) > 0)
        cli_printf("tables\n");
    json_array_foreach(json_object_get(s, "tables"), i, one)
        print_table(one);
    print_work(s);
    status_print_facts(s);
}

static int print_json(json_t *s, struct err *e)
{
    json_object_del(s, "sampled_ns");
    return json_print(json_incref(s), 0, e);
}

static int status_command(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    const struct status_values *v = values;
    struct opened_node n;
    json_t *before = NULL, *status = NULL;
    const struct status_limits limits = status_usual(v->node.connect_timeout);
    node_catch_signals();
    int rc = node_values_open(&n, &v->node, WIRE_TOOL, e);
    if (rc == 0)
        rc = status_ask(&n.node, &limits, &status, e);
    if (rc == 0 && v->rates) {
        before = status;
        status = NULL;
        poll(NULL, 0, 1000); // rates are measured over a second
        rc = status_ask(&n.node, &limits, &status, e);
    }
    if (rc == 0 && before != NULL)
        set_rates(before, status);
    if (rc == 0 && v->json)
        rc = print_json(status, e);
    else if (rc == 0)
        print_all(status);
    json_decref(before);
    json_decref(status);
    opened_node_close(&n);
    return rc;
}

const struct cli_command cli_status = {&cli_status_options, sizeof(struct status_values),
                                       .run = status_command};
