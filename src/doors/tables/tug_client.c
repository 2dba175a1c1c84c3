// The public client: opening and closing it, its tables and barriers.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/tables/tug_client.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "os/descriptors.h"
#include "runtime/environment.h"
#include "runtime/interrupt.h"
#include "runtime/ready.h"
#include "tug/table.h"

enum { WAIT_SECONDS = 600, SPIN_US = 300, LEAVE_SECONDS = 5 };

// Handlers of the van's events. They call the client's handlers, and then end the calls
// whose requests have ended.

static void joined_on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    const struct van_handler *h = &((struct tug_client *)ctx)->beneath;
    h->opened(h->ctx, link, accepted, now);
}

static void joined_on_message(void *ctx, van_link link, struct van_message *m,
                              uint64_t now)
{
    const struct van_handler *h = &((struct tug_client *)ctx)->beneath;
    h->message(h->ctx, link, m, now);
}

static void *on_place(void *ctx, van_link link, uint16_t type, uint64_t request,
                      const union wire_any *head, uint64_t body_bytes)
{
    const struct van_handler *h = &((struct tug_client *)ctx)->beneath;
    return h->place != NULL ? h->place(h->ctx, link, type, request, head, body_bytes)
                            : NULL;
}

static void joined_on_closed(void *ctx, van_link link, const struct err *why,
                             uint64_t now)
{
    const struct van_handler *h = &((struct tug_client *)ctx)->beneath;
    h->closed(h->ctx, link, why, now);
}

static uint64_t joined_on_tick(void *ctx, uint64_t now)
{
    const struct van_handler *h = &((struct tug_client *)ctx)->beneath;
    return h->tick(h->ctx, now);
}

static const struct van_handler handler = {
    .opened = joined_on_opened,
    .message = joined_on_message,
    .place = on_place,
    .closed = joined_on_closed,
    .tick = joined_on_tick,
};

// ---------------------------------------------------------------- opening

static int read_environment(struct tug_client *c, struct err *e)
{
    // A client joins as a worker, whatever role the environment gives this process.
    struct tug_node_options o = {
        .role = TUG_GROUP_WORKERS,
        // 1: with an address, the environment need not give the numbers of nodes.
        .servers = c->o.scheduler != NULL,
        .workers = c->o.scheduler != NULL,
        .scheduler = c->o.scheduler,
        .cluster = c->o.cluster,
        .ca = c->o.ca,
        .cert = c->o.cert,
        .key = c->o.key,
        .insecure = c->o.insecure,
        .wait_seconds = c->o.wait_seconds,
        .spin_us = c->o.spin_us,
    };
    TRY(environment_fill(&o, &c->environment, e));
    c->o.scheduler = o.scheduler;
    c->o.cluster = o.cluster;
    c->o.ca = o.ca;
    c->o.cert = o.cert;
    c->o.key = o.key;
    c->o.insecure = o.insecure;
    c->o.wait_seconds = o.wait_seconds > 0 ? o.wait_seconds : WAIT_SECONDS;
    c->o.spin_us = o.spin_us > 0 ? o.spin_us : SPIN_US;
    return 0;
}

static int open_local(struct tug_client *c, struct err *e)
{
    if (c->o.guest || c->o.scheduler != NULL || c->o.ca != NULL)
        return err_set(e, TUG_EUSAGE,
                       "a client with local_loops has a cluster of its own: leave guest, "
                       "scheduler and ca out");
    TRY(embedded_open(&c->embedded, c->o.local_loops, e));
    c->o.scheduler = embedded_scheduler(c->embedded);
    c->o.cluster = embedded_cluster(c->embedded);
    return 0;
}

// Returns the rank that the environment names for this worker. The worker gets this rank
// if it is free.
static uint32_t wished_rank(const struct tug_client *c)
{
    const struct role *r = &c->environment;
    return r->has_rank && !c->o.guest && c->embedded == NULL ? r->rank + 1 : 0;
}

