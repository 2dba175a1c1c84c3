// For the conformance suite: every van behind one face. A world has some nodes with a van
// each; `PUMP` lets time pass in all of them, on one thread, until something is true.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_VAN_TESTING_H
#define TUG_VAN_VAN_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "van/inproc.h"
#include "van/sim.h"
#include "van/tcp.h"
#include "van/tls.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { NODES = 3, LINKS = 128 };

#define MS ((uint64_t)1000000)
#define SECOND (1000 * MS)
#define PATIENCE                                                                         \
    (20 * SECOND) // real time that anything may take before a test has failed

struct world;

// A van and what it has heard.
struct node {
    struct world *w;
    struct van *v;
    char address[VAN_ADDRESS_MAX]; // where it listens
    unsigned opened, accepted, closed, messages, ticks;
    van_link link;         // the last that opened
    van_link links[LINKS]; // the first that opened
    van_link closed_link;  // the last that closed
    struct err why;
    uint64_t last, ticked_at, tick_at; // request; times
    uint64_t now;                      // the time as it was last told
    bool in_order;

    // What it does when a link opens or a message comes, if anything.
    void (*on_opened)(struct node *n, van_link link, bool accepted);
    void (*on_message)(struct node *n, van_link link, struct van_message *m);
    void *place; // for bodies
    unsigned places;
    void *data; // of the check
};

struct kind {
    const char *name;
    int (*open_van)(struct world *w, const char *name, const struct van_handler *h,
                    struct van **ret, struct err *e);
    const char *listen; // an address; %d %d: the process, a number
    bool simulated, tls;
    enum van_kind links; // what its links are
};

struct world {
    const struct kind *kind;
    struct sim *sim;
    struct tls *tls;
    struct tcp_options tcp; // of vans with sockets, but for their keys
    struct node nodes[NODES];
    uint64_t patient_until;
};

// Who is told the time computes with it: it never goes back.
static inline void take_time(struct node *n, uint64_t now)
{
    assert_true(now >= n->now);
    n->now = now;
}

static inline void node_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct node *n = ctx;
    take_time(n, now);
    if (n->opened < LINKS)
        n->links[n->opened] = link;
    n->opened++;
    n->accepted += accepted;
    n->link = link;
    if (n->on_opened != NULL)
        n->on_opened(n, link, accepted);
}

static inline void node_message(void *ctx, van_link link, struct van_message *m,
                                uint64_t now)
{
    struct node *n = ctx;
    take_time(n, now);
    n->messages++;
    n->in_order = n->in_order && m->request == n->last + 1;
    n->last = m->request;
    if (n->on_message != NULL)
        n->on_message(n, link, m);
}

static inline void *node_place(void *ctx, van_link link, uint16_t type, uint64_t request,
                               const union wire_any *head, uint64_t body_bytes)
{
    struct node *n = ctx;
    (void)link, (void)type, (void)request, (void)head;
    assert_int_not_equal(body_bytes, 0);
    assert_int_equal(body_bytes % 8, 0);
    n->places++;
    return n->place;
}

static inline void node_closed(void *ctx, van_link link, const struct err *why,
                               uint64_t now)
{
    struct node *n = ctx;
    take_time(n, now);
    n->closed++;
    n->closed_link = link;
    n->why = *why;
}

static inline uint64_t node_tick(void *ctx, uint64_t now)
{
    struct node *n = ctx;
    take_time(n, now);
    n->ticks++;
    n->ticked_at = now;
    return n->tick_at > now ? n->tick_at : VAN_NEVER;
}

static inline int try_open_node(struct world *w, int i, struct err *e)
{
    static const char *const names[NODES] = {"a", "b", "c"};
    struct node *n = &w->nodes[i];
    const struct van_handler h = {n,           node_opened, node_message, node_place,
                                  node_closed, node_tick,   NULL};
    *n = (struct node){.w = w, .in_order = true};
    return w->kind->open_van(w, names[i], &h, &n->v, e);
}

static inline struct node *open_node(struct world *w, int i)
{
    struct err e = {0};
    if (try_open_node(w, i, &e) != 0)
        fail_msg("%s", e.text);
    return &w->nodes[i];
}

static inline void close_node(struct node *n)
{
    van_free(n->v);
    n->v = NULL;
}

// An address of the kind, for a node to listen on.
static inline void new_address(const struct world *w, char ret[VAN_ADDRESS_MAX])
{
    static int count;
    snprintf(ret, VAN_ADDRESS_MAX, w->kind->listen, (int)getpid(), count++);
}

static inline void listen_at(struct node *n, const char *address)
{
    struct err e = {0};
    if (van_listen(n->v, address, n->address, &e) != 0)
        fail_msg("%s", e.text);
}

