// Requests, from the call that makes them to the callback with their result, and their
// deadlines.
//
// A request that has failed or was cancelled is dropped at once, so that later answers to
// it are ignored. Its push number counts as closed, so that the low-water mark passes it.
// Servers acknowledge messages of it that arrive afterwards, but do not apply them.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/search.h"
#include "client/private.h"

const struct table_spec request_no_table = {.id = SPEC_MAX_TABLES};

struct request *request_new(struct client *c, const struct request_kind *kind,
                            const struct table_spec *spec, struct err *e)
{
    return request_new_in(&c->main, c, kind, spec, e);
}

struct request *request_new_in(struct lane *lane, struct client *c,
                               const struct request_kind *kind,
                               const struct table_spec *spec, struct err *e)
{
    if (spec == NULL)
        return NULL;
    if (client_ended(c, e) != 0)
        return NULL;
    if (c->over) {
        err_copy(e, &c->end);
        return NULL;
    }
    if (c->epoch == 0) {
        err_set(e, TUG_EUSAGE, "the cluster is not ready yet: wait for it first");
        return NULL;
    }
    struct request *r = request_take(c);
    if (r == NULL) {
        err_nomem(e, "a request");
        return NULL;
    }
    r->kind = kind;
    r->type = kind->type;
    r->answer = kind->answer;
    r->spec = spec;
    r->state = REQUEST_QUEUED;
    r->timeout = kind->takes_long ? c->o.admin_timeout_ns : c->o.request_timeout_ns;
    r->deadline = van_now(c->van) + r->timeout;
    list_append(c->first, c->last, r, before, behind);
    lane_put(lane, r);
    c->n_marks += kind->stands_alone;
    if (kind->holds)
        hold_take(c);
    c->in_flight++;
    return r;
}

static void unlink_request(struct request *r)
{
    struct client *c = r->client;
    if (r->state == REQUEST_QUEUED)
        lane_take(r);
    list_remove(c->first, c->last, r, before, behind);
    c->n_marks -= r->kind->stands_alone;
    c->in_flight--;
}

static void ended(struct request *r)
{
    struct client *c = r->client;
    assert(r->pins == 0 && r->slices == NULL); // the caller may reuse the arrays
    r->state = REQUEST_ENDED;
    r->behind = NULL;
    if (c->ended_last != NULL)
        c->ended_last->behind = r;
    else
        c->ended = r;
    c->ended_last = r;
}

// Returns a peer whose open link still sends the request's memory or receives into it;
// NULL if there is none.
static struct peer *holder_of(const struct request *r)
{
    for (const struct slice *s = r->slices; s != NULL; s = s->next)
        if (s->placing)
            return s->peer;
    for (const struct sending *s = r->client->sendings; s != NULL; s = s->behind)
        if (s->request == r && s->link == s->peer->s.link)
            return s->peer;
    return NULL;
}

// Breaks all links that use the request's memory. After each link it searches from the
// start, because breaking a link may release memory at once and so change the lists of
// sendings and slices.
static void let_go(struct request *r, uint64_t now)
{
    struct err why;
    err_set(&why, TUG_EIO, "a request was cancelled");
    for (struct peer *p = holder_of(r); p != NULL; p = holder_of(r))
        peer_break(p, &why, now);
}

// Returns the index of a table in the list, or the index at which to insert it.
static size_t table_place(const struct client *c, uint32_t table)
{
    return search_first(0, c->n_tables, i, c->tables[i]->id >= table);
}

// Makes room in a list of specs for `room` entries, so that a spec that an answer makes
// known always fits.
int request_table_room(struct client *c, struct err *e)
{
    size_t more = c->in_flight + 1;
    if (mem_room(&c->former, &c->max_former, c->n_former + more) != 0 ||
        mem_room(&c->tables, &c->max_tables, c->n_tables + more) != 0)
        return err_nomem(e, "the list of tables");
    return 0;
}

const struct table_spec *client_spec(const struct client *c, uint32_t table)
{
    size_t at = table_place(c, table);
    return at < c->n_tables && c->tables[at]->id == table ? c->tables[at] : NULL;
}

// Adds a spec to the known tables. Requests point at specs, so a known one stays where it
// is; if its table was dropped and another table has its number now, it moves to the
// former specs. Returns true if the client owns `spec` from now on.
bool request_learn(struct client *c, struct table_spec *spec)
{
    const struct table_spec *known = client_spec(c, spec->id);
    size_t at = table_place(c, spec->id);
    if (known != NULL && spec_same(known, spec))
        return false;
    if (known != NULL) {
        assert(c->n_former < c->max_former);
        c->former[c->n_former++] = c->tables[at];
        c->tables[at] = spec;
        return true;
    }
    memmove(c->tables + at + 1, c->tables + at,
            (c->n_tables - at) * sizeof(struct table_spec *));
    c->tables[at] = spec;
    c->n_tables++;
    return true;
}

void request_end(struct request *r, int rc, const struct err *why)
{
    if (r->state != REQUEST_QUEUED && r->state != REQUEST_OPEN)
        return;
    struct client *c = r->client;
    r->rc = rc;
    if (rc != 0)
        r->why = *why;
    if (rc != 0 && r->pins != 0)
        let_go(r, van_now(c->van));
    while (r->slices != NULL)
        slice_drop(r->slices);
    unlink_request(r);
    if (r->number != 0)
        numbers_close(request_numbers(r), r->number);
    if (c->marking == r)
        c->marking = NULL;
    if (r->kind->ended != NULL)
        r->kind->ended(r);
    if (r->kind->holds)
        hold_give(c);
    r->state = REQUEST_ENDING;
    if (r->pins == 0)
        ended(r);
}

