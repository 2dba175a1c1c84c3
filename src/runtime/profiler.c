// Profiles of a cluster: asks the scheduler for the addresses of all server loops, then
// each loop.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/profiler.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "runtime/tool.h"
#include "server/profile/profile.h"

enum {
    LOOP_SECONDS = 10,
    // After this many loops have not answered, the remaining loops are not asked. So all
    // silent loops together take at most this many time limits.
    LOST_LOOPS = 3,
};

// The kind of a request to a loop. FORGET drops the loop's recorded events.
enum step { START, STOP, FORGET };
struct question {
    const struct profiler *who;
    enum step step;
    uint64_t bytes; // for START: the most bytes of events that a loop records
    uint64_t room;  // for STOP: the number of bytes left for events of all loops
};

// ---------------------------------------------------------------- one loop

static int profiler_start_loop(struct tool *t, uint64_t bytes, struct err *e)
{
    struct msg_profile m = {.what = WIRE_PROFILE_START, .bytes = bytes};
    return tool_ask(t, MSG_PROFILE, &m, LOOP_SECONDS, e);
}

// Measures how far the loop's clock is ahead of ours: the answer to a request for an
// empty page has the loop's time.
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

// Reads the loop's events page by page. A page that is not full is the last one, so that
// the number of requests is bounded, whatever the loop answers.
static int read_events(struct tool *t, struct trace_loop *l, uint64_t *room,
                       struct err *e)
{
    struct msg_profile m = {.what = WIRE_PROFILE_READ};
    do {
        TRY(tool_ask(t, MSG_PROFILE, &m, LOOP_SECONDS, e));
        size_t before = l->n;
        if (t->type == MSG_TRACE && trace_add(l, t->trace.events, e) != 0)
            return err_wrap(e, "%s", t->address);
        size_t n = l->n - before;
        uint64_t next = t->trace.from + n;
        if (t->type != MSG_TRACE || t->trace.from < m.from || n > PROFILE_PAGE ||
            (n < PROFILE_PAGE && next < t->trace.end))
            return err_set(e, TUG_EDATA, "%s: its profile cannot be read", t->address);
        if (n * sizeof(struct wire_event) > *room)
            return err_set(e, TUG_ENOMEM,
                           "%s: its profile has more events than fit into the memory "
                           "that is free here",
                           t->address);
        *room -= n * sizeof(struct wire_event);
        l->dropped = t->trace.dropped;
        m.from = next;
    } while (m.from < t->trace.end);
    return 0;
}

static int name_tables(struct tool *t, struct trace_loop *l, struct err *e)
{
    json_t *status = NULL, *table;
    size_t i;
    TRY(tool_status(t, LOOP_SECONDS, &status, e));
    int rc = 0;
    json_array_foreach(json_object_get(status, "tables"), i, table)
        if (rc == 0)
            rc = trace_name(l, (uint32_t)tool_count(table, "id"),
                            tool_text(table, "name"));
    json_decref(status);
    return rc == 0 ? 0 : err_nomem(e, "names of tables");
}

static int stop(struct tool *t, struct trace_loop *l, uint64_t *room, struct err *e)
{
    struct msg_profile m = {.what = WIRE_PROFILE_STOP};
    TRY(tool_ask(t, MSG_PROFILE, &m, LOOP_SECONDS, e));
    TRY(compare_clocks(t, l, e));
    TRY(read_events(t, l, room, e));
    return name_tables(t, l, e);
}

static int profiler_forget(struct tool *t, struct err *e)
{
    struct msg_profile m = {.what = WIRE_PROFILE_FORGET};
    return tool_ask(t, MSG_PROFILE, &m, LOOP_SECONDS, e);
}

