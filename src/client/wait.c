// The functions that wait: they poll the van until a request or question is answered.
// Each wait has a deadline, its own or the request's, and its error names the processes
// whose answers are missing.
//
// SPDX-License-Identifier: Apache-2.0
#include "client/private.h"
#include "os/log.h"

#define LOOK_AGAIN (50 * MS) // time between checks for an interrupt

void client_set_interrupt(struct client *c, const atomic_bool *interrupted)
{
    c->interrupted = interrupted;
}

void client_set_timeout(struct client *c, uint64_t request_timeout_ns)
{
    c->o.request_timeout_ns = request_timeout_ns != 0 ? request_timeout_ns
                                                      : CLIENT_TIMEOUT_NS;
}

static int poll_until(struct client *c, uint64_t until, struct err *e)
{
    if (c->interrupted != NULL && atomic_load(c->interrupted))
        return err_set(e, TUG_EINTERRUPTED, "interrupted");
    return van_poll(c->van, min_u64(until, van_now(c->van) + LOOK_AGAIN), e);
}

int client_poll(struct client *c, struct err *e)
{
    return van_poll(c->van, van_now(c->van), e);
}

int client_wait(struct client *c, client_ts ts, struct err *e)
{
    int rc;
    if (ts == 0 && e != NULL && e->code != 0)
        return e->code;
    if (client_done(c, ts, &rc, e))
        return rc;
    uint64_t begin = van_now(c->van);
    while (!client_done(c, ts, &rc, e))
        TRY(poll_until(c, VAN_NEVER, e));
    c->stats.waited_ns += van_now(c->van) - begin;
    return rc;
}

int client_wait_all(struct client *c, struct err *e)
{
    while (client_in_flight(c) > 0) {
        TRY(client_over(c, e));
        TRY(poll_until(c, VAN_NEVER, e));
    }
    return 0;
}

int client_over(const struct client *c, struct err *e)
{
    TRY(member_over(c->member, e));
    return c->over ? err_copy(e, &c->end) : 0;
}

static int ended(struct client *c, const char *what, struct err *e)
{
    struct err why;
    int rc = client_over(c, &why);
    if (rc == 0)
        return 0;
    err_wrap(&why, "%s", what);
    return err_copy(e, &why);
}

// Logs once what a worker waits for, if it still waits at `tell_at`. Only the first loop
// of a worker logs this. If the scheduler cannot be reached, the heartbeats of the
// process log that instead.
static void tell_wait(const struct client *c, uint64_t tell_at, bool *told)
{
    const struct member_options *o = &c->o.member;
    if (*told || o->role != WIRE_WORKER || o->loop != 0 || member_id(c->member) == 0 ||
        van_now(c->van) < tell_at)
        return;
    *told = true;
    log_info("joined, and waiting: the scheduler at %s %s", o->scheduler,
             member_waits_for(c->member));
}

int client_wait_ready(struct client *c, uint64_t timeout_ns, struct err *e)
{
    uint64_t tell_at = van_now(c->van) + SECOND_NS;
    uint64_t until = van_now(c->van) + timeout_ns;
    bool told = false;
    while (!member_ready(c->member) || c->epoch == 0) {
        TRY(ended(c, "joining the cluster", e));
        if (van_now(c->van) >= until)
            return err_set(e, TUG_EIO,
                           "the cluster was not ready after %.1f s: the scheduler at %s "
                           "%s",
                           (double)timeout_ns * 1e-9, c->o.member.scheduler,
                           member_waits_for(c->member));
        TRY(poll_until(c, until, e));
        tell_wait(c, tell_at, &told);
    }
    return 0;
}

static void on_answer(void *ctx, const struct van_message *m)
{
    struct asking *a = ctx;
    a->done = true;
    if (m == NULL)
        a->rc = TUG_EIO; // the member knows the reason
    else if (m->type == MSG_ERROR)
        a->rc = wire_refusal(&m->m->error, "the scheduler", &a->why);
    else if (a->answer != NULL)
        a->answer(a->ctx, m->m);
}

static int may_ask(struct client *c, struct err *e)
{
    TRY(ended(c, "asking the scheduler", e));
    return c->told_failed.code != 0 ? err_copy(e, &c->told_failed) : 0;
}

static int not_answered(const struct client *c, uint16_t type, struct err *e)
{
    return err_set(e, TUG_EIO, "the scheduler at %s has not answered (%s) for %.0f s",
                   c->o.member.scheduler, wire_name(type),
                   (double)c->o.request_timeout_ns * 1e-9);
}

