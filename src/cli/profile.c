// tug profile: measures the time that the servers of a running cluster spend on each kind
// of request.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "cli/cli.h"
#include "cli/nodes/node_options.h"
#include "data/input/encode.h"
#include "runtime/profiler.h"
#include "save/save.h"

struct profile_values {
    struct node_values node;
    struct option_list action;
    const char *out;
    uint64_t memory;
};

#define OPTIONS_OF struct profile_values

static const struct option options[] = {
    {"action", .group = "What to do", .choices = "start stop", LIST_AT(action, "ACTION"),
     "start: record each request from now on; stop: end the recording and write the "
     "file"},
    {"out", .fallback = "profile.json", STRING_AT(out, "FILE"),
     "stop: trace events, for https://ui.perfetto.dev or chrome://tracing; the file "
     "appears when it is complete"},
    {"memory", SIZE_AT(memory, "BYTES", "64M", 4096, 1 << 30),
     "start: memory for the recording of each loop; a request takes 56 bytes, and the "
     "oldest are dropped first"},
    {TOOL_SCHEDULER_OPTION},
    NODE_REACH_OPTIONS("5"),
};

const struct option_table cli_profile_options = {
    .command = "profile",
    .summary = "see what the servers of a running cluster spend their time on",
    .usage = "start|stop [--scheduler HOST:PORT] [options]",
    .about = "start turns recording on in every loop of every server. stop turns it "
             "off, prints how many requests of each kind there were and how long "
             "serving them took, and writes all requests into one file, with the times "
             "of one clock; the file shows a server as a process and a loop as a "
             "thread. Requests that waited (for other workers, in ssp and sync) are "
             "shown as such, apart from the time that serving them took. Recording "
             "costs nothing while it is off.",
    .examples = "tug profile start\n"
                "tug profile stop --out profile.json",
    .operands = "action",
    CLI_OPTIONS(options),
};

// Prints a summary of the file, even if the data of some loops is missing.
static int show(const struct trace *trace, const char *path, struct err *e)
{
    struct buf text = BUF_INIT(1 << 20);
    uint64_t events = 0, dropped = 0;
    for (size_t i = 0; i < trace->n; i++) {
        events += trace->loops[i].n;
        dropped += trace->loops[i].dropped;
    }
    int rc = trace_print(trace, &text);
    if (rc == 0)
        rc = buf_printf(&text, "%s: %llu events of %zu loops", path,
                        (unsigned long long)events, trace->n);
    if (rc == 0 && dropped > 0)
        rc = buf_printf(&text, "; %llu older ones had no room: start with more --memory",
                        (unsigned long long)dropped);
    if (rc == 0)
        rc = buf_printf(&text, "\n");
    return cli_print(&text, rc, e);
}

static int profile_start_all(const struct profiler *p, const struct profile_values *v,
                             struct err *e)
{
    size_t loops;
    TRY(profiler_start(p, v->memory, &loops, e));
    cli_printf("%zu loop%s recording; 'tug profile stop' ends that\n", loops,
               loops == 1 ? " is" : "s are");
    return 0;
}

static int stop(const struct profiler *p, const struct profile_values *v, struct err *e)
{
    struct trace trace;
    struct err shown = {0};
    int rc = profiler_stop(p, v->out, &trace, e);
    if (trace.n > 0 && show(&trace, v->out, &shown) != 0 && rc == 0) {
        *e = shown;
        rc = shown.code;
    }
    trace_free(&trace);
    return rc;
}

static int profile_command(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    const struct profile_values *v = values;
    const char *action = v->action.n == 1 ? v->action.items[0] : "";
    struct opened_node n;
    bool starts = strcmp(action, "start") == 0;
    if (!starts && strcmp(action, "stop") != 0)
        return err_set(
            e, TUG_EUSAGE,
            "the action is missing: 'tug profile start' or 'tug profile stop'");
    TRY(encoder_check_name("--out", v->out, true, e));
    TRY(save_check_output("--out", v->out, e));
    node_catch_signals();
    struct profiler p = {&n.node, v->node.connect_timeout, &node_interrupted};
    int rc = node_values_open(&n, &v->node, WIRE_OPERATOR, e);
    if (rc == 0)
        rc = starts ? profile_start_all(&p, v, e) : stop(&p, v, e);
    opened_node_close(&n);
    return rc;
}

const struct cli_command cli_profile = {
    &cli_profile_options, sizeof(struct profile_values), .run = profile_command};
