// Starts and ends a node: options, joining the cluster, leaving it.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/kvapp/above.h"
#include "doors/kvapp/node.h"
#include "os/clock.h"
#include "os/descriptors.h"
#include "os/log.h"
#include "os/route.h"
#include "runtime/environment.h"
#include "runtime/interrupt.h"

// A node that leaves waits at most this long for the scheduler's answer. Without this wait,
// the scheduler could count the node as dead, and the whole run would
// fail. The time is long enough to replace a silent link to the scheduler.
#define LEAVE_NS (25 * SECOND_NS)

enum { RETRY_MS = 200 };

// Copies the texts of the options, because the caller or the environment owns them.
static int keep_texts(struct tug_node *n, struct err *e)
{
    int len = snprintf(n->scheduler, sizeof(n->scheduler), "%s", n->o.scheduler);
    n->o.scheduler = n->scheduler;
    if (len < 0 || (size_t)len >= sizeof(n->scheduler))
        return err_set(e, TUG_EUSAGE, "the scheduler's address is too long");
    return 0;
}

static int open_process(struct tug_node *n, struct err *e)
{
    struct node_options o = {
        .cluster = n->o.cluster,
        .scheduler = n->scheduler,
        .host = n->o.host,
        .interface = n->o.network,
        .port = n->o.port,
        .ca = n->o.ca,
        .cert = n->o.cert,
        .key = n->o.key,
        .insecure = n->o.insecure,
        .role = n->hosts ? WIRE_OPERATOR : n->role,
        .scheduler_timeout_seconds = 60,
        .wish = n->environment.has_rank ? n->environment.rank + 1 : 0,
        .fixed = true,
    };
    if (n->hosts) { // listens at the scheduler's address
        TRY(route_split(n->scheduler, n->root, sizeof(n->root), &o.port, e));
        o.host = n->root;
        o.interface = NULL;
    }
    return node_open(&n->process, &o, e);
}

static void app_message(void *ctx, van_link link, uint32_t from, struct van_message *m)
{
    kv_received_app(ctx, link, from, m);
}

static int open_member(struct tug_node *n, struct err *e)
{
    struct member_options o = node_member(&n->process, n->role, "");
    if (n->host != NULL)
        o.scheduler = kv_host_address(n->host);
    if (n->role != WIRE_SERVER) {
        TRY(member_open(&n->own_member, &o, e));
        n->member = n->own_member;
        return 0;
    }
    TRY(environment_roots(&n->roots, n->o.load_root, e));
    struct shard_options so = {.member = o,
                               .roots = n->roots,
                               .app = app_message,
                               .app_ctx = n,
                               .door = kv_facts_put};
    TRY(shard_open(&n->shard, &so, e));
    n->beneath = shard_handler(n->shard);
    n->member = shard_member(n->shard);
    return 0;
}

// Listens at any free port, or at the port of the options.
static int listen_anywhere(struct tug_node *n, char ret[VAN_ADDRESS_MAX], struct err *e)
{
    char address[VAN_ADDRESS_MAX];
    if (!n->hosts)
        return node_listen(&n->process, n->van, 0, ret, e);
    int len = snprintf(address, sizeof(address), "tcp://%s:0", n->process.bind);
    if (len < 0 || (size_t)len >= sizeof(address))
        return err_set(e, TUG_EUSAGE, "the address to listen at is too long");
    return van_listen(n->van, address, ret, e);
}

static int open_van(struct tug_node *n, struct err *e)
{
    char address[VAN_ADDRESS_MAX];
    struct van_handler h = kv_node_handler(n);
    TRY(node_van(&n->process, &n->van, &h, false, e));
    n->side = kv_peers_side(n);
    TRY(listen_anywhere(n, address, e));
    TRY(member_set_address(n->member, address, e));
    if (n->shard != NULL)
        shard_serve(n->shard, n->van, van_now(n->van));
    else
        member_serve(n->member, n->van, van_now(n->van));
    TRY(pump_open(&n->pump, n->van, e));
    pump_set_spin(n->pump, kv_node_spin_ns(n));
    return 0;
}

