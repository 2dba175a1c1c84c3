// See vans.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/vans.h"

#include <stdio.h>
#include <unistd.h>

#include "kit/inproc.h"

// Checks that the time that handlers get never decreases.
static void take_time(struct node *n, uint64_t now)
{
    assert_true(now >= n->now);
    n->now = now;
}

static void node_opened(void *ctx, van_link link, bool accepted, uint64_t now)
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

void node_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct node *n = ctx;
    take_time(n, now);
    n->messages++;
    n->in_order = n->in_order && m->request == n->last + 1;
    n->last = m->request;
    if (n->on_message != NULL)
        n->on_message(n, link, m);
}

static void *node_place(void *ctx, van_link link, uint16_t type, uint64_t request,
                        const union wire_any *head, uint64_t body_bytes)
{
    struct node *n = ctx;
    (void)link, (void)type, (void)request, (void)head;
    assert_int_not_equal(body_bytes, 0);
    assert_int_equal(body_bytes % 8, 0);
    n->places++;
    return n->place;
}

static void node_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct node *n = ctx;
    take_time(n, now);
    n->closed++;
    n->closed_link = link;
    n->why = *why;
}

uint64_t node_tick(void *ctx, uint64_t now)
{
    struct node *n = ctx;
    take_time(n, now);
    n->ticks++;
    n->ticked_at = now;
    return n->tick_at > now ? n->tick_at : VAN_NEVER;
}

int vans_try_open(struct vans *w, int i, struct err *e)
{
    static const char *const names[NODES] = {"a", "b", "c"};
    struct node *n = &w->nodes[i];
    const struct van_handler h = {n,           node_opened, node_message, node_place,
                                  node_closed, node_tick,   NULL};
    *n = (struct node){.w = w, .in_order = true};
    return w->kind->open_van(w, names[i], &h, &n->v, e);
}

struct node *vans_open(struct vans *w, int i)
{
    struct err e = {0};
    if (vans_try_open(w, i, &e) != 0)
        fail_msg("%s", e.text);
    return &w->nodes[i];
}

void vans_close(struct node *n)
{
    van_free(n->v);
    n->v = NULL;
}

void vans_new_address(const struct vans *w, char ret[VAN_ADDRESS_MAX])
{
    static int count;
    snprintf(ret, VAN_ADDRESS_MAX, w->kind->listen, (int)getpid(), count++);
}

void vans_listen(struct node *n, const char *address)
{
    struct err e = {0};
    if (van_listen(n->v, address, n->address, &e) != 0)
        fail_msg("%s", e.text);
}

void vans_listen_anywhere(struct node *n)
{
    char address[VAN_ADDRESS_MAX];
    vans_new_address(n->w, address);
    vans_listen(n, address);
}

void vans_step(struct vans *w)
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

void vans_settle(struct vans *w)
{
    if (w->kind->simulated)
        while (sim_step(w->sim, sim_now(w->sim) + SECOND)) {
        }
    else
        for (uint64_t end = clock_ns() + 30 * MS; clock_ns() < end;)
            vans_step(w);
}

void vans_greet(struct node *from, van_link link, struct node *to)
{
    unsigned before = to->messages;
    assert_int_equal(van_send(from->v, link, MSG_STATUS, 0, &(struct msg_status){}, NULL),
                     0);
    PUMP(to->w, to->messages == before + 1);
    to->messages = before;
    to->last = 0;
    to->in_order = true;
}

void vans_open_pair(struct vans *w)
{
    struct node *a = vans_open(w, 0), *b = vans_open(w, 1);
    vans_listen_anywhere(b);
    assert_int_not_equal(van_connect(a->v, b->address, PATIENCE), 0);
    PUMP(w, a->opened == 1 && b->opened == 1);
    vans_greet(a, a->link, b);
}

void vans_open_keys(struct vans *w)
{
    struct err e = {0};
    enum { PEM_MAX = 64 << 10 };
    struct buf ca_key = BUF_INIT(PEM_MAX), ca = BUF_INIT(PEM_MAX),
               key = BUF_INIT(PEM_MAX), cert = BUF_INIT(PEM_MAX), all = BUF_INIT(PEM_MAX);
    int rc = tls_make_ca(&ca_key, &ca, 1, &e);
    if (rc == 0)
        rc = tls_make_node(buf_str(&ca_key), buf_str(&ca),
                           &(struct tls_node){.name = "node", .days = 1}, &key, &cert,
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

void vans_close_keys(struct vans *w)
{
    tls_close(w->tls);
}

// ---------------------------------------------------------------- all kinds of vans

static int open_inproc(struct vans *w, const char *name, const struct van_handler *h,
                       struct van **ret, struct err *e)
{
    (void)w, (void)name;
    return inproc_van_open(ret, h, e);
}

static int open_sim(struct vans *w, const char *name, const struct van_handler *h,
                    struct van **ret, struct err *e)
{
    return sim_van_open(ret, w->sim, name, h, e);
}

int vans_open_tcp(struct vans *w, const char *name, const struct van_handler *h,
                  struct van **ret, struct err *e)
{
    (void)name;
    struct tcp_options o = w->tcp;
    o.tls = w->tls;
    return tcp_van_open(ret, &o, h, e);
}

const struct vans_kind vans_kinds[VANS_KINDS] = {
    {"inproc", open_inproc, "inproc://test-%d-%d", false, false, VAN_OWNER},
    {"sim", open_sim, "sim://test-%d-%d", true, false, VAN_OWNER},
    {"tcp", vans_open_tcp, "tcp://127.0.0.1:0", false, false, VAN_LOOPBACK},
    {"unix", vans_open_tcp, "unix:///tmp/tug-van-test-%d-%d", false, false, VAN_OWNER},
    {"tls", vans_open_tcp, "tcp://127.0.0.1:0", false, true, VAN_TLS},
};
