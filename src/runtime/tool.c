// Asks nodes of a running cluster questions from outside.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tool.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/printable.h"
#include "os/clock.h"
#include "os/log.h"

// The most bytes of an answer. The status of a cluster of 65,535 nodes takes about 20
// MiB, that of a loop with 4,096 tables more than 1 MiB.
enum { TEXT_MAX = 256 << 20 };

// A tool waits for a state of its session, or for ANSWER, the answer to its question.
enum { ANSWER = SESSION_OPEN + 1 };

enum { LOOK_NS = 100000000 }; // time between two checks whether the wait must end

static void tool_on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct tool *t = ctx;
    (void)accepted;
    (void)session_opened(&t->s, link, now);
}

static void tool_take_text(struct tool *t, struct wire_text text)
{
    buf_clear(&t->text);
    t->too_long = buf_add(&t->text, text.data, text.n) != 0;
    if (t->too_long)
        buf_clear(&t->text);
}

static void tool_on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct tool *t = ctx;
    enum session_news news = session_message(&t->s, link, m, now);
    if (news == SESSION_GREETED) {
        t->unix_ns = m->m->welcome.unix_ns;
        wire_words(m->m->welcome.version, t->version, sizeof(t->version));
    }
    if (news == SESSION_REFUSED && m->type == MSG_ERROR)
        err_wrap(&t->s.why, "%s", t->address);
    if (news != SESSION_MESSAGE)
        return;
    t->type = m->type;
    t->answered = true;
    if (m->type == MSG_ERROR) {
        wire_refusal(&m->m->error, t->address, &t->why);
    } else if (m->type == MSG_OK) {
        t->value = m->m->ok.value;
    } else if (m->type == MSG_STATUS_IS) {
        const struct wire_span *json = &m->m->status_is.json;
        tool_take_text(t, (struct wire_text){json->data, (uint32_t)json->n});
    } else if (m->type == MSG_TRACE) {
        tool_take_text(t, m->m->trace.events);
        t->trace = m->m->trace;
        t->trace.events = (struct wire_text){t->text.data, (uint32_t)t->text.len};
        if (t->text.len != m->m->trace.events.n)
            t->type = 0; // out of memory: handled as an answer that cannot be read
    }
}

static void tool_on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct tool *t = ctx;
    if (!session_closed(&t->s, link, why, now))
        return;
    t->s.why.code = TUG_EIO;
    if (why->text[0] == 0)
        err_set(&t->s.why, TUG_EIO, "%s has closed the link", t->address);
}

static uint64_t tool_on_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

// Logs once that the command waits for the node, because otherwise nothing would be
// printed until the time limit if the node does not run yet.
static void tell_wait(struct tool *t, double seconds)
{
    if (!t->told)
        log_info("waiting up to %.0f s for %s, which does not answer yet", seconds,
                 t->address);
    t->told = true;
}

static int wait_for(struct tool *t, int what, double seconds, struct err *e)
{
    struct van *v = t->side.van;
    uint64_t until = van_now(v) + (uint64_t)(seconds * 1e9);
    uint64_t tell_at = van_now(v) + SECOND_NS;
    while (!t->answered && t->s.link != 0 && (int)t->s.state < what &&
           van_now(v) < until) {
        uint64_t next = clock_earlier(until, van_now(v) + LOOK_NS);
        TRY(van_poll(v, t->told ? next : clock_earlier(next, tell_at), e));
        if (tell_at < until && van_now(v) >= tell_at)
            tell_wait(t, seconds);
        if (t->interrupted != NULL && atomic_load(t->interrupted))
            return err_set(e, TUG_EINTERRUPTED, "interrupted");
    }
    if (t->answered || (int)t->s.state >= what)
        return 0;
    if (t->s.link == 0)
        return err_copy(e, &t->s.why);
    return err_set(e, TUG_EIO, "%s has not answered for %.0f s", t->address, seconds);
}

static int open_tool(struct tool *t, struct node *n, const char *address, struct err *e)
{
    struct van_handler h = {
        .ctx = t,
        .opened = tool_on_opened,
        .message = tool_on_message,
        .closed = tool_on_closed,
        .tick = tool_on_tick,
    };
    *t = (struct tool){
        .interrupted = t->interrupted,
        .max_text = t->max_text,
        .text = BUF_INIT(t->max_text != 0 ? t->max_text : TEXT_MAX),
        .who = {.cluster = n->cluster,
                .role = WIRE_TOOL}, // the process does not join the cluster
        .side = {.who = &t->who},
        .s = {.side = &t->side},
    };
    TRY(node_address(address, t->address, e));
    // Only the scheduler may answer at this address.
    if (strcmp(t->address, n->scheduler) == 0)
        t->s.role = WIRE_SCHEDULER;
    return node_van(n, &t->side.van, &h, false, e);
}