static int open_client(struct tug_client *c, struct err *e)
{
    if (c->o.local_loops > 0)
        TRY(open_local(c, e));
    TRY(read_environment(c, e));
    struct node_options no = {
        .wish = wished_rank(c),
        .cluster = c->o.cluster,
        .token = c->embedded != NULL ? embedded_token(c->embedded) : NULL,
        .scheduler = c->o.scheduler,
        .ca = c->o.ca,
        .cert = c->o.cert,
        .key = c->o.key,
        .insecure = c->o.insecure,
    };
    TRY(node_open(&c->node, &no, e));
    struct client_options co = {
        .member = node_member(&c->node, c->o.guest ? WIRE_DRIVER : WIRE_WORKER, ""),
        .bf16 = c->o.bf16,
        .pack_keys = c->o.pack_keys,
        .cache_keys = c->o.cache_keys,
    };
    TRY(client_open(&c->client, &co, e));
    c->beneath = client_handler(c->client);
    struct van_handler h = handler;
    h.ctx = c;
    TRY(node_van(&c->node, &c->van, &h, false, e));
    client_serve(c->client, c->van, van_now(c->van));
    TRY(pump_open(&c->pump, c->van, e));
    pump_set_spin(c->pump, clock_ns_of(c->o.spin_us * 1e-6));
    return node_heartbeat(&c->node, NULL, e);
}

static bool ready_or_over(void *ctx)
{
    const struct member *m = client_member(((struct tug_client *)ctx)->client);
    return member_ready(m) || member_ended(m, NULL);
}

static uint64_t deadline(const struct tug_client *c, double seconds)
{
    return van_now(c->van) + clock_ns_of(seconds);
}

static int wait_ready(struct tug_client *c, struct err *e)
{
    double seconds;
    bool in_time = ready_wait(c->pump, c->van, client_member(c->client), ready_or_over, c,
                              c->o.wait_seconds, &seconds);
    pump_enter(c->pump);
    int rc = member_over(client_member(c->client), e);
    if (rc == 0 && !in_time && interrupt_came())
        rc = err_set(
            e, TUG_EINTERRUPTED,
            "interrupted before the cluster was complete: the scheduler at %s %s",
            c->node.scheduler, member_waits_for(client_member(c->client)));
    else if (rc == 0 && !in_time)
        rc = err_set(e, TUG_EIO,
                     "the cluster is not complete after %.3g s: the scheduler at %s %s",
                     seconds, c->node.scheduler,
                     member_waits_for(client_member(c->client)));
    c->workers = member_roster(client_member(c->client))->workers;
    c->servers = member_roster(client_member(c->client))->servers;
    if (rc == 0 && wished_rank(c) > 0)
        role_tell_rank(&c->environment, false, member_rank(client_member(c->client)));
    pump_leave(c->pump);
    return rc;
}

static void free_client(struct tug_client *c)
{
    pump_close(c->pump);
    van_free(c->van); // before client_close, because the van uses memory of the client
    client_close(c->client);
    node_close(&c->node);
    embedded_close(c->embedded);
    calls_free(c);
    mem_free(c);
}

int tug_client_open(struct tug_client **ret, const struct tug_client_options *o)
{
    descriptors_hold_standard();
    struct tug_client *c = mem_zalloc(sizeof(*c));
    if (c == NULL)
        return err_nomem(last_error(), "a client");
    if (o != NULL)
        c->o = *o;
    for (uint32_t i = 0; i < SPEC_MAX_TABLES; i++)
        c->terms[i].rate = 1;
    int rc = open_client(c, last_error());
    if (rc == 0)
        rc = wait_ready(c, last_error());
    if (rc == 0) {
        *ret = c;
        return 0;
    }
    struct err e = *last_error();
    free_client(c);
    return last_error_is(&e);
}

static bool all_done(void *ctx)
{
    const struct tug_client *c = ctx;
    return client_in_flight(c->client) == 0 && calls_over(c);
}

// Ends the requests in flight with the error *why: waits until the van does not use their
// arrays any more and their callbacks have run.
static void abandon(struct tug_client *c, const struct err *why)
{
    pump_enter(c->pump);
    client_abandon(c->client, why);
    pump_leave(c->pump);
    (void)pump_wait(c->pump, all_done, c, deadline(c, LEAVE_SECONDS));
}

