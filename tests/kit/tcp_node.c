// See tcp_node.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/tcp_node.h"

#include "kit/test.h"
#include "os/clock.h"

uint64_t tcp_node_sum(const void *data, uint64_t n)
{
    const unsigned char *at = data;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum = sum * 31 + at[i];
    return sum;
}

static void on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct tcp_node *n = ctx;
    (void)accepted, (void)now;
    n->opened++;
    n->link = link;
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct tcp_node *n = ctx;
    (void)now;
    n->messages++;
    n->ordered = n->ordered && m->request == n->last_request + 1;
    n->last_request = m->request;
    n->body_bytes += m->body_bytes;
    n->placed += m->placed;
    if (m->type == MSG_ROSTER) {
        n->sum = tcp_node_sum(m->m->roster.owners.data, m->m->roster.owners.n);
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
    struct tcp_node *n = ctx;
    (void)link, (void)type, (void)request, (void)head, (void)body_bytes;
    return n->place;
}

static void on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct tcp_node *n = ctx;
    (void)link, (void)now;
    n->closed++;
    n->why = *why;
}

void tcp_node_open(struct tcp_node *n, const struct tcp_options *o, const char *address)
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

void tcp_node_hello(struct tcp_node *n, uint64_t request)
{
    struct msg_hello m = {.node = 7, .version = wire_text("1")};
    assert_int_equal(van_send(n->van, n->link, MSG_HELLO, request, &m, NULL), 0);
}

void tcp_node_until(struct tcp_node *a, struct tcp_node *b, const int *counter, int value)
{
    uint64_t deadline = clock_ns() + 60 * SECOND_NS;
    while (*counter < value) {
        if (clock_ns() > deadline)
            fail_msg("waited in vain: %d of %d", *counter, value);
        assert_int_equal(van_poll(a->van, van_now(a->van) + SECOND_NS / 1000, NULL), 0);
        if (b != NULL)
            assert_int_equal(van_poll(b->van, van_now(b->van) + SECOND_NS / 1000, NULL),
                             0);
    }
}