static int dial_tool(struct tool *t, double seconds, struct err *e)
{
    if (!session_dial(&t->s, t->address, (uint64_t)(seconds * 1e9), van_now(t->side.van)))
        return err_nomem(e, "a link");
    TRY(wait_for(t, SESSION_GREETING, seconds, e));
    return wait_for(t, SESSION_OPEN, seconds, e);
}

int tool_open(struct tool *t, struct node *n, const char *address, double seconds,
              struct err *e)
{
    TRY(open_tool(t, n, address, e));
    int rc = dial_tool(t, seconds, e);
    while (rc != 0 && t->s.refusals > 0 && t->s.state == SESSION_CLOSED &&
           session_may_retry(&t->s, t->address))
        rc = dial_tool(t, seconds, e);
    return rc;
}

void tool_close(struct tool *t)
{
    van_free(t->side.van);
    buf_free(&t->text);
    *t = (struct tool){0};
}

int tool_ask(struct tool *t, uint16_t type, const void *msg, double seconds,
             struct err *e)
{
    t->answered = false;
    t->type = 0;
    if (van_send(t->side.van, t->s.link, type, 1, msg, NULL) != 0)
        return err_set(e, TUG_EIO, "%s: the link broke", t->address);
    TRY(wait_for(t, ANSWER, seconds, e));
    if (t->type == MSG_ERROR)
        return err_copy(e, &t->why);
    if (wire_answer(type) != 0 && t->type != wire_answer(type))
        return err_set(e, TUG_EDATA, "%s: its answer to %s cannot be read", t->address,
                       wire_name(type));
    return 0;
}

// Makes the texts of an answer printable. Returns false if the name of a field is not
// printable.
static bool make_printable(json_t *x)
{
    const char *name;
    json_t *value;
    size_t i;
    if (json_is_string(x) &&
        !printable_check(json_string_value(x), json_string_length(x))) {
        char *copy = mem_strdup(json_string_value(x)); // ends at the first NUL
        if (copy == NULL)
            return false;
        printable_make(copy);
        int rc = json_string_set(x, copy);
        mem_free(copy);
        return rc == 0;
    }
    json_object_foreach(x, name, value)
        if (!printable_check(name, strlen(name)) || !make_printable(value))
            return false;
    json_array_foreach(x, i, value)
        if (!make_printable(value))
            return false;
    return true;
}

size_t tool_count_values(const char *text, size_t n)
{
    size_t values = 1;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted)
            values += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return values;
}

int tool_status(struct tool *t, double seconds, json_t **ret, struct err *e)
{
    json_set_alloc_funcs(mem_alloc, mem_free);
    TRY(tool_ask(t, MSG_STATUS, &(struct msg_status){}, seconds, e));
    *ret = NULL;
    size_t values = tool_count_values(t->text.data, t->text.len);
    if (t->max_values != 0 && values > t->max_values)
        return err_set(e, TUG_EDATA, "%s: its answer to status has more than %zu values",
                       t->address, t->max_values);
    *ret = json_loadb(t->text.data != NULL ? t->text.data : "", t->text.len, 0, NULL);
    if (json_is_object(*ret) && make_printable(*ret))
        return 0;
    json_decref(*ret);
    *ret = NULL;
    if (t->too_long)
        return err_set(
            e, TUG_EDATA,
            "%s: its answer to status has more than %zu MiB, or more than there "
            "is memory for",
            t->address, t->text.max >> 20);
    return err_set(e, TUG_EDATA, "%s: its answer to status cannot be read", t->address);
}

const char *tool_text(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text != NULL ? text : "";
}

double tool_number(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

int64_t tool_count(const json_t *o, const char *name)
{
    const double most = (double)((int64_t)1 << 53);
    double x = tool_number(o, name);
    return x > -most && x < most ? (int64_t)x : x > 0 ? (int64_t)most : -(int64_t)most;
}

bool tool_true(const json_t *o, const char *name)
{
    return json_is_true(json_object_get(o, name));
}