void request_unpin(struct request *r)
{
    assert(r->pins > 0);
    if (--r->pins == 0 && r->state == REQUEST_ENDING)
        ended(r);
}

bool request_add(struct slice *s, const struct van_message *m)
{
    if (s->request->sum != NULL)
        *s->request->sum += m->m->ok.value;
    return true;
}

void slice_answered(struct slice *s)
{
    struct request *r = s->request;
    int rc = 0;
    slice_drop(s);
    if (r->open == 0 && r->kind->answered != NULL)
        rc = r->kind->answered(r);
    if (r->open == 0)
        request_end(r, rc, &r->why);
}

void request_end_all(struct client *c, const struct err *why)
{
    while (c->first != NULL)
        request_end(c->first, why->code, why);
}

// Calls the callbacks of ended requests, which may make requests and cancel them.
void request_flush(struct client *c)
{
    while (c->ended != NULL) {
        struct request *r = c->ended;
        c->ended = r->behind;
        if (c->ended == NULL)
            c->ended_last = NULL;
        client_ts ts = r->ts;
        r->state = REQUEST_DONE;
        if (r->done == NULL && !r->forget)
            continue;
        if (r->done != NULL)
            r->done(r->ctx, ts, r->rc);
        if (request_find(c, ts) != NULL) // the callback has not called client_done
            request_give(r);
    }
}

// ---------------------------------------------------------------- deadlines

const char *request_says(const struct request *r)
{
    return r->kind->says != NULL ? r->kind->says : r->u.question.says;
}

const char *request_about(const struct request *r, char to[REQUEST_ABOUT_MAX])
{
    if (r->spec->id < SPEC_MAX_TABLES)
        snprintf(to, REQUEST_ABOUT_MAX, " table %u (%s)", r->spec->id,
                 r->spec->config.name);
    else
        to[0] = '\0';
    return to;
}

// Sets the error of a timeout: "no answer for 60 s to a push to table 3 (x) from server 0
// (a:1), server 1 (b:2: why)".
static void say_who_is_missing(const struct request *r, struct err *e)
{
    char who[512], name[ROSTER_NAME_MAX], about[REQUEST_ABOUT_MAX];
    size_t at = 0;
    const struct slice *s = r->slices;
    who[0] = '\0';
    for (int n = 0; s != NULL && at < sizeof(who); s = s->next, n++) {
        const struct peer *p = s->peer;
        const char *why = p->s.state != SESSION_OPEN ? p->s.why.text
                          : s->no_room               ? "it has no room: see its --memory"
                                                     : "";
        int m = snprintf(who + at, sizeof(who) - at, "%s%s%s%.200s%s", n > 0 ? ", " : "",
                         peer_name(p, name), *why ? " (" : "", why, *why ? ")" : "");
        at += m > 0 ? (size_t)m : 0;
    }
    err_set(e, TUG_EIO, "no answer for %.1f s to %s%s from %s", (double)r->timeout * 1e-9,
            request_says(r), request_about(r, about),
            r->state == REQUEST_QUEUED ? "the servers: requests before it have no answer"
                                       : who);
}

// The search ends at the first request that is not due, because requests are in the order
// of their deadlines. The few requests that may take long are not in this order, so they
// do not end the search.
uint64_t request_check_deadlines(struct client *c, uint64_t now)
{
    uint64_t next = VAN_NEVER;
    for (struct request *r = c->first, *behind; r != NULL; r = behind) {
        behind = r->behind;
        if (r->deadline <= now) {
            struct err e;
            say_who_is_missing(r, &e);
            request_end(r, e.code, &e);
            continue;
        }
        next = min_u64(next, r->deadline);
        if (!r->kind->takes_long)
            break;
    }
    return next;
}

// ---------------------------------------------------------------- the calls

const struct table_spec *request_known(struct client *c, uint32_t table, struct err *e)
{
    const struct table_spec *s = client_spec(c, table);
    if (s == NULL)
        err_set(e, TUG_EUSAGE,
                "table %u is not known to this client: make or find it first", table);
    return s;
}

client_ts request_begin(struct request *r, const void *message)
{
    struct client *c = r->client;
    client_ts ts = r->ts;
    assert(r->state == REQUEST_QUEUED && (message != NULL || r->kind->send != NULL));
    r->message = message;
    (void)hold_tick(c, van_now(c->van));
    request_advance(c, van_now(c->van));
    if (c->o.resend_ns != 0)
        // The time of the next timed work has changed, and perhaps no message ends the poll.
        van_wake(c->van);
    return ts;
}

bool client_done(struct client *c, client_ts ts, int *ret_rc, struct err *e)
{
    struct request *r = request_find(c, ts);
    if (r == NULL) {
        *ret_rc = err_set(e, TUG_EUSAGE,
                          "there is no such request, or it ended long ago");
        return true;
    }
    if (r->state != REQUEST_DONE)
        return false;
    *ret_rc = r->rc;
    if (r->rc != 0 && e != NULL)
        *e = r->why;
    request_give(r);
    return true;
}

// Ends the request, breaks the links that use its arrays, and polls until the van has
// released them, which takes only a moment.
void client_cancel(struct client *c, client_ts ts)
{
    struct request *r = request_find(c, ts);
    if (r == NULL)
        return;
    if (r->state == REQUEST_DONE) {
        request_give(r);
        return;
    }
    struct err why;
    err_set(&why, TUG_EINTERRUPTED, "cancelled");
    r->done = NULL;
    r->forget = true;
    request_end(r, why.code, &why);
    while (request_find(c, ts) != NULL && r->state == REQUEST_ENDING)
        if (van_poll(c->van, van_now(c->van) + 10 * MS, &why) != 0)
            break;
}

size_t client_in_flight(const struct client *c)
{
    return c->in_flight;
}
