// Customers: simple requests, and waiting for any kind.
//
// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/kvapp/above.h"
#include "doors/kvapp/node.h"
#include "os/clock.h"
#include "os/log.h"
#include "runtime/interrupt.h"

static uint64_t ids_of(uint32_t app, uint32_t customer)
{
    return (uint64_t)app << 32 | customer;
}

// Finds a customer by both ids. The cast is valid because by_ids is the first member of
// struct tug_app.
struct tug_app *kv_app_find(const struct tug_node *n, uint32_t app, uint32_t customer)
{
    return (struct tug_app *)chains_find(&n->apps_by_ids, ids_of(app, customer));
}

static struct tug_app *of_app(struct chained *x)
{
    return x != NULL ? (struct tug_app *)((char *)x - offsetof(struct tug_app, by_app))
                     : NULL;
}

struct tug_app *kv_app_for(const struct tug_node *n, uint32_t app, uint32_t customer)
{
    struct tug_app *a = kv_app_find(n, app, customer);
    if (a != NULL)
        return a;
    struct chained *any = chains_find(&n->apps_by_app, app);
    for (struct chained *older = any; older != NULL; older = chains_again(older))
        any = older;
    return of_app(any != NULL ? any : chains_find(&n->apps_by_app, TUG_APP_ANY));
}

static void link_app(struct tug_node *n, struct tug_app *a)
{
    a->next = n->apps;
    if (n->apps != NULL)
        n->apps->before = a;
    n->apps = a;
    chains_put(&n->apps_by_ids, &a->by_ids, ids_of(a->app, a->customer));
    chains_put(&n->apps_by_app, &a->by_app, a->app);
}

static void unlink_app(struct tug_node *n, struct tug_app *a)
{
    if (a->before != NULL)
        a->before->next = a->next;
    else
        n->apps = a->next;
    if (a->next != NULL)
        a->next->before = a->before;
    chains_take(&n->apps_by_ids, &a->by_ids);
    chains_take(&n->apps_by_app, &a->by_app);
    if (n->apps != NULL)
        return;
    chains_free(&n->apps_by_ids, NULL);
    chains_free(&n->apps_by_app, NULL);
}

void kv_apps_free(struct tug_node *n)
{
    for (struct tug_app *a; (a = n->apps) != NULL;) {
        unlink_app(n, a);
        mem_free(a->open);
        mem_free(a);
    }
}

static int open_app(struct tug_app *a, struct err *e)
{
    struct tug_node *n = a->node;
    if (n->ending)
        return last_error_is(&n->why);
    if (kv_app_find(n, a->app, a->customer) != NULL)
        return err_set(e, TUG_EUSAGE, "this process already has a customer %u of app %u",
                       a->customer, a->app);
    if (a->app == KV_BARRIERS)
        return err_set(e, TUG_EUSAGE, "app %u is reserved for the library", a->app);
    link_app(n, a);
    kv_received_deliver_held(n);
    return 0;
}

int tug_app_open(struct tug_app **ret, struct tug_node *n, uint32_t app,
                 uint32_t customer, const struct tug_app_handlers *h)
{
    struct tug_app *a = mem_zalloc(sizeof(*a));
    if (a == NULL)
        return err_nomem(last_error(), "a customer");
    a->node = n;
    a->app = app;
    a->customer = customer;
    if (h != NULL)
        a->h = *h;
    pump_enter(n->pump);
    int rc = open_app(a, last_error());
    pump_leave(n->pump);
    if (rc != 0)
        mem_free(a);
    else
        *ret = a;
    return rc;
}

struct looked_for {
    struct tug_node *node;
    uint32_t app, customer;
    struct tug_app *found;
};

static bool is_found(void *ctx)
{
    struct looked_for *l = ctx;
    l->found = kv_app_find(l->node, l->app, l->customer);
    return l->found != NULL;
}

struct tug_app *tug_app_find(struct tug_node *n, uint32_t app, uint32_t customer,
                             double seconds)
{
    struct looked_for l = {.node = n, .app = app, .customer = customer};
    if (seconds > 0 && !pump_working(n->pump)) {
        double most = seconds < n->o.wait_seconds ? seconds : n->o.wait_seconds;
        (void)pump_wait(n->pump, is_found, &l, van_now(n->van) + clock_ns_of(most));
        return l.found;
    }
    pump_enter(n->pump);
    (void)is_found(&l);
    pump_leave(n->pump);
    return l.found;
}