static bool joined_or_over(void *ctx)
{
    const struct tug_node *n = ctx;
    return n->over || member_id(n->member) != 0;
}

static int open_node(struct tug_node *n, const struct tug_node_options *o, struct err *e)
{
    if (o != NULL)
        n->o = *o;
    TRY(environment_fill(&n->o, &n->environment, e));
    n->role = role_of_group(n->o.role);
    n->hosts = n->role == WIRE_SCHEDULER || n->environment.hosts_scheduler ||
               n->o.hosts_scheduler;
    TRY(keep_texts(n, e));
    TRY(open_process(n, e));
    if (n->hosts)
        TRY(kv_host_start(&n->host, n, e));
    TRY(kv_kept_init(n, e));
    TRY(kv_barriers_open(n, e));
    TRY(open_member(n, e));
    TRY(open_van(n, e));
    TRY(node_heartbeat(&n->process, NULL, e));
    if (n->host != NULL) {
        (void)pump_wait(n->pump, joined_or_over, n, kv_node_deadline(n));
        TRY(kv_host_open_doors(n->host, e));
    }
    return n->o.async ? 0 : kv_node_wait_ready(n);
}

static bool runs_nothing(void *ctx)
{
    const struct tug_node *n = ctx;
    return !pump_has_work(n->pump);
}

// Waits until the last callback has returned, however long it takes, because callbacks may use
// the node and any customer.
static void end_callbacks(struct tug_node *n)
{
    struct err why;
    pump_enter(n->pump);
    err_set(&why, TUG_EUSAGE, "the node has been finalized");
    n->ending = true;
    kv_node_give_up(n, &why);
    for (struct tug_app *a = n->apps; a != NULL; a = a->next)
        a->closing = true;
    pump_leave(n->pump);
    // If pump_wait was interrupted, or the van has failed, waits again.
    while (!pump_wait(n->pump, runs_nothing, n, VAN_NEVER))
        sched_yield();
}

static void close_customers(struct tug_node *n)
{
    for (struct tug_app *a = n->apps; a != NULL; a = a->next)
        kv_app_end_requests(a);
    end_callbacks(n);
    while (n->apps != NULL && tug_app_close(n->apps) == 0)
        ;
}

static void free_node(struct tug_node *n, bool wait, struct err *e)
{
    if (n->pump != NULL)
        close_customers(n);
    if (n->host != NULL)
        (void)kv_host_stop(n->host, wait, e);
    pump_close(n->pump);
    kv_numbers_forget(n, true);
    kv_received_free(n);
    // The shard is closed before the van, because it holds memory of the van's messages.
    shard_close(n->shard);
    van_free(n->van);
    if (n->barriers != NULL)
        mem_free(n->barriers->open);
    mem_free(n->barriers);
    kv_requests_free(n); // after van_free, because the van uses the requests' memory
    kv_apps_free(n);
    kv_peers_free(n);
    roots_close(n->roots);
    member_close(n->own_member);
    node_close(&n->process);
    mem_free(n->servers);
    mem_free(n->last_keys);
    mem_free(n->exits);
    mem_free(n);
}

static bool has_left(void *ctx)
{
    return member_left(((struct tug_node *)ctx)->member);
}

// Leaves the cluster with an error; the other nodes get the error.
static void give_back_place(struct tug_node *n, const struct err *why)
{
    pump_enter(n->pump);
    member_leave(n->member, n->one_too_many ? NULL : why);
    pump_leave(n->pump);
    (void)pump_wait_uninterrupted(n->pump, has_left, n,
                                  van_now(n->van) + KV_BREAK_OFF_NS);
}

void kv_break_off(struct tug_node *n, const struct err *why)
{
    pump_enter(n->pump);
    bool over = n->over;
    kv_node_give_up(n, why);
    pump_leave(n->pump);
    if (over)
        return;
    give_back_place(n, why);
    if (n->host != NULL)
        kv_host_end(n->host, why);
}