static bool has_left(void *ctx)
{
    const struct member *m = client_member(((struct tug_client *)ctx)->client);
    return member_left(m) || member_ended(m, NULL);
}

int tug_client_close(struct tug_client *c)
{
    struct err why = {0};
    if (c == NULL)
        return 0;
    if (pump_working(c->pump))
        return err_set(last_error(), TUG_EUSAGE, "a callback must not close its client");
    if (!pump_wait(c->pump, all_done, c, deadline(c, c->o.wait_seconds))) {
        if (interrupt_came())
            err_set(&why, TUG_EINTERRUPTED,
                    "interrupted: the client was closed while requests were in flight");
        else
            err_set(&why, TUG_EIO,
                    "the client was closed while requests were still in flight, after "
                    "%.3g s",
                    c->o.wait_seconds);
        abandon(c, &why);
    }
    pump_enter(c->pump);
    if (why.code == 0)
        (void)member_over(client_member(c->client), &why);
    member_leave(client_member(c->client), NULL);
    pump_leave(c->pump);
    (void)pump_wait(c->pump, has_left, c, deadline(c, LEAVE_SECONDS));
    free_client(c);
    return why.code != 0 ? last_error_is(&why) : 0;
}

// ------------------------------------------------------------- rank and numbers of nodes

uint32_t tug_client_rank(struct tug_client *c)
{
    pump_enter(c->pump);
    uint32_t rank = member_rank(client_member(c->client));
    pump_leave(c->pump);
    return rank;
}

uint32_t tug_client_workers(struct tug_client *c)
{
    return c->workers;
}

uint32_t tug_client_servers(struct tug_client *c)
{
    return c->servers;
}

// ---------------------------------------------------------------- stopping the cluster

struct stopping {
    struct tug_client *client;
    bool answered;
    int rc;
    struct err why;
};

static void on_stopped(void *ctx, const struct van_message *m)
{
    struct stopping *s = ctx;
    s->answered = true;
    if (m != NULL && m->type == MSG_ERROR)
        s->rc = wire_refusal(&m->m->error, "the scheduler", &s->why);
}

static bool stop_over(void *ctx)
{
    const struct stopping *s = ctx;
    return s->answered || member_ended(client_member(s->client->client), NULL);
}

int tug_stop(struct tug_client *c, const char *why)
{
    struct stopping s = {.client = c};
    struct msg_stop m = {.code = TUG_EINTERRUPTED,
                         .why = wire_text(why != NULL ? why : "ended by a program")};
    if (pump_working(c->pump))
        return err_set(last_error(), TUG_EUSAGE, "a callback must not wait");
    pump_enter(c->pump);
    int rc = member_ask(client_member(c->client), MSG_STOP, &m, on_stopped, &s);
    pump_leave(c->pump);
    if (rc != 0)
        return err_set(last_error(), rc,
                       "the cluster cannot be stopped, because it has ended");
    bool in_time = pump_wait(c->pump, stop_over, &s, deadline(c, c->o.wait_seconds));
    pump_enter(c->pump);
    member_unask(client_member(c->client),
                 &s); // `s` is on this stack: no later answer may use it
    pump_leave(c->pump);
    if (!in_time && !s.answered && interrupt_came())
        return err_set(last_error(), TUG_EINTERRUPTED,
                       "interrupted; the scheduler at %s has been told to stop",
                       c->node.scheduler);
    if (!in_time && !s.answered)
        return err_set(last_error(), TUG_EIO,
                       "the scheduler at %s has been told to stop, but has not answered "
                       "for %.0f s",
                       c->node.scheduler, c->o.wait_seconds);
    return s.rc != 0 ? last_error_is(&s.why) : 0;
}

// ---------------------------------------------------------------- clocks

int tug_tick(struct tug_client *c, uint32_t table, uint64_t clock)
{
    TRY(calls_enter(c));
    client_ts ts = client_tick(c->client, table, clock, last_error());
    if (ts != 0 && table < SPEC_MAX_TABLES && clock != UINT64_MAX)
        c->terms[table].clock = clock;
    pump_leave(c->pump);
    return ts != 0 ? calls_wait_for(c, ts, c->o.wait_seconds) : last_error()->code;
}