// How long closing a customer waits for the van to release the memory of requests that
// were given up. The van needs less time to drop the queued messages of a closed link.
#define LET_GO_NS (5 * SECOND_NS)

// Returns whether the customer has no open request.
static bool none_open(void *ctx)
{
    return ((const struct tug_app *)ctx)->n_open_requests == 0;
}

static bool none_handled(void *ctx)
{
    return ((const struct tug_app *)ctx)->n_handling == 0;
}

// Waits until no handler of the customer runs. After this, none of its handlers is called.
static int end_handling(struct tug_app *a, struct err *e)
{
    struct tug_node *n = a->node;
    pump_enter(n->pump);
    a->closing = true;
    pump_leave(n->pump);
    if (pump_wait(n->pump, none_handled, a, kv_node_deadline(n)))
        return 0;
    return err_set(
        e, TUG_EIO,
        "customer %u of app %u is not closed: its handler has not returned for "
        "%.3g s",
        a->customer, a->app, n->o.wait_seconds);
}

bool kv_app_end_requests(struct tug_app *a)
{
    struct tug_node *n = a->node;
    if (pump_wait(n->pump, none_open, a, kv_node_deadline(n)))
        return true;
    pump_enter(n->pump);
    kv_requests_give_up(a);
    pump_leave(n->pump);
    return pump_wait(n->pump, none_open, a, van_now(n->van) + LET_GO_NS);
}

static bool none_waits(void *ctx)
{
    return atomic_load(&((struct tug_app *)ctx)->n_waiting) == 0;
}

// Waits until no thread is in kv_app_wait for this customer. The requests of these
// threads have ended, so the threads are about to return.
static int end_waits(struct tug_app *a, struct err *e)
{
    struct tug_node *n = a->node;
    if (pump_wait(n->pump, none_waits, a, kv_node_deadline(n)))
        return 0;
    return err_set(e, TUG_EIO,
                   "customer %u of app %u is not closed: a thread still waits for one of "
                   "its requests",
                   a->customer, a->app);
}

int tug_app_close(struct tug_app *a)
{
    if (a == NULL)
        return 0;
    struct tug_node *n = a->node;
    if (pump_working(n->pump))
        return err_set(last_error(), TUG_EUSAGE,
                       "a callback or handler must not close a customer, because it "
                       "would wait for itself");
    if (!kv_app_end_requests(a))
        return err_set(last_error(), TUG_EIO,
                       "customer %u of app %u is not closed: a callback of its "
                       "requests has not returned for %.3g s",
                       a->customer, a->app, n->o.wait_seconds);
    TRY(end_handling(a, last_error()));
    TRY(end_waits(a, last_error()));
    pump_enter(n->pump);
    unlink_app(n, a);
    kv_received_forget_app(n, a);
    for (uint32_t i = 0; i < a->n_open; i++)
        if (a->open[i] != NULL && a->open[i]->state == KV_FAILED)
            kv_request_free(a->open[i]);
    pump_leave(n->pump);
    mem_free(a->open);
    mem_free(a);
    return 0;
}

struct tug_node *tug_app_node(const struct tug_app *a)
{
    return a->node;
}

// ---------------------------------------------------------------- simple requests

// Sends a simple request. The caller has the van.
int kv_app_ask(struct tug_app *a, int32_t head, const void *body, size_t body_bytes,
               uint32_t group_or_id, uint32_t *ret_timestamp, struct err *e)
{
    struct kv_request *r;
    TRY(kv_request_new_to(&r, a, group_or_id, KV_SIMPLE, e));
    if (body_bytes > 0) {
        r->body = mem_alloc(body_bytes);
        if (r->body == NULL) {
            kv_request_unmake(r);
            return err_nomem(e, "a request's body");
        }
        memcpy(r->body, body, body_bytes);
    }
    r->head = head;
    r->body_bytes = body_bytes;
    *ret_timestamp = r->timestamp;
    kv_request_start(r);
    return 0;
}

int tug_app_request(struct tug_app *a, int32_t head, const void *body, size_t body_bytes,
                    uint32_t group_or_id, uint32_t *ret_timestamp)
{
    pump_enter(a->node->pump);
    int rc = kv_app_ask(a, head, body, body_bytes, group_or_id, ret_timestamp,
                        last_error());
    pump_leave(a->node->pump);
    return rc;
}

// ---------------------------------------------------------------- waiting

#define TELL_NS (2 * SECOND_NS) // time between checks whether a process is lost

struct waiting {
    struct tug_app *app;
    uint32_t timestamp;
};

