// tug profile: what the servers of a running cluster spend their time on.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/tool.h"
#include "server/trace_file.h"

struct profile_values {
    struct node_values node;
    struct option_list action;
    const char *out;
    uint64_t memory;
};

#define AT(field) .offset = offsetof(struct profile_values, field)

static const struct option options[] = {
    {.name = "action",
     .kind = OPTION_LIST,
     AT(action),
     .metavar = "ACTION",
     .group = "What to do",
     .help = "start: note each request from now on; stop: no more, and write the file"},
    {.name = "out",
     .kind = OPTION_STRING,
     AT(out),
     .fallback = "profile.json",
     .metavar = "FILE",
     .help = "stop: trace events, for https://ui.perfetto.dev or chrome://tracing; there "
             "when complete"},
    {.name = "memory",
     .kind = OPTION_SIZE,
     AT(memory),
     .fallback = "64M",
     .min = 4096,
     .max = 1 << 30,
     .metavar = "BYTES",
     .help = "start: of each loop at most; a request takes 56, and the oldest go first"},
    TOOL_SCHEDULER_OPTION,
    NODE_REACH_OPTIONS("5"),
};

const struct option_table cli_profile_options = {
    .command = "profile",
    .summary = "see what the servers of a running cluster spend their time on",
    .usage = "start|stop [--scheduler HOST:PORT] [options]",
    .about =
        "start turns it on at every loop of every server. stop turns it off, prints "
        "how many requests of each kind there were and how long serving them took, "
        "and writes them all into one file, on one clock: a server is a process "
        "there, a loop a thread. Requests that waited (for other workers, in ssp and "
        "sync) are shown as such, apart from the time that serving them took. While "
        "it is off it costs nothing.",
    .examples = "tug profile start\n"
                "tug profile stop --out profile.json",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
    .operands = "action",
    .family = cli_tables,
};

enum { LOOP_SECONDS = 10 };

// What loops are told to do.
enum step { START, STOP, FORGET };

// ---------------------------------------------------------------- one loop

static int start(struct tool *t, const struct profile_values *v, struct err *e)
{
    struct msg_profile m = {.what = WIRE_PROFILE_START, .bytes = v->memory};
    return tool_ask(t, MSG_PROFILE, &m, LOOP_SECONDS, e);
}

// An empty page says what its clock shows, between two looks at ours.
static int compare_clocks(struct tool *t, struct trace_loop *l, struct err *e)
{
    struct msg_profile m = {.what = WIRE_PROFILE_READ, .from = UINT64_MAX};
    uint64_t asked = clock_unix_ns();
    TRY(tool_ask(t, MSG_PROFILE, &m, LOOP_SECONDS, e));
    if (t->type != MSG_TRACE)
        return err_set(e, TUG_EDATA, "%s: its profile cannot be read", t->address);
    l->doubt_ns = (clock_unix_ns() - asked) / 2;
    l->ahead_ns = (int64_t)(t->trace.unix_ns - (asked + l->doubt_ns));
    return 0;
}

static int read_events(struct tool *t, struct trace_loop *l, struct err *e)
{
    struct msg_profile m = {.what = WIRE_PROFILE_READ};
    do {
        TRY(tool_ask(t, MSG_PROFILE, &m, LOOP_SECONDS, e));
        if (t->type != MSG_TRACE || t->trace.from < m.from)
            return err_set(e, TUG_EDATA, "%s: its profile cannot be read", t->address);
        size_t before = l->n;
        if (trace_add(l, t->trace.events, e) != 0)
            return err_wrap(e, "%s", t->address);
        l->dropped = t->trace.dropped;
        m.from = t->trace.from + (l->n - before);
        if (l->n == before)
            return 0;
    } while (m.from < t->trace.end);
    return 0;
}

static int name_tables(struct tool *t, struct trace_loop *l, struct err *e)
{
    json_t *status = NULL, *table;
    size_t i;
    TRY(tool_status(t, LOOP_SECONDS, &status, e));
    int rc = 0;
    json_array_foreach(json_object_get(status, "tables"), i, table) if (rc == 0)
        rc = trace_name(l, (uint32_t)tool_number(table, "id"), tool_text(table, "name"));
    json_decref(status);
    return rc == 0 ? 0 : err_nomem(e, "names of tables");
}

static int stop(struct tool *t, struct trace_loop *l, struct err *e)
{
    struct msg_profile m = {.what = WIRE_PROFILE_STOP};
    TRY(tool_ask(t, MSG_PROFILE, &m, LOOP_SECONDS, e));
    TRY(compare_clocks(t, l, e));
    TRY(read_events(t, l, e));
    return name_tables(t, l, e);
}