static int cannot_ask(uint16_t type, int rc, struct err *e)
{
    return err_set(e, rc, "asking the scheduler (%s): %s", wire_name(type), err_text(rc));
}

// The member repeats the request until the scheduler answers, or until the member counts
// the scheduler as dead and ends. The wait also ends after request_timeout_ns, even if
// the scheduler is alive.
int client_ask(struct client *c, uint16_t type, const void *msg,
               void (*answer)(void *ctx, const union wire_any *m), void *ctx,
               struct err *e)
{
    struct asking *a = &c->asking;
    *a = (struct asking){.answer = answer, .ctx = ctx};
    TRY(may_ask(c, e));
    int rc = member_ask(c->member, type, msg, on_answer, a);
    if (rc != 0)
        return cannot_ask(type, rc, e);
    uint64_t until = van_now(c->van) + c->o.request_timeout_ns;
    while (!a->done && rc == 0 && van_now(c->van) < until)
        rc = poll_until(c, until, e);
    if (!a->done && rc == 0)
        rc = not_answered(c, type, e);
    if (!a->done) // because a late answer must not use ctx
        member_unask(c->member, a);
    a->answer = NULL;
    if (rc != 0)
        return rc;
    if (a->rc != 0) {
        TRY(ended(c, "asking the scheduler", e));
        if (e != NULL)
            *e = a->why;
    }
    return a->rc;
}

static void on_told(void *ctx, const struct van_message *m)
{
    struct telling *t = ctx;
    struct err *failed = &t->client->told_failed;
    t->waits = false;
    if (m != NULL && m->type == MSG_ERROR && failed->code == 0)
        failed->code = wire_refusal(&m->m->error, "the scheduler", failed);
}

static struct telling *free_telling(struct client *c)
{
    for (uint32_t i = 0; i < CLIENT_TELLS; i++)
        if (!c->tellings[i].waits)
            return &c->tellings[i];
    return NULL;
}

int client_tell(struct client *c, uint16_t type, const void *msg, struct err *e)
{
    uint64_t until = van_now(c->van) + c->o.request_timeout_ns;
    struct telling *t;
    TRY(may_ask(c, e));
    while ((t = free_telling(c)) == NULL) {
        if (van_now(c->van) >= until)
            return not_answered(c, type, e);
        TRY(poll_until(c, until, e));
        TRY(may_ask(c, e));
    }
    *t = (struct telling){c, true};
    int rc = member_ask(c->member, type, msg, on_told, t);
    if (rc != 0) {
        t->waits = false;
        return cannot_ask(type, rc, e);
    }
    c->told++;
    return 0;
}

uint64_t client_told(const struct client *c)
{
    return c->told;
}

int client_meet(struct client *c, uint8_t group, uint64_t timeout_ns,
                bool (*stops)(void *ctx, const char *missing), void *ctx, struct err *e)
{
    const char *missing = "";
    uint64_t now = van_now(c->van);
    uint64_t until = timeout_ns < VAN_NEVER - now ? now + timeout_ns : VAN_NEVER;
    while (!member_barrier_done(c->member, group, &missing)) {
        TRY(client_over(c, e));
        bool stop = stops != NULL && stops(ctx, missing);
        if (stop || van_now(c->van) >= until)
            return member_barrier_result(c->member, group, "the barrier", stop,
                                         (double)timeout_ns * 1e-9, e);
        TRY(poll_until(c, until, e));
    }
    return 0;
}

int client_barrier(struct client *c, uint8_t group, uint64_t timeout_ns, struct err *e)
{
    member_barrier(c->member, group);
    return client_meet(c, group, timeout_ns, NULL, NULL, e);
}

// It is not an error if the cluster ends before this client's leave is acknowledged.
int client_leave(struct client *c, const struct err *why, struct err *e)
{
    uint64_t until = van_now(c->van) + c->o.connect_timeout_ns;
    member_leave(c->member, why);
    while (!member_left(c->member) && !member_ended(c->member, NULL)) {
        if (van_now(c->van) >= until)
            return err_set(e, TUG_EIO,
                           "leaving: the scheduler at %s did not answer for %.1f s",
                           c->o.member.scheduler, (double)c->o.connect_timeout_ns * 1e-9);
        TRY(van_poll(c->van, min_u64(until, van_now(c->van) + LOOK_AGAIN), e));
    }
    return 0;
}