static bool request_over(void *ctx)
{
    const struct waiting *w = ctx;
    const struct kv_request *r = kv_request_find(w->app, w->timestamp);
    return r == NULL || r->state == KV_FAILED;
}

// Makes the error of a wait that took too long, with the nodes that have not answered.
static int too_long(struct tug_app *a, uint32_t timestamp, double seconds, struct err *e)
{
    struct tug_node *n = a->node;
    struct kv_request *r = kv_request_find(a, timestamp);
    char name[ROSTER_NAME_MAX];
    if (pump_broken(n->pump, e))
        return e->code;
    if (interrupt_came())
        return err_set(e, TUG_EINTERRUPTED, "interrupted: request %u of app %u goes on",
                       timestamp, a->app);
    for (uint32_t i = 0; r != NULL && i < r->n_parts; i++) {
        const struct kv_part *p = &r->parts[i];
        if (p->answered)
            continue;
        if (p->peer != NULL && p->number == 0 && kv_peer_is_full(p->peer))
            return err_set(
                e, TUG_EIO,
                "request %u of app %u waited %.3g s to be sent: %s has not answered an "
                "earlier request, and at most %d requests, counted from the oldest one "
                "without an answer, may be in flight",
                timestamp, a->app, seconds, kv_node_name(n, p->node, name), KV_WINDOW);
        return err_set(e, TUG_EIO, "%s has not answered request %u of app %u for %.3g s",
                       kv_node_name(n, p->node, name), timestamp, a->app, seconds);
    }
    return err_set(e, TUG_EIO, "request %u of app %u is not over after %.0f s", timestamp,
                   a->app, seconds);
}

static int result(struct tug_app *a, uint32_t timestamp, bool in_time, double seconds)
{
    struct kv_request *r = kv_request_find(a, timestamp);
    if (!in_time)
        return too_long(a, timestamp, seconds, last_error());
    if (r == NULL)
        return 0;
    int rc = last_error_is(&r->why);
    kv_request_free(r);
    return rc;
}

// Called from time to time during a wait for a request. Warns if processes have died or
// left without a replacement since the last warning, because the request may wait for
// their answers.
static void tell_lost(struct tug_node *n)
{
    char name[ROSTER_NAME_MAX];
    uint32_t lost = kv_lost(n, TUG_GROUP_SERVERS | TUG_GROUP_WORKERS, name);
    bool told = atomic_exchange(&n->lost_told, lost) >= lost;
    if (lost == 0 || told)
        return;
    log_warn("%s%s has died or left, and this process still waits for an answer: it "
             "waits %.3g s at most, because another process may take that node's place",
             name, lost > 1 ? ", among others," : "", n->o.wait_seconds);
}

// Waits as pump_wait does, and calls tell_lost from time to time.
static bool wait_telling(struct tug_node *n, struct waiting *w, uint64_t deadline)
{
    for (;;) {
        uint64_t until = clock_earlier(deadline, van_now(n->van) + TELL_NS);
        if (pump_wait(n->pump, request_over, w, until))
            return true;
        if (until == deadline || van_now(n->van) < until || interrupt_came())
            // The deadline has passed, the van has failed, or the program has interrupted.
            return false;
        tell_lost(n);
    }
}

int kv_app_wait(struct tug_app *a, uint32_t timestamp, double seconds)
{
    struct tug_node *n = a->node;
    struct waiting w = {.app = a, .timestamp = timestamp};
    if (pump_working(n->pump))
        return err_set(last_error(), TUG_EUSAGE,
                       "a callback or handler must not wait: the answer would be handled "
                       "only after it returns");
    atomic_fetch_add(&a->n_waiting, 1);
    bool in_time = wait_telling(n, &w, van_now(n->van) + clock_ns_of(seconds));
    pump_enter(n->pump);
    int rc = timestamp >= a->next_timestamp
                 ? err_set(last_error(), TUG_EUSAGE,
                           "customer %u of app %u has made no request %u", a->customer,
                           a->app, timestamp)
                 : result(a, timestamp, in_time, seconds);
    bool closing = a->closing;
    if (atomic_fetch_sub(&a->n_waiting, 1) == 1 && closing)
        van_wake(n->van); // the thread that closes the customer waits for n_waiting 0
    pump_leave(n->pump);
    return rc;
}

int tug_app_wait(struct tug_app *a, uint32_t timestamp)
{
    return kv_app_wait(a, timestamp, a->node->o.wait_seconds);
}