static int ask_loop(struct question *q, const json_t *node, struct trace_loop *l,
                    struct err *e)
{
    struct tool t = {.interrupted = q->who->interrupted};
    l->rank = (uint32_t)tool_count(node, "rank");
    l->loop = (uint32_t)tool_count(node, "loop");
    snprintf(l->process, sizeof(l->process), "server %u (%.64s:%.0f)", l->rank,
             tool_text(node, "host"), tool_number(node, "pid"));
    int rc = tool_open(&t, q->who->node, tool_text(node, "address"), q->who->seconds, e);
    if (rc == 0)
        rc = q->step == START  ? profiler_start_loop(&t, q->bytes, e)
             : q->step == STOP ? stop(&t, l, &q->room, e)
                               : profiler_forget(&t, e);
    tool_close(&t);
    return rc;
}

// ---------------------------------------------------------------- all loops

static int ask_scheduler(const struct profiler *p, json_t **ret_status, struct err *e)
{
    struct tool t = {.interrupted = p->interrupted};
    int rc = tool_open(&t, p->node, p->node->scheduler, p->seconds, e);
    if (rc == 0)
        rc = tool_status(&t, p->seconds, ret_status, e);
    tool_close(&t);
    return rc;
}

// Asks all loops of living servers. If a loop cannot be asked, its error is returned
// after the other loops were asked. If LOST_LOOPS loops do not answer, the remaining
// loops are not asked, so that the call ends in time.
static int ask_all(struct question *q, struct trace *trace, struct err *e)
{
    json_t *status = NULL, *node;
    uint64_t lost = 0, most = (uint64_t)(LOST_LOOPS * q->who->seconds * 1e9);
    size_t i;
    TRY(ask_scheduler(q->who, &status, e));
    json_t *nodes = json_object_get(status, "nodes");
    int rc = 0;
    trace->loops = mem_zalloc((json_array_size(nodes) + 1) * sizeof(*trace->loops));
    if (trace->loops == NULL)
        rc = err_nomem(e, "the cluster's loops");
    json_array_foreach(trace->loops != NULL ? nodes : NULL, i, node) {
        struct err one = {0};
        uint64_t begun = clock_ns();
        if (strcmp(tool_text(node, "role"), "server") != 0 || !tool_true(node, "alive"))
            continue;
        if (lost > most)
            break;
        ask_loop(q, node, &trace->loops[trace->n++], &one);
        if (one.code != 0)
            lost += clock_ns() - begun;
        if (one.code != 0 && rc == 0) {
            *e = one;
            rc = one.code;
        }
    }
    json_decref(status);
    if (rc == 0 && trace->n == 0)
        return err_set(e, TUG_EUSAGE, "the cluster at %s has no servers",
                       q->who->node->scheduler);
    return rc;
}

int profiler_start(const struct profiler *p, uint64_t bytes, size_t *ret_loops,
                   struct err *e)
{
    struct trace trace = {0};
    int rc = ask_all(&(struct question){.who = p, .step = START, .bytes = bytes}, &trace,
                     e);
    if (rc == 0 && ret_loops != NULL)
        *ret_loops = trace.n;
    trace_free(&trace);
    return rc;
}

static void forget_all(const struct profiler *p)
{
    struct trace trace = {0};
    // If a loop cannot be asked, it forgets its events when it next starts to record.
    struct err ignored;
    (void)ask_all(&(struct question){.who = p, .step = FORGET}, &trace, &ignored);
    trace_free(&trace);
}

static size_t events_of(const struct trace *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->loops[i].n;
    return n;
}

int profiler_stop(const struct profiler *p, const char *file, struct trace *ret,
                  struct err *e)
{
    *ret = (struct trace){0};
    int rc = ask_all(&(struct question){.who = p, .step = STOP, .room = mem_available()},
                     ret, e);
    if (rc != 0 && events_of(ret) == 0) {
        trace_free(ret);
        return rc;
    }
    trace_align(ret);
    struct err why = {0};
    if (trace_write(ret, file, &why) != 0) {
        trace_free(ret);
        *e = why;
        return why.code;
    }
    forget_all(p);
    return rc;
}