// Starts a node, without a second try. If this worker is one too many, sets *ret_patience
// to the time, in seconds, after which the scheduler would know that another worker is
// dead.
static int node_start(struct tug_node **ret, const struct tug_node_options *o,
                      double *ret_patience)
{
    struct err e = {0};
    struct tug_node *n = mem_zalloc(sizeof(*n));
    if (n == NULL)
        return err_nomem(last_error(), "a node");
    int rc = open_node(n, o, last_error());
    if (rc != 0) {
        e = *last_error();
        if (n->pump != NULL)
            give_back_place(n, &e);
        *ret_patience = n->one_too_many ? 3 * n->o.dead_seconds + 5 : 0;
        free_node(n, false, &(struct err){0});
        return last_error_is(&e);
    }
    *ret = n;
    return 0;
}

// A worker that is one too many tries again: it may replace a dead worker, and the
// scheduler may not know yet that this worker is dead.
int tug_node_start(struct tug_node **ret, const struct tug_node_options *o)
{
    descriptors_hold_standard();
    uint64_t begin = clock_ns();
    double patience = 0;
    int rc;
    bool told = false;
    while ((rc = node_start(ret, o, &patience)) != 0 &&
           (double)(clock_ns() - begin) / 1e9 < patience && !interrupt_came()) {
        if (!told)
            log_warn("%s; this process asks again for %.3g s", tug_last_error(),
                     patience);
        told = true;
        poll(NULL, 0, RETRY_MS);
    }
    return rc;
}

int tug_node_at_exit(struct tug_node *n, void (*fn)(void *ctx), void *ctx)
{
    int rc = 0;
    pump_enter(n->pump);
    struct exit_callback *exits = mem_realloc_array(n->exits, n->n_exits + 1,
                                                    sizeof(*exits));
    if (exits == NULL) {
        rc = err_nomem(last_error(), "an exit callback");
    } else {
        n->exits = exits;
        exits[n->n_exits++] = (struct exit_callback){fn, ctx};
    }
    pump_leave(n->pump);
    return rc;
}

static bool is_over(void *ctx)
{
    return ((struct tug_node *)ctx)->over;
}

// Leaves the cluster: a worker at once, other nodes after the last worker has left.
static int leave(struct tug_node *n)
{
    struct err why = {0};
    if (n->role != WIRE_WORKER)
        while (!pump_wait(n->pump, is_over, n, kv_node_deadline(n))) {
            if (pump_broken(n->pump, &why))
                return last_error_is(&why);
            if (interrupt_came()) {
                err_set(&why, TUG_EINTERRUPTED,
                        "interrupted while the cluster was running");
                break;
            }
        }
    pump_enter(n->pump);
    if (why.code == 0)
        (void)member_ended(n->member, &why);
    bool breaks_off = why.code == TUG_EINTERRUPTED && !n->over;
    if (why.code != 0)
        last_error_is(&why);
    member_leave(n->member, breaks_off ? &why : NULL);
    pump_leave(n->pump);
    if (breaks_off && n->host != NULL)
        kv_host_end(n->host, &why);
    if (why.code != 0)
        (void)pump_wait_uninterrupted(n->pump, has_left, n,
                                      van_now(n->van) + KV_BREAK_OFF_NS);
    else
        (void)pump_wait(n->pump, has_left, n, van_now(n->van) + LEAVE_NS);
    return why.code;
}

int tug_node_finalize(struct tug_node *n, bool barrier)
{
    struct err e = {0};
    if (n == NULL)
        return 0;
    if (pump_working(n->pump))
        return err_set(last_error(), TUG_EUSAGE,
                       "a callback or handler must not end the node");
    int rc = barrier ? tug_node_barrier(n, TUG_GROUP_ALL) : 0;
    if (rc != 0 && !kv_has_ended_well(n))
        e = *last_error();
    if (leave(n) != 0 && e.code == 0)
        e = *last_error();
    for (size_t i = 0; i < n->n_exits; i++)
        n->exits[i].fn(n->exits[i].ctx);
    struct err end = {0};
    free_node(n, true, &end);
    if (e.code == 0)
        e = end;
    return e.code != 0 ? last_error_is(&e) : 0;
}
