// The thread of heartbeats. It never gives up: what a silent scheduler means is decided
// by the members of the process.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/heartbeat.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/clock.h"

struct heartbeat {
    struct node *node;
    struct van *van;
    van_link link; // 0: none
    bool greeted;
    uint64_t next; // when the next one is due
    atomic_bool *lost;
    atomic_bool stop;
    pthread_t thread;
};

static void connect_again(struct heartbeat *h)
{
    h->greeted = false;
    h->link = van_connect(h->van, h->node->scheduler, 3600 * SECOND_NS);
}

static void on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct heartbeat *h = ctx;
    struct msg_hello hello = {
        .cluster = h->node->cluster,
        .role = WIRE_TOOL,
        .unix_ns = clock_unix_ns(),
        .version = wire_text(tug_version()),
    };
    (void)accepted, (void)now;
    (void)van_send(h->van, link, MSG_HELLO, 0, &hello, NULL);
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct heartbeat *h = ctx;
    (void)link;
    if (m->type == MSG_WELCOME) {
        h->greeted = true;
        h->next = now;
    } else if (m->type == MSG_HEARTBEAT_OK && !m->m->heartbeat_ok.known &&
               h->lost != NULL) {
        atomic_store(h->lost, true);
    }
}

static void on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct heartbeat *h = ctx;
    (void)why;
    if (link == h->link) {
        h->link = 0;
        h->greeted = false;
        h->next = now + SECOND_NS;
    }
}

static uint64_t on_tick(void *ctx, uint64_t now)
{
    struct heartbeat *h = ctx;
    if (now < h->next)
        return h->next;
    h->next = now + SECOND_NS;
    if (h->link == 0) {
        connect_again(h);
    } else if (h->greeted) {
        struct msg_heartbeat m = {.process = h->node->process,
                                  .unix_ns = clock_unix_ns()};
        (void)van_send(h->van, h->link, MSG_HEARTBEAT, 0, &m, NULL);
    }
    return h->next;
}

static void *run(void *arg)
{
    struct heartbeat *h = arg;
    struct err e = {0};
    while (!atomic_load(&h->stop) &&
           van_poll(h->van, van_now(h->van) + SECOND_NS, &e) == 0)
        ;
    return NULL;
}

int heartbeat_start(struct heartbeat **ret, struct node *n, atomic_bool *lost,
                    struct err *e)
{
    struct heartbeat *h = mem_zalloc(sizeof(*h));
    if (h == NULL)
        return err_nomem(e, "heartbeats");
    *h = (struct heartbeat){.node = n, .lost = lost};
    struct van_handler handler = {
        .ctx = h,
        .opened = on_opened,
        .message = on_message,
        .closed = on_closed,
        .tick = on_tick,
    };
    int rc = node_van(n, &h->van, &handler, false, e);
    if (rc == 0 && pthread_create(&h->thread, NULL, run, h) != 0)
        rc = err_set(e, TUG_EIO, "cannot start the thread of heartbeats");
    if (rc != 0) {
        van_free(h->van);
        mem_free(h);
        return rc;
    }
    *ret = h;
    return 0;
}

void heartbeat_stop(struct heartbeat *h)
{
    if (h == NULL)
        return;
    atomic_store(&h->stop, true);
    van_wake(h->van);
    pthread_join(h->thread, NULL);
    van_free(h->van);
    mem_free(h);
}
