// The thread of heartbeats. It never gives up: what a silent scheduler means is decided
// by the members of the process.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/heartbeat.h"

#include <pthread.h>

#include "base/alloc.h"
#include "cluster/proof.h"

enum { DIAL_SECONDS = 10 };

struct heartbeat {
    const struct node *node;
    struct van *van;
    van_link link; // 0: none
    bool open, greeted;
    uint64_t next;     // when the next one is due
    uint64_t heard_at; // the last answer; or when the link was asked for, or opened
    atomic_bool *lost;
    bool threaded;
    atomic_bool stop;
    pthread_t thread;
};

static void connect_again(struct heartbeat *h, uint64_t now)
{
    h->open = h->greeted = false;
    h->heard_at = now;
    // An attempt that hangs is given up, and another one made.
    h->link = van_connect(h->van, h->node->scheduler, DIAL_SECONDS * SECOND_NS);
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
    (void)accepted;
    h->open = true;
    h->heard_at = now;
    (void)van_send(h->van, link, MSG_HELLO, 0, &hello, NULL);
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct heartbeat *h = ctx;
    if (link != h->link)
        return;
    h->heard_at = now;
    if (m->type == MSG_WELCOME) {
        // The process's number is for the scheduler alone: to another who took its port
        // nothing is said, and the link is given up as silent.
        h->greeted = m->m->welcome.role == WIRE_SCHEDULER &&
                     proof_role_fits(WIRE_SCHEDULER, van_trust(h->van, link).role);
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
        h->open = h->greeted = false;
        h->next = now + SECOND_NS;
    }
}

// The van is at it until the link is open: what is not answered is what was sent.
static bool is_silent(const struct heartbeat *h, uint64_t now)
{
    return h->link != 0 && h->open && now >= h->heard_at + HEARTBEAT_SILENCE_NS;
}

static uint64_t on_tick(void *ctx, uint64_t now)
{
    struct heartbeat *h = ctx;
    if (h->van == NULL || now < h->next)
        return h->next;
    h->next = now + SECOND_NS;
    if (is_silent(h, now)) {
        van_close_link(h->van, h->link);
        h->link = 0;
    }
    if (h->link == 0) {
        connect_again(h, now);
    } else if (h->greeted) {
        struct msg_heartbeat m = {.process = h->node->process,
                                  .unix_ns = clock_unix_ns()};
        (void)van_send(h->van, h->link, MSG_HEARTBEAT, 0, &m, NULL);
    }
    return h->next;
}

struct van_handler heartbeat_handler(struct heartbeat *h)
{
    return (struct van_handler){
        .ctx = h,
        .opened = on_opened,
        .message = on_message,
        .closed = on_closed,
        .tick = on_tick,
    };
}

void heartbeat_serve(struct heartbeat *h, struct van *v)
{
    h->van = v;
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

int heartbeat_open(struct heartbeat **ret, const struct node *n, atomic_bool *lost,
                   struct err *e)
{
    struct heartbeat *h = mem_zalloc(sizeof(*h));
    if (h == NULL)
        return err_nomem(e, "heartbeats");
    *h = (struct heartbeat){.node = n, .lost = lost};
    *ret = h;
    return 0;
}

int heartbeat_start(struct heartbeat **ret, struct node *n, atomic_bool *lost,
                    struct err *e)
{
    struct heartbeat *h = NULL;
    TRY(heartbeat_open(&h, n, lost, e));
    struct van_handler handler = heartbeat_handler(h);
    int rc = node_van(n, &h->van, &handler, false, e);
    if (rc == 0 && pthread_create(&h->thread, NULL, run, h) != 0)
        rc = err_set(e, TUG_EIO, "cannot start the thread of heartbeats");
    if (rc != 0) {
        van_free(h->van);
        mem_free(h);
        return rc;
    }
    h->threaded = true;
    *ret = h;
    return 0;
}

void heartbeat_stop(struct heartbeat *h)
{
    if (h == NULL)
        return;
    if (h->threaded) {
        atomic_store(&h->stop, true);
        van_wake(h->van);
        pthread_join(h->thread, NULL);
        van_free(h->van);
    }
    mem_free(h);
}