static int forget(struct tool *t, struct err *e)
{
    struct msg_profile m = {.what = WIRE_PROFILE_FORGET};
    return tool_ask(t, MSG_PROFILE, &m, LOOP_SECONDS, e);
}

static int ask_loop(struct node *n, const json_t *node, const struct profile_values *v,
                    enum step step, struct trace_loop *l, struct err *e)
{
    struct tool t = {0};
    l->rank = (uint32_t)tool_number(node, "rank");
    l->loop = (uint32_t)tool_number(node, "loop");
    snprintf(l->process, sizeof(l->process), "server %u (%.64s:%.0f)", l->rank,
             tool_text(node, "host"), tool_number(node, "pid"));
    int rc = tool_open(&t, n, tool_text(node, "address"), LOOP_SECONDS, e);
    if (rc == 0)
        rc = step == START  ? start(&t, v, e)
             : step == STOP ? stop(&t, l, e)
                            : forget(&t, e);
    tool_close(&t);
    return rc;
}

// ---------------------------------------------------------------- all loops

// Whoever can't be asked is the error that is returned, after all others were asked.
static int ask_all(struct opened_node *n, const struct profile_values *v, enum step step,
                   struct trace *trace, struct err *e)
{
    struct tool t = {0};
    json_t *status = NULL, *node;
    size_t i;
    int rc = tool_open(&t, &n->node, n->node.scheduler, v->node.connect_timeout, e);
    if (rc == 0)
        rc = tool_status(&t, v->node.connect_timeout, &status, e);
    tool_close(&t);
    TRY(rc);
    json_t *nodes = json_object_get(status, "nodes");
    trace->loops = mem_zalloc((json_array_size(nodes) + 1) * sizeof(*trace->loops));
    if (trace->loops == NULL)
        rc = err_nomem(e, "the cluster's loops");
    json_array_foreach(trace->loops != NULL ? nodes : NULL, i, node)
    {
        struct err one = {0};
        if (strcmp(tool_text(node, "role"), "server") != 0 || !tool_true(node, "alive"))
            continue;
        ask_loop(&n->node, node, v, step, &trace->loops[trace->n++], &one);
        if (one.code != 0 && rc == 0) {
            *e = one;
            rc = one.code;
        }
    }
    json_decref(status);
    if (rc == 0 && trace->n == 0)
        return err_set(e, TUG_EUSAGE, "the cluster at %s has no servers",
                       n->node.scheduler);
    return rc;
}

static int show(struct trace *trace, const char *path, struct err *e)
{
    struct buf text = BUF_INIT(1 << 20);
    uint64_t events = 0, dropped = 0;
    for (size_t i = 0; i < trace->n; i++) {
        events += trace->loops[i].n;
        dropped += trace->loops[i].dropped;
    }
    trace_align(trace);
    TRY(trace_write(trace, path, e));
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

static int start_all(struct opened_node *n, const struct profile_values *v, struct err *e)
{
    struct trace trace = {0};
    int rc = ask_all(n, v, START, &trace, e);
    if (rc == 0)
        printf("%zu loops note what they serve; 'tug profile stop' ends that\n", trace.n);
    trace_free(&trace);
    return rc;
}

// What others have told is not lost with one that can't be asked; and loops forget only
// what is in the file.
static int stop_all(struct opened_node *n, const struct profile_values *v, struct err *e)
{
    struct trace trace = {0}, ignored = {0};
    struct err shown = {0};
    size_t events = 0;
    int rc = ask_all(n, v, STOP, &trace, e);
    for (size_t i = 0; i < trace.n; i++)
        events += trace.loops[i].n;
    if (rc != 0 && events == 0) {
        trace_free(&trace);
        return rc;
    }
    if (show(&trace, v->out, &shown) != 0) {
        *e = shown;
        rc = shown.code;
    } else {
        ask_all(n, v, FORGET, &ignored, &shown); // its next start forgets as well
    }
    trace_free(&trace);
    trace_free(&ignored);
    return rc;
}

static int run(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    const struct profile_values *v = values;
    const char *action = v->action.n == 1 ? v->action.items[0] : "";
    struct opened_node n;
    bool starts = strcmp(action, "start") == 0;
    if (!starts && strcmp(action, "stop") != 0)
        return err_set(e, TUG_EUSAGE,
                       "say what to do: 'tug profile start' or 'tug profile stop'");
    node_catch_signals();
    int rc = node_values_open(&n, &v->node, WIRE_TOOL, e);
    if (rc == 0)
        rc = starts ? start_all(&n, v, e) : stop_all(&n, v, e);
    opened_node_close(&n);
    return rc;
}

const struct cli_command cli_profile = {
    .options = &cli_profile_options,
    .values_size = sizeof(struct profile_values),
    .run = run,
};
