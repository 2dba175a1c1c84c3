// The scheduler of a process that hosts it, with a van and a pump of its own. The node of
// this process joins first, at an address that other nodes do not know, so that barriers
// wait for it, too.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cluster/scheduler/scheduler.h"
#include "doors/kvapp/node.h"
#include "os/clock.h"

// Time limit for all nodes to leave. It is longer than the limit for one node (LEAVE_NS
// in start.c), and longer than the time until a silent link is replaced.
#define ALL_LEAVE_NS (30 * SECOND_NS)

struct host {
    struct tug_node *node;
    struct scheduler *scheduler;
    struct van *van;
    struct pump *pump;
    char own_door[VAN_ADDRESS_MAX];
    bool broken_off;
};

static void host_free(struct host *h)
{
    node_take_token(&h->node->process);
    pump_close(h->pump);
    van_free(h->van);
    scheduler_close(h->scheduler);
    mem_free(h);
}

static int host_open(struct host *h, struct err *e)
{
    struct tug_node *n = h->node;
    struct scheduler_options o = {
        .cluster = n->process.cluster,
        .servers = n->o.servers,
        .workers = n->o.workers,
        .partition_bits = ROSTER_PARTITION_BITS,
        .gather_timeout_ns = clock_ns_of(n->o.wait_seconds),
        .dead_timeout_ns = clock_ns_of(n->o.dead_seconds),
        .leave_timeout_ns = ALL_LEAVE_NS,
        .session_base = clock_unix_ns(),
        .pid = (uint32_t)getpid(),
        .host = n->process.host,
    };
    TRY(node_make_token(&n->process, e));
    TRY(node_random(o.session_key, e));
    TRY(scheduler_open(&h->scheduler, &o, e));
    struct van_handler handler = scheduler_handler(h->scheduler);
    TRY(node_van(&n->process, &h->van, &handler, false, e));
    TRY(van_listen(h->van, "tcp://127.0.0.1:0", h->own_door, e));
    scheduler_serve(h->scheduler, h->van, n->scheduler);
    TRY(pump_open(&h->pump, h->van, e));
    pump_set_spin(h->pump, kv_node_spin_ns(n));
    return 0;
}

int kv_host_start(struct host **ret, struct tug_node *n, struct err *e)
{
    struct host *h = mem_zalloc(sizeof(*h));
    if (h == NULL)
        return err_nomem(e, "the scheduler");
    h->node = n;
    int rc = host_open(h, e);
    if (rc != 0)
        host_free(h);
    else
        *ret = h;
    return rc;
}

const char *kv_host_address(const struct host *h)
{
    return h->own_door;
}

int kv_host_open_doors(struct host *h, struct err *e)
{
    char address[VAN_ADDRESS_MAX];
    pump_enter(h->pump);
    int rc = node_listen(&h->node->process, h->van, 0, address, e);
    if (rc == 0)
        rc = node_leave_token(&h->node->process, address, e);
    pump_leave(h->pump);
    return rc;
}

void kv_host_end(struct host *h, const struct err *why)
{
    pump_enter(h->pump);
    scheduler_stop(h->scheduler, why);
    pump_leave(h->pump);
    h->broken_off = true;
}

static bool finished(void *ctx)
{
    const struct host *h = ctx;
    return scheduler_finished(h->scheduler, NULL);
}

int kv_host_stop(struct host *h, bool wait, struct err *e)
{
    struct err why = {0};
    if (h == NULL)
        return 0;
    if (wait) {
        uint64_t now = van_now(h->van);
        if (h->broken_off)
            (void)pump_wait_uninterrupted(h->pump, finished, h, now + KV_BREAK_OFF_NS);
        else // the scheduler ends before this deadline
            (void)pump_wait(h->pump, finished, h, now + 2 * ALL_LEAVE_NS);
        pump_enter(h->pump);
        (void)scheduler_finished(h->scheduler, &why);
        pump_leave(h->pump);
    }
    host_free(h);
    if (why.code != 0)
        *e = why;
    return why.code;
}