static inline void listen_anywhere(struct node *n)
{
    char address[VAN_ADDRESS_MAX];
    new_address(n->w, address);
    listen_at(n, address);
}

static inline void step(struct world *w)
{
    struct err e = {0};
    if (w->kind->simulated) {
        if (!sim_step(w->sim, VAN_NEVER))
            w->patient_until = 0;
        return;
    }
    for (int i = 0; i < NODES; i++) {
        struct van *v = w->nodes[i].v;
        if (v != NULL && van_poll(v, van_now(v) + (i == 0 ? MS / 20 : 0), &e) != 0)
            fail_msg("van_poll: %s", e.text);
    }
}

// Lets time pass until the condition holds.
#define PUMP(w, condition)                                                               \
    do {                                                                                 \
        (w)->patient_until = clock_ns() + PATIENCE;                                      \
        while (!(condition)) {                                                           \
            if (clock_ns() > (w)->patient_until)                                         \
                fail_msg("in vain was waited for: %s", #condition);                      \
            step(w);                                                                     \
        }                                                                                \
    } while (0)

// Lets pass what is under way: for what must not happen.
static inline void settle(struct world *w)
{
    if (w->kind->simulated)
        while (sim_step(w->sim, sim_now(w->sim) + SECOND)) {
        }
    else
        for (uint64_t end = clock_ns() + 30 * MS; clock_ns() < end;)
            step(w);
}

// The first message of a link is a small one, as hello is: vans may insist on it.
static inline void greet(struct node *from, van_link link, struct node *to)
{
    unsigned before = to->messages;
    assert_int_equal(van_send(from->v, link, MSG_STATUS, 0, &(struct msg_status){}, NULL),
                     0);
    PUMP(to->w, to->messages == before + 1);
    to->messages = before;
    to->last = 0;
    to->in_order = true;
}

// Nodes a and b, b listening, with a link from a.
static inline void open_pair(struct world *w)
{
    struct node *a = open_node(w, 0), *b = open_node(w, 1);
    listen_anywhere(b);
    assert_int_not_equal(van_connect(a->v, b->address, PATIENCE), 0);
    PUMP(w, a->opened == 1 && b->opened == 1);
    greet(a, a->link, b);
}

// One node's certificate serves all: vans of one process may share their keys.
static inline void open_keys(struct world *w)
{
    struct err e = {0};
    enum { PEM_MAX = 64 << 10 };
    struct buf ca_key = BUF_INIT(PEM_MAX), ca = BUF_INIT(PEM_MAX),
               key = BUF_INIT(PEM_MAX), cert = BUF_INIT(PEM_MAX), all = BUF_INIT(PEM_MAX);
    int rc = tls_make_ca(&ca_key, &ca, 1, &e);
    if (rc == 0)
        rc = tls_make_node(buf_str(&ca_key), buf_str(&ca), "node", NULL, 1, &key, &cert,
                           &e);
    if (rc == 0)
        rc = buf_printf(&all, "%s%s%s", buf_str(&ca), buf_str(&cert), buf_str(&key));
    if (rc == 0)
        rc = tls_open_text(&w->tls, buf_str(&all), all.len, &e);
    buf_free(&ca_key);
    buf_free(&ca);
    buf_free(&key);
    buf_free(&cert);
    buf_free(&all);
    if (rc != 0)
        fail_msg("%s", e.text);
}

static inline void close_keys(struct world *w)
{
    tls_close(w->tls);
}

// The kinds of vans.

static inline int open_inproc(struct world *w, const char *name,
                              const struct van_handler *h, struct van **ret,
                              struct err *e)
{
    (void)w, (void)name;
    return inproc_van_open(ret, h, e);
}

static inline int open_sim(struct world *w, const char *name, const struct van_handler *h,
                           struct van **ret, struct err *e)
{
    return sim_van_open(ret, w->sim, name, h, e);
}

static inline int open_tcp(struct world *w, const char *name, const struct van_handler *h,
                           struct van **ret, struct err *e)
{
    (void)name;
    struct tcp_options o = w->tcp;
    o.tls = w->tls;
    return tcp_van_open(ret, &o, h, e);
}

static const struct kind kinds[] = {
    {"inproc", open_inproc, "inproc://test-%d-%d", false, false, VAN_OWNER},
    {"sim", open_sim, "sim://test-%d-%d", true, false, VAN_OWNER},
    {"tcp", open_tcp, "tcp://127.0.0.1:0", false, false, VAN_LOOPBACK},
    {"unix", open_tcp, "unix:///tmp/tug-van-test-%d-%d", false, false, VAN_OWNER},
    {"tls", open_tcp, "tcp://127.0.0.1:0", false, true, VAN_TLS},
};

#endif
