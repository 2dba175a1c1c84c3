// The vans' side of `tug bench kvstore`: a server receives each worker's piece of the
// array into a buffer for that worker, and sends a piece back straight from memory. No
// process reads the bytes.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "bench/kvstore.h"
#include "van/tcp.h"

#define TIMEOUT_NS ((uint64_t)60000000000)

struct server {
    struct van *van;
    uint64_t bytes; // size of this server's part of the array
    char *sinks[BENCH_KV_NODES], *source;
    van_link links[BENCH_KV_NODES];
    uint32_t n_links, n_closed;
};

static void keep_memory(void *ctx)
{
    (void)ctx;
}

static const struct van_release stays = {keep_memory, NULL};

static char *memory_of(uint64_t bytes)
{
    char *p = mem_map(bytes);
    if (p != NULL)
        memset(p, 1, bytes);
    return p;
}

// ---------------------------------------------------------------- A server

static void *server_place(void *ctx, van_link link, uint16_t type, uint64_t request,
                          const union wire_any *head, uint64_t body_bytes)
{
    struct server *s = ctx;
    (void)type, (void)request, (void)head;
    for (uint32_t i = 0; i < s->n_links; i++)
        if (s->links[i] == link && body_bytes <= s->bytes)
            return s->sinks[i];
    return NULL;
}

// Acknowledges a push, which has a body. Answers a pull, which has none, with this
// server's part of the array.
static void server_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct server *s = ctx;
    struct msg_ok ok = {0};
    struct msg_app answer = {.body = {s->source, s->bytes}};
    (void)now;
    if (m->body_bytes > 0)
        van_send(s->van, link, MSG_OK, m->request, &ok, NULL);
    else
        van_send(s->van, link, MSG_APP, m->request, &answer, &stays);
}

static void server_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct server *s = ctx;
    (void)accepted, (void)now;
    if (s->n_links < BENCH_KV_NODES)
        s->links[s->n_links++] = link;
}

static void server_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    (void)link, (void)why, (void)now;
    ((struct server *)ctx)->n_closed++;
}

int bench_kv_van_server(const struct bench_kv *b, struct err *e)
{
    struct server s = {.bytes = b->o->max_bytes / b->o->servers};
    struct van_handler h = {.ctx = &s,
                            .opened = server_opened,
                            .message = server_message,
                            .place = server_place,
                            .closed = server_closed};
    struct tcp_options o = {.spin_ns = (uint64_t)(b->o->spin_us * 1000)};
    s.source = memory_of(s.bytes);
    bool ok = s.source != NULL;
    for (uint64_t i = 0; i < b->o->workers && ok; i++)
        ok = (s.sinks[i] = memory_of(s.bytes)) != NULL;
    if (!ok)
        return err_nomem(e, "pieces of an array");
    TRY(tcp_van_open(&s.van, &o, &h, e));
    TRY(van_listen(s.van, "tcp://127.0.0.1:0", b->shared->addresses[b->rank], e));
    for (uint64_t i = 0; i < b->o->workers; i++)
        (void)sem_post(&b->shared->listening[b->rank]);
    while (s.n_closed < b->o->workers)
        TRY(van_poll(s.van, VAN_NEVER, e));
    van_free(s.van);
    return 0;
}

// ---------------------------------------------------------------- A worker

struct worker {
    struct van *van;
    // Size of a server's part of the array, and number of servers.
    uint64_t bytes, servers;
    char *array;
    van_link links[BENCH_KV_NODES];
    uint64_t opened, answered;
    struct err why;
};

static void *worker_place(void *ctx, van_link link, uint16_t type, uint64_t request,
                          const union wire_any *head, uint64_t body_bytes)
{
    struct worker *w = ctx;
    (void)type, (void)request, (void)head;
    for (uint64_t i = 0; i < w->servers; i++)
        if (w->links[i] == link && body_bytes <= w->bytes)
            return w->array + i * w->bytes;
    return NULL;
}

static void worker_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    (void)link, (void)m, (void)now;
    ((struct worker *)ctx)->answered++;
}

static void worker_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    (void)link, (void)accepted, (void)now;
    ((struct worker *)ctx)->opened++;
}

static void worker_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    (void)link, (void)now;
    ((struct worker *)ctx)->why = *why;
}

static int await(struct worker *w, const uint64_t *count, uint64_t n, struct err *e)
{
    uint64_t until = van_now(w->van) + TIMEOUT_NS;
    while (*count < n) {
        if (w->why.text[0] != 0 || van_now(w->van) >= until)
            return err_set(e, TUG_EIO, "a van does not answer: %s", w->why.text);
        TRY(van_poll(w->van, until, e));
    }
    return 0;
}

// Pushes n bytes to each server, or, if n is 0, pulls the part of the array from each
// server. Waits for all answers.
static int ask(struct worker *w, uint64_t n, struct err *e)
{
    uint64_t before = w->answered;
    for (uint64_t i = 0; i < w->servers; i++) {
        struct msg_app m = {.body = {w->array + i * w->bytes, n}};
        int rc = van_send(w->van, w->links[i], MSG_APP, 1, &m, &stays);
        if (rc != 0)
            return err_set(e, rc, "a piece cannot be sent: %s", err_text(rc));
    }
    return await(w, &w->answered, before + w->servers, e);
}

int bench_kv_van_worker(const struct bench_kv *b, struct err *e)
{
    struct worker w = {.servers = b->o->servers,
                       .bytes = b->o->max_bytes / b->o->servers,
                       .array = memory_of(b->o->max_bytes)};
    struct van_handler h = {.ctx = &w,
                            .opened = worker_opened,
                            .message = worker_message,
                            .place = worker_place,
                            .closed = worker_closed};
    struct tcp_options o = {.spin_ns = (uint64_t)(b->o->spin_us * 1000)};
    if (w.array == NULL)
        return err_nomem(e, "an array");
    for (uint64_t i = 0; i < w.servers; i++)
        while (sem_wait(&b->shared->listening[i]) != 0)
            ; // a signal has interrupted the wait
    TRY(tcp_van_open(&w.van, &o, &h, e));
    for (uint64_t i = 0; i < w.servers; i++)
        w.links[i] = van_connect(w.van, b->shared->addresses[i], TIMEOUT_NS);
    TRY(await(&w, &w.opened, w.servers, e));
    TRY(ask(&w, sizeof(uint64_t), e)); // a van accepts only a short first message
    double begin = 0;
    for (int i = -1; i < BENCH_KV_ROUNDS; i++) {
        if (i == 0)
            begin = clock_seconds();
        TRY(ask(&w, w.bytes, e));
        TRY(ask(&w, 0, e));
    }
    b->shared->seconds[b->rank] = clock_seconds() - begin;
    van_free(w.van);
    return 0;
}
