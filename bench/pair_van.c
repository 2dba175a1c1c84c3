// A pair (bench/pair.h) of tcp vans: bodies are sent from the sender's memory and
// received straight into the receiver's buffer.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/pair.h"
#include "os/clock.h"
#include "van/tcp.h"

struct van_pair {
    struct bench_pair base;
    struct bench_pair_options o;
    char *source, *sink;

    struct van *here;
    van_link link;
    bool opened;
    uint64_t sent, answered, awaited;
    struct err why; // why the link was closed

    struct van *there; // while the other thread runs, only it uses this van
    pthread_t thread;
    bool started;
    atomic_bool over;
};

// --------------------------------------------------------- functions of the other thread

static void *place(void *ctx, van_link link, uint16_t type, uint64_t request,
                   const union wire_any *head, uint64_t body_bytes)
{
    const struct van_pair *p = ctx;
    (void)link, (void)type, (void)request, (void)head;
    return body_bytes <= p->o.max_bytes ? p->sink : NULL;
}

static void acknowledge(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct van_pair *p = ctx;
    struct msg_ok ok = {.value = 0};
    (void)now;
    van_send(p->there, link, MSG_OK, m->request, &ok, NULL);
}

static void *serve(void *arg)
{
    struct van_pair *p = arg;
    while (!atomic_load(&p->over))
        if (van_poll(p->there, VAN_NEVER, NULL) != 0)
            break;
    return NULL;
}

// ------------------------------------------------------- functions of the calling thread

static void opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    (void)link, (void)accepted, (void)now;
    ((struct van_pair *)ctx)->opened = true;
}

static void answer(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    (void)link, (void)m, (void)now;
    ((struct van_pair *)ctx)->answered++;
}

static void closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    (void)link, (void)now;
    ((struct van_pair *)ctx)->why = *why;
}

static void keep_source(void *ctx)
{
    (void)ctx; // the memory lives as long as the pair
}

static int send_message(struct bench_pair *base, uint64_t bytes, struct err *e)
{
    struct van_pair *p = (struct van_pair *)base;
    struct msg_app m = {.body = {p->source, bytes}};
    struct van_release stays = {keep_source, NULL};
    int rc = van_send(p->here, p->link, MSG_APP, ++p->sent, &m, &stays);
    return rc == 0 ? 0 : err_set(e, rc, "the van: %s", err_text(rc));
}

static int wait_until(struct van_pair *p, bool answered, struct err *e)
{
    uint64_t until = van_now(p->here) + p->o.timeout_ns;
    while (answered ? p->answered == p->awaited : !p->opened) {
        if (p->why.text[0] != 0)
            return err_set(e, TUG_EIO, "the van: %s", p->why.text);
        if (van_now(p->here) >= until)
            return err_set(e, TUG_EIO, "the van: no answer from the other end for %.0f s",
                           (double)p->o.timeout_ns * 1e-9);
        TRY(van_poll(p->here, until, e));
    }
    return 0;
}

static int await(struct bench_pair *base, struct err *e)
{
    struct van_pair *p = (struct van_pair *)base;
    TRY(wait_until(p, true, e));
    p->awaited++;
    return 0;
}

// ---------------------------------------------------------------- the pair

static void close_pair(struct bench_pair *base)
{
    struct van_pair *p = (struct van_pair *)base;
    van_free(p->here);
    atomic_store(&p->over, true);
    if (p->started) {
        van_wake(p->there);
        pthread_join(p->thread, NULL);
    }
    van_free(p->there);
    mem_unmap(p->source, p->o.max_bytes);
    mem_unmap(p->sink, p->o.max_bytes);
    mem_free(p);
}

static int open_ends(struct van_pair *p, struct err *e)
{
    char address[VAN_ADDRESS_MAX];
    struct tcp_options o = {.tls = p->o.tls, .spin_ns = p->o.spin_ns};
    struct van_handler there = {.ctx = p, .message = acknowledge, .place = place};
    struct van_handler here = {
        .ctx = p, .opened = opened, .message = answer, .closed = closed};
    TRY(tcp_van_open(&p->there, &o, &there, e));
    TRY(tcp_van_open(&p->here, &o, &here, e));
    TRY(van_listen(p->there, "tcp://127.0.0.1:0", address, e));
    if (pthread_create(&p->thread, NULL, serve, p) != 0)
        return err_set(e, TUG_EIO, "cannot start a thread");
    p->started = true;
    p->link = van_connect(p->here, address, p->o.timeout_ns);
    TRY(wait_until(p, false, e));
    // A van accepts only a short first message.
    TRY(send_message(&p->base, sizeof(uint64_t), e));
    return await(&p->base, e);
}

int bench_pair_van(struct bench_pair **ret, const struct bench_pair_options *o,
                   struct err *e)
{
    struct van_pair *p = mem_zalloc(sizeof(*p));
    if (p == NULL)
        return err_nomem(e, "a pair of vans");
    p->base = (struct bench_pair){close_pair, send_message, await};
    p->o = *o;
    p->source = mem_map(o->max_bytes);
    p->sink = mem_map(o->max_bytes);
    int rc = p->source == NULL || p->sink == NULL ? err_nomem(e, "a pair of vans") : 0;
    if (rc == 0) {
        memset(p->source, 1, o->max_bytes);
        memset(p->sink, 1, o->max_bytes);
        rc = open_ends(p, e);
    }
    if (rc != 0)
        close_pair(&p->base);
    else
        *ret = &p->base;
    return rc;
}
