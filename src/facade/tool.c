// Questions to a running cluster: see tool.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "facade/tool.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/printable.h"
#include "cluster/proof.h"

// Of an answer. The status of a cluster of 65,535 nodes has some 20 MiB, and that of a
// loop with 4,096 tables more than one.
enum { TEXT_MAX = 256 << 20 };

static void on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct tool *t = ctx;
    (void)link, (void)accepted, (void)now;
    t->opened = true;
}

static void take_text(struct tool *t, struct wire_text text)
{
    buf_clear(&t->text);
    t->too_long = buf_add(&t->text, text.data, text.n) != 0;
    if (t->too_long)
        buf_clear(&t->text);
}

// Who took the port of another shows a certificate of its own role.
static void welcomed(struct tool *t, const struct msg_welcome *w)
{
    const struct van_trust trust = van_trust(t->van, t->link);
    enum wire_role role = t->asks_scheduler ? WIRE_SCHEDULER : (enum wire_role)w->role;
    t->greeted = w->role == role && proof_role_fits(role, trust.role);
    t->unix_ns = w->unix_ns;
    wire_words(w->version, t->version, sizeof(t->version));
    if (t->greeted)
        return;
    t->closed = true;
    err_set(&t->why, TUG_EIO,
            "the process that listens at %s cannot prove that it is a %s of the cluster",
            t->address, wire_role_name(role) != NULL ? wire_role_name(role) : "node");
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct tool *t = ctx;
    (void)link, (void)now;
    if (m->type == MSG_WELCOME) {
        welcomed(t, &m->m->welcome);
        return;
    }
    t->type = m->type;
    t->answered = true;
    if (m->type == MSG_ERROR) {
        t->code = m->m->error.code;
        take_text(t, m->m->error.what);
    } else if (m->type == MSG_STATUS_IS) {
        const struct wire_span *json = &m->m->status_is.json;
        take_text(t, (struct wire_text){json->data, (uint32_t)json->n});
    } else if (m->type == MSG_TRACE) {
        take_text(t, m->m->trace.events);
        t->trace = m->m->trace;
        t->trace.events = (struct wire_text){t->text.data, (uint32_t)t->text.len};
        if (t->text.len != m->m->trace.events.n)
            t->type = 0; // out of memory: no answer that can be read
    }
}

static void on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct tool *t = ctx;
    (void)link, (void)now;
    t->closed = true;
    t->why = *why;
}

static uint64_t on_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static int refused(const struct tool *t, struct err *e)
{
    char what[ERR_TEXT_MAX];
    struct wire_text text = {t->text.data, (uint32_t)t->text.len};
    return err_set(e, wire_failure(t->code), "%s: %s", t->address,
                   wire_reason(text, what, sizeof(what)));
}

static int wait_for(struct tool *t, const bool *what, double seconds, struct err *e)
{
    uint64_t until = van_now(t->van) + (uint64_t)(seconds * 1e9);
    while (!*what && !t->answered && !t->closed && van_now(t->van) < until) {
        TRY(van_poll(t->van, until, e));
        if (t->interrupted != NULL && atomic_load(t->interrupted))
            return err_set(e, TUG_EINTERRUPTED, "interrupted");
    }
    if (*what)
        return 0;
    if (t->answered) // an error instead of a welcome
        return refused(t, e);
    if (t->closed)
        return t->why.text[0] != 0
                   ? err_set(e, TUG_EIO, "%s", t->why.text)
                   : err_set(e, TUG_EIO, "%s has closed the link", t->address);
    return err_set(e, TUG_EIO, "%s has not answered for %.0f s", t->address, seconds);
}

int tool_open(struct tool *t, struct node *n, const char *address, double seconds,
              struct err *e)
{
    struct van_handler h = {
        .ctx = t,
        .opened = on_opened,
        .message = on_message,
        .closed = on_closed,
        .tick = on_tick,
    };
    *t = (struct tool){.interrupted = t->interrupted, .text = BUF_INIT(TEXT_MAX)};
    TRY(node_address(address, t->address, e));
    t->asks_scheduler = strcmp(t->address, n->scheduler) == 0;
    TRY(node_van(n, &t->van, &h, false, e));
    t->link = van_connect(t->van, t->address, (uint64_t)(seconds * 1e9));
    if (t->link == 0)
        return err_nomem(e, "a link");
    TRY(wait_for(t, &t->opened, seconds, e));
    struct msg_hello hello = {
        .cluster = n->cluster,
        .role = WIRE_TOOL, // it does not join, whatever it may do
        .unix_ns = clock_unix_ns(),
        .version = wire_text(tug_version()),
    };
    if (van_send(t->van, t->link, MSG_HELLO, 0, &hello, NULL) != 0)
        return err_set(e, TUG_EIO, "%s: the link broke", t->address);
    return wait_for(t, &t->greeted, seconds, e);
}

void tool_close(struct tool *t)
{
    van_free(t->van);
    buf_free(&t->text);
    *t = (struct tool){0};
}

int tool_ask(struct tool *t, uint16_t type, const void *msg, double seconds,
             struct err *e)
{
    t->answered = false;
    t->type = 0;
    if (van_send(t->van, t->link, type, 1, msg, NULL) != 0)
        return err_set(e, TUG_EIO, "%s: the link broke", t->address);
    TRY(wait_for(t, &t->answered, seconds, e));
    if (t->type == MSG_ERROR)
        return refused(t, e);
    if (wire_answer(type) != 0 && t->type != wire_answer(type))
        return err_set(e, TUG_EDATA, "%s: its answer to %s cannot be read", t->address,
                       wire_name(type));
    return 0;
}

// Texts are made printable; names of fields have to be.
static bool make_printable(json_t *x)
{
    const char *name;
    json_t *value;
    size_t i;
    if (json_is_string(x) &&
        !printable_check(json_string_value(x), json_string_length(x))) {
        char *copy = mem_strdup(json_string_value(x)); // a NUL in it ends it
        if (copy == NULL)
            return false;
        printable_make(copy);
        int rc = json_string_set(x, copy);
        mem_free(copy);
        return rc == 0;
    }
    json_object_foreach(x, name, value) if (!printable_check(name, strlen(name)) ||
                                            !make_printable(value)) return false;
    json_array_foreach(x, i, value) if (!make_printable(value)) return false;
    return true;
}

int tool_status(struct tool *t, double seconds, json_t **ret, struct err *e)
{
    json_set_alloc_funcs(mem_alloc, mem_free);
    TRY(tool_ask(t, MSG_STATUS, &(struct msg_status){}, seconds, e));
    *ret = json_loadb(t->text.data != NULL ? t->text.data : "", t->text.len, 0, NULL);
    if (json_is_object(*ret) && make_printable(*ret))
        return 0;
    json_decref(*ret);
    *ret = NULL;
    if (t->too_long)
        return err_set(
            e, TUG_EDATA,
            "%s: its answer to status has more than %d MiB, or more than there "
            "is memory for",
            t->address, TEXT_MAX >> 20);
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
