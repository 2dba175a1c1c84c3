// SPDX-License-Identifier: Apache-2.0
#include "van/tcp.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "van/tcp_address.h"

enum { MS = 1000000, LINKS = 64 };
#define SECOND ((uint64_t)1000000000)

// A node that counts what happens to it.
struct node {
    struct van *van;
    char address[VAN_ADDRESS_MAX];
    van_link link; // the last one that opened
    int opened, closed, messages, placed;
    uint64_t body_bytes, sum;
    uint64_t last_request;
    bool echo, ordered;
    char *place; // where bodies are to go
    struct err why;
};

static uint64_t sum_of(const void *data, uint64_t n)
{
    const unsigned char *at = data;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum = sum * 31 + at[i];
    return sum;
}

static void on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct node *n = ctx;
    (void)accepted, (void)now;
    n->opened++;
    n->link = link;
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct node *n = ctx;
    (void)now;
    n->messages++;
    n->ordered = n->ordered && m->request == n->last_request + 1;
    n->last_request = m->request;
    n->body_bytes += m->body_bytes;
    n->placed += m->placed;
    if (m->type == MSG_ROSTER) {
        n->sum = sum_of(m->m->roster.owners.data, m->m->roster.owners.n);
        assert_int_equal((uintptr_t)m->m->roster.owners.data % 8, 0);
    }
    if (n->echo)
        assert_int_equal(van_send(n->van, link, MSG_OK, m->request,
                                  &(struct msg_ok){.value = n->sum}, NULL),
                         0);
}

static void *on_place(void *ctx, van_link link, uint16_t type, uint64_t request,
                      const union wire_any *head, uint64_t body_bytes)
{
    struct node *n = ctx;
    (void)link, (void)type, (void)request, (void)head, (void)body_bytes;
    return n->place;
}

static void on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct node *n = ctx;
    (void)link, (void)now;
    n->closed++;
    n->why = *why;
}

static void open_node(struct node *n, const struct tcp_options *o, const char *address)
{
    struct err e;
    struct van_handler h = {
        .ctx = n,
        .opened = on_opened,
        .message = on_message,
        .place = on_place,
        .closed = on_closed,
    };
    n->ordered = true;
    assert_int_equal(tcp_van_open(&n->van, o, &h, &e), 0);
    if (address != NULL && van_listen(n->van, address, n->address, &e) != 0)
        fail_msg("%s", e.text);
}

// Polls both until the counter has the value; fails after 20 s.
static void until(struct node *a, struct node *b, const int *counter, int value)
{
    uint64_t deadline = clock_ns() + 20 * SECOND;
    while (*counter < value) {
        if (clock_ns() > deadline)
            fail_msg("waited in vain: %d of %d", *counter, value);
        assert_int_equal(van_poll(a->van, van_now(a->van) + MS, NULL), 0);
        if (b != NULL)
            assert_int_equal(van_poll(b->van, van_now(b->van) + MS, NULL), 0);
    }
}

static void send_hello(struct node *n, uint64_t request)
{
    struct msg_hello m = {.node = 7, .version = wire_text("1")};
    assert_int_equal(van_send(n->van, n->link, MSG_HELLO, request, &m, NULL), 0);
}

struct pair {
    struct node server, client;
};

static void open_pair(struct pair *p, const struct tcp_options *o, const char *address)
{
    *p = (struct pair){0};
    open_node(&p->server, o, address);
    open_node(&p->client, o, NULL);
    assert_int_not_equal(van_connect(p->client.van, p->server.address, 5 * SECOND), 0);
    until(&p->client, &p->server, &p->client.opened, 1);
    until(&p->client, &p->server, &p->server.opened, 1);
}

static void close_pair(struct pair *p)
{
    van_free(p->client.van);
    van_free(p->server.van);
}

static const struct tcp_options plain = {0};

static void exchange(const char *address)
{
    size_t before = mem_live();
    struct pair p;
    open_pair(&p, &plain, address);
    p.server.echo = true;
    for (uint64_t i = 1; i <= 1000; i++)
        send_hello(&p.client, i);
    until(&p.client, &p.server, &p.client.messages, 1000);
    assert_int_equal(p.server.messages, 1000);
    assert_true(p.server.ordered && p.client.ordered);
    van_close_link(p.client.van, p.client.link);
    until(&p.client, &p.server, &p.server.closed, 1);
    assert_int_equal(p.server.why.code, 0);
    assert_int_equal(p.client.closed, 0);
    close_pair(&p);
    assert_int_equal(mem_live(), before);
}

static void test_tcp(void **state)
{
    (void)state;
    exchange("tcp://127.0.0.1:0");
    exchange("tcp://localhost:0");
    exchange("tcp://[::1]:0");
}

static void test_unix(void **state)
{
    (void)state;
    char address[64];
    snprintf(address, sizeof(address), "unix:///tmp/tug-test-%d.sock", getpid());
    exchange(address);
    assert_int_not_equal(access(address + 7, F_OK), 0);
}

static void count_release(void *ctx)
{
    ++*(int *)ctx;
}

// Bodies of all sizes, alternating with and without release and place.
static void test_bodies(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &plain, "tcp://127.0.0.1:0");
    enum { MAX = 40 << 20 };
    char *data = mem_alloc(MAX), *place = mem_alloc(MAX + 8);
    uint64_t size = 1;
    int released = 0, n = 1;
    for (int i = 0; i < MAX; i++)
        data[i] = (char)(i * 7 + (i >> 8));
    send_hello(&p.client, 1);
    for (; size < MAX; size = size * 5 / 2 + 3, n++) {
        struct msg_roster m = {.owners = {data, size}};
        struct van_release r = {count_release, &released};
        p.server.place = n % 3 == 0 ? place : NULL;
        assert_int_equal(van_send(p.client.van, p.client.link, MSG_ROSTER,
                                  (uint64_t)n + 1, &m, n % 2 ? &r : NULL),
                         0);
        until(&p.client, &p.server, &p.server.messages, n + 1);
        assert_int_equal(p.server.sum, sum_of(data, size));
        assert_int_equal(released, (n + 1) / 2);
    }
    assert_true(p.server.placed > 0 && p.server.ordered);
    assert_int_equal(van_queued(p.client.van, p.client.link), 0);
    close_pair(&p);
    mem_free(data);
    mem_free(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_unix),
        cmocka_unit_test(test_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
