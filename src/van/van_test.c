// Checks that every van does what van.h promises. Each check is written once for all
// kinds of vans.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kit/vans.h"

static void send_status(struct node *n, van_link link, uint64_t request)
{
    assert_int_equal(
        van_send(n->v, link, MSG_STATUS, request, &(struct msg_status){}, NULL), 0);
}

static void echo(struct node *n, van_link link, struct van_message *m)
{
    struct msg_ok ok = {.value = m->request};
    assert_int_equal(van_send(n->v, link, MSG_OK, m->request, &ok, NULL), 0);
}

// Bulk data with a known pattern, in a push: keys and values of odd lengths.

struct bulk {
    unsigned char *bytes;
    uint64_t n_keys, n_values;
};

static unsigned char pattern(uint64_t i, uint64_t seed)
{
    return (unsigned char)(((i + seed) * 0x9e3779b97f4a7c15u) >> 56);
}

static void bulk_open(struct bulk *b, uint64_t n_keys, uint64_t n_values, uint64_t seed)
{
    *b = (struct bulk){mem_alloc(n_keys + n_values), n_keys, n_values};
    assert_non_null(b->bytes);
    for (uint64_t i = 0; i < n_keys + n_values; i++)
        b->bytes[i] = pattern(i, seed);
}

static struct msg_push bulk_push(const struct bulk *b)
{
    return (struct msg_push){.table = 7,
                             .keys = {b->bytes, b->n_keys},
                             .values = {b->bytes + b->n_keys, b->n_values}};
}

static void bulk_check(const struct msg_push *m, uint64_t n_keys, uint64_t n_values,
                       uint64_t seed)
{
    const unsigned char *keys = m->keys.data, *values = m->values.data;
    bool same = true;
    assert_int_equal(m->table, 7);
    assert_int_equal(m->keys.n, n_keys);
    assert_int_equal(m->values.n, n_values);
    assert_int_equal((uintptr_t)keys % 8, 0);
    assert_int_equal((uintptr_t)values % 8, 0);
    for (uint64_t i = 0; i < n_keys; i++)
        same = same && keys[i] == pattern(i, seed);
    for (uint64_t i = 0; i < n_values; i++)
        same = same && values[i] == pattern(n_keys + i, seed);
    assert_true(same);
}

// Counts how often memory was given back.
static void count_release(void *ctx)
{
    ++*(unsigned *)ctx;
}

static void open_and_accept(struct vans *w)
{
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    assert_int_equal(a->accepted, 0);
    assert_int_equal(b->accepted, 1);
    assert_string_equal(van_peer(a->v, a->link), b->address);
    assert_true(van_peer(b->v, b->link)[0] != '\0');
    assert_int_equal(van_queued(a->v, a->link), 0);
    assert_int_equal(van_kind(a->v, a->link), w->kind->links);
    assert_int_equal(van_kind(b->v, b->link), w->kind->links);
    assert_int_equal(van_kind(a->v, a->link + 77), VAN_OPEN);
    vans_settle(w);
    assert_int_equal(a->opened + b->opened, 2);
    assert_int_equal(a->closed + b->closed, 0);
}

// The times that handlers get never decrease; the handler take_time checks this.
static void time_goes_on(struct vans *w)
{
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1], *c = vans_open(w, 2);
    struct err e;
    assert_int_not_equal(van_connect(c->v, b->address, PATIENCE), 0);
    for (int i = 0; i < 3 && !w->kind->simulated; i++)
        assert_int_equal(van_poll(c->v, van_now(c->v), &e), 0);
    send_status(a, a->link, 1);
    PUMP(w, b->messages == 1 && b->opened == 2);
}

static void order_and_echo(struct vans *w)
{
    enum { COUNT = 1000 };
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    b->on_message = echo;
    for (uint64_t i = 1; i <= COUNT; i++)
        send_status(a, a->link, i);
    PUMP(w, a->messages == COUNT);
    assert_int_equal(b->messages, COUNT);
    assert_true(a->in_order && b->in_order);
}

static void check_text(struct node *n, van_link link, struct van_message *m)
{
    (void)link;
    const struct msg_error *e = &m->m->error;
    assert_int_equal(m->type, MSG_ERROR);
    assert_int_equal(m->request, 0x123456789abcdef0u);
    assert_int_equal(e->code, -7);
    assert_int_equal(e->what.n, 5);
    assert_memory_equal(e->what.data, "hello", 5);
    assert_null(m->body);
    assert_int_equal(m->body_bytes, 0);
    assert_null(van_keep(n->v, m)); // returns NULL: the message has no body
}

static void texts(struct vans *w)
{
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    char text[] = "hello";
    struct msg_error e = {.code = -7, .what = wire_text(text)};
    b->on_message = check_text;
    assert_int_equal(van_send(a->v, a->link, MSG_ERROR, 0x123456789abcdef0, &e, NULL), 0);
    memset(text, 'x', sizeof(text)); // the van must have copied the text
    PUMP(w, b->messages == 1);
}

static void check_bulk(struct node *n, van_link link, struct van_message *m)
{
    (void)link;
    const struct bulk *b = n->data;
    assert_false(m->placed);
    assert_true(m->body_bytes >= b->n_keys + b->n_values);
    bulk_check(&m->m->push, b->n_keys, b->n_values, m->request);
}

// Without a release, the van copies a body. With a release, the van calls it when the van
// no longer needs the memory.
static void small_bodies(struct vans *w)
{
    enum { COUNT = 100 };
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    struct bulk bulk = {.n_keys = 13, .n_values = 4099};
    b->on_message = check_bulk;
    b->data = &bulk;
    for (uint64_t i = 1; i <= COUNT; i++) {
        struct bulk mine;
        bulk_open(&mine, bulk.n_keys, bulk.n_values, i);
        struct msg_push m = bulk_push(&mine);
        assert_int_equal(van_send(a->v, a->link, MSG_PUSH, i, &m, NULL), 0);
        memset(mine.bytes, 0, bulk.n_keys + bulk.n_values);
        mem_free(mine.bytes);
    }
    PUMP(w, b->messages == COUNT);
    assert_int_equal(b->places, COUNT);
}

static void big_bodies(struct vans *w)
{
    enum { COUNT = 4, VALUES = (SANITIZED ? 2 << 20 : 16 << 20) + 3 };
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    struct bulk bulk[COUNT];
    unsigned released = 0;
    const struct van_release release = {count_release, &released};
    b->on_message = check_bulk;
    b->data = &bulk[0];
    for (uint64_t i = 0; i < COUNT; i++) {
        bulk_open(&bulk[i], 8008, VALUES, i + 1);
        struct msg_push m = bulk_push(&bulk[i]);
        assert_int_equal(van_send(a->v, a->link, MSG_PUSH, i + 1, &m, &release), 0);
    }
    assert_true(SANITIZED || van_queued(a->v, a->link) > 0);
    PUMP(w, b->messages == COUNT && released == COUNT);
    assert_int_equal(van_queued(a->v, a->link), 0);
    vans_settle(w);
    assert_int_equal(released, COUNT);
    assert_true(b->in_order);
    for (int i = 0; i < COUNT; i++)
        mem_free(bulk[i].bytes);
}

static void check_placed(struct node *n, van_link link, struct van_message *m)
{
    (void)link;
    const struct bulk *b = n->data;
    if (m->type == MSG_STATUS) { // the message has no body, so nothing is placed
        assert_null(m->body);
        return;
    }
    assert_true(m->placed);
    assert_ptr_equal(m->body, n->place);
    assert_ptr_equal(m->m->push.keys.data, n->place);
    // Returns NULL: a placed body is not in the van's memory.
    assert_null(van_keep(n->v, m));
    bulk_check(&m->m->push, b->n_keys, b->n_values, m->request);
}

static void placed_bodies(struct vans *w)
{
    enum { COUNT = 20, VALUES = 100001 };
    static uint64_t room[(24 + VALUES + 8) / 8];
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    struct bulk bulk = {.n_keys = 24, .n_values = VALUES};
    b->place = room;
    b->on_message = check_placed;
    b->data = &bulk;
    for (uint64_t i = 1; i <= COUNT; i++) {
        bulk_open(&bulk, 24, VALUES, i);
        struct msg_push m = bulk_push(&bulk);
        assert_int_equal(van_send(a->v, a->link, MSG_PUSH, i, &m, NULL), 0);
        send_status(a, a->link, i);
        mem_free(bulk.bytes);
    }
    PUMP(w, b->messages == 2 * COUNT);
    assert_int_equal(b->places, COUNT);
}

// Kept bodies, and the messages that point into them.
struct kept {
    void *handle[64];
    struct msg_push m[64];
    unsigned n;
};

static void keep_body(struct node *n, van_link link, struct van_message *m)
{
    struct kept *k = n->data;
    (void)link;
    k->m[k->n] = m->m->push;
    k->handle[k->n] = van_keep(n->v, m);
    assert_non_null(k->handle[k->n++]);
}

static void kept_bodies(struct vans *w)
{
    enum { COUNT = 64 };
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    struct kept kept = {.n = 0};
    b->on_message = keep_body;
    b->data = &kept;
    for (uint64_t i = 0; i < COUNT; i++) {
        struct bulk bulk;
        bulk_open(&bulk, 8, i * i * 7, i);
        struct msg_push m = bulk_push(&bulk);
        assert_int_equal(van_send(a->v, a->link, MSG_PUSH, i, &m, NULL), 0);
        mem_free(bulk.bytes);
    }
    PUMP(w, kept.n == COUNT);
    van_close_link(a->v, a->link); // kept bodies stay valid after the link is closed
    PUMP(w, b->closed == 1);
    for (uint64_t i = 0; i < COUNT; i++) {
        bulk_check(&kept.m[i], 8, i * i * 7, i);
        van_unkeep(b->v, kept.handle[i]);
    }
}

static void released_once(struct vans *w)
{
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    unsigned released = 0, sent = 0;
    const struct van_release release = {count_release, &released};
    struct bulk bulk;
    bulk_open(&bulk, 8, 1 << 20, 1);
    struct msg_push m = bulk_push(&bulk), wide = m;
    wide.values.n = WIRE_SPAN_MAX + 1;
    assert_int_equal(van_send(a->v, a->link, MSG_PUSH, 1, &wide, &release), TUG_EUSAGE);
    assert_int_equal(released, 1);
    assert_int_equal(van_send(a->v, 12345, MSG_PUSH, 1, &m, &release), TUG_EIO);
    assert_int_equal(released, 2);
    van_link early = van_connect(a->v, b->address, PATIENCE);
    assert_int_equal(van_send(a->v, early, MSG_PUSH, 1, &m, &release), TUG_EIO);
    assert_int_equal(released, 3);
    PUMP(w, a->opened == 2 && b->opened == 2);
    vans_greet(a, early, b);
    for (sent = 3; sent < 6; sent++) // messages that arrive
        assert_int_equal(van_send(a->v, early, MSG_PUSH, 1, &m, &release), 0);
    PUMP(w, b->messages == 3 && released == sent);
    for (; sent < 16; sent++) // messages that are not read before the link is closed
        assert_int_equal(van_send(a->v, early, MSG_PUSH, 1, &m, &release), 0);
    vans_close(b);
    PUMP(w, a->closed == 2);
    PUMP(w, released == sent);
    assert_int_equal(van_send(a->v, early, MSG_PUSH, 1, &m, &release), TUG_EIO);
    assert_int_equal(released, ++sent);
    mem_free(bulk.bytes);
}

// Freeing a van releases the memory of messages that still wait to be sent.
static void released_by_free(struct vans *w)
{
    vans_open_pair(w);
    struct node *a = &w->nodes[0];
    unsigned released = 0;
    const struct van_release release = {count_release, &released};
    struct bulk bulk;
    bulk_open(&bulk, 8, 4 << 20, 1);
    struct msg_push m = bulk_push(&bulk);
    for (int i = 0; i < 4; i++)
        assert_int_equal(van_send(a->v, a->link, MSG_PUSH, 1, &m, &release), 0);
    vans_close(a);
    assert_int_equal(released, 4);
    mem_free(bulk.bytes);
}

static void many_links(struct vans *w)
{
    enum { COUNT = LINKS };
    struct node *a = vans_open(w, 0), *b = vans_open(w, 1);
    vans_listen_anywhere(b);
    b->on_message = echo;
    for (int i = 0; i < COUNT; i++)
        assert_int_not_equal(van_connect(a->v, b->address, PATIENCE), 0);
    PUMP(w, a->opened == COUNT && b->opened == COUNT);
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < i; k++)
            assert_int_not_equal(a->links[i], a->links[k]);
        send_status(a, a->links[i], 1);
    }
    PUMP(w, a->messages == COUNT);
    for (int i = 0; i < COUNT; i += 2)
        van_close_link(a->v, a->links[i]);
    PUMP(w, b->closed == COUNT / 2);
    for (int i = 1; i < COUNT; i += 2)
        send_status(a, a->links[i], 2);
    PUMP(w, a->messages == COUNT + COUNT / 2);
    assert_int_equal(a->closed, 0);
    van_link next = van_connect(a->v, b->address, PATIENCE);
    for (int i = 0; i < COUNT; i++)
        assert_int_not_equal(next, a->links[i]);
}

static void three_vans(struct vans *w)
{
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1], *c = vans_open(w, 2);
    vans_listen_anywhere(c);
    van_connect(a->v, c->address, PATIENCE);
    van_connect(b->v, c->address, PATIENCE);
    PUMP(w, c->opened == 2 && a->opened == 2 && b->opened == 2);
    c->on_message = echo;
    send_status(a, a->links[1], 1);
    send_status(b, b->links[1], 1);
    PUMP(w, a->messages == 1 && b->messages == 1);
    assert_int_equal(c->messages, 2);
    vans_close(c);
    PUMP(w, a->closed == 1 && b->closed == 1);
    assert_int_equal(a->closed_link, a->links[1]);
    b->on_message = echo;
    send_status(a, a->links[0], 2);
    PUMP(w, a->messages == 2);
}

// A van may have links to itself.
static void own_address(struct vans *w)
{
    struct node *a = vans_open(w, 0);
    vans_listen_anywhere(a);
    van_link link = van_connect(a->v, a->address, PATIENCE);
    PUMP(w, a->opened == 2);
    assert_int_equal(a->accepted, 1);
    for (uint64_t i = 1; i <= 10; i++)
        send_status(a, link, i);
    PUMP(w, a->messages == 10);
    van_close_link(a->v, link);
    PUMP(w, a->closed == 1);
    assert_int_not_equal(a->closed_link, link);
}

static void closed_links(struct vans *w)
{
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    van_link link = a->link;
    van_close_link(a->v, 0); // does nothing, as 0 is not a link
    van_close_link(a->v, link);
    van_close_link(a->v, link);
    assert_int_equal(van_send(a->v, link, MSG_STATUS, 1, &(struct msg_status){}, NULL),
                     TUG_EIO);
    assert_int_equal(van_send(a->v, 0, MSG_STATUS, 1, &(struct msg_status){}, NULL),
                     TUG_EIO);
    assert_int_equal(van_queued(a->v, 0), 0);
    PUMP(w, b->closed == 1);
    assert_int_equal(b->closed_link, b->link);
    assert_int_equal(b->why.code, 0);
    assert_int_equal(van_send(b->v, b->link, MSG_STATUS, 1, &(struct msg_status){}, NULL),
                     TUG_EIO);
    vans_settle(w);
    assert_int_equal(a->closed, 0); // `closed` is not called after van_close_link
    assert_int_equal(a->messages + b->messages, 0);
}

static void closing_flushes(struct vans *w)
{
    enum { COUNT = 100 };
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    struct bulk bulk;
    unsigned released = 0;
    const struct van_release release = {count_release, &released};
    bulk_open(&bulk, 8, 16 << 10, 1);
    struct msg_push m = bulk_push(&bulk);
    for (uint64_t i = 1; i <= COUNT; i++)
        assert_int_equal(van_send(a->v, a->link, MSG_PUSH, i, &m, &release), 0);
    van_close_link(a->v, a->link);
    PUMP(w, b->closed == 1);
    assert_int_equal(b->messages, COUNT);
    assert_true(b->in_order);
    assert_int_equal(b->why.code, 0);
    PUMP(w, released == COUNT);
    mem_free(bulk.bytes);
}

static void freeing_closes(struct vans *w)
{
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    vans_close(b);
    PUMP(w, a->closed == 1);
    assert_int_equal(a->closed_link, a->link);
    assert_int_equal(a->why.code, 0);
    assert_true(a->why.text[0] != '\0');
}

// Gets an address for this kind of van at which no van listens.
static void nobodys_address(struct vans *w, char ret[VAN_ADDRESS_MAX])
{
    struct node *n = vans_open(w, 2);
    vans_listen_anywhere(n);
    memcpy(ret, n->address, VAN_ADDRESS_MAX);
    vans_close(n);
}

static void connect_to_nobody(struct vans *w)
{
    char address[VAN_ADDRESS_MAX];
    struct node *a = vans_open(w, 0);
    nobodys_address(w, address);
    uint64_t begin = van_now(a->v);
    van_link link = van_connect(a->v, address, 50 * MS);
    assert_int_not_equal(link, 0);
    PUMP(w, a->closed == 1);
    assert_in_range(van_now(a->v) - begin, 50 * MS, 60 * SECOND);
    assert_int_equal(a->closed_link, link);
    assert_int_equal(a->why.code, TUG_EIO);
    assert_non_null(strstr(a->why.text, address));
    vans_settle(w);
    assert_int_equal(a->closed, 1);
    assert_int_equal(a->opened, 0);
}

static void given_up_connects(struct vans *w)
{
    char address[VAN_ADDRESS_MAX];
    struct node *a = vans_open(w, 0), *b = vans_open(w, 1);
    nobodys_address(w, address);
    vans_listen_anywhere(b);
    van_link first = van_connect(a->v, address, 50 * MS);
    van_link second = van_connect(a->v, b->address, PATIENCE);
    van_close_link(a->v, first); // closes the link before the van was polled
    van_close_link(a->v, second);
    van_connect(a->v, b->address, PATIENCE);
    PUMP(w, a->opened == 1 && b->opened > 0);
    vans_settle(w);
    assert_int_equal(a->opened, 1);
    assert_int_equal(a->closed, 0);
    assert_int_equal(b->opened - b->closed, 1);
}

static void connect_before_listen(struct vans *w)
{
    char address[VAN_ADDRESS_MAX];
    struct node *a = vans_open(w, 0), *b;
    nobodys_address(w, address);
    van_connect(a->v, address, PATIENCE);
    vans_settle(w);
    b = vans_open(w, 1);
    vans_listen(b, address);
    PUMP(w, a->opened == 1 && b->accepted == 1);
    assert_int_equal(a->closed, 0);
}

static void bad_addresses(struct vans *w)
{
    struct node *a = vans_open(w, 0), *b = vans_open(w, 1);
    char ret[VAN_ADDRESS_MAX], longest[2 * VAN_ADDRESS_MAX];
    struct err e = {0};
    assert_int_equal(van_listen(a->v, "carrier-pigeon://nest", ret, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "carrier-pigeon://nest"));
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(van_listen(a->v, longest, ret, &e), TUG_EUSAGE);
    vans_listen_anywhere(a);
    e.text[0] = '\0';
    assert_int_equal(van_listen(b->v, a->address, ret, &e), TUG_EIO);
    assert_non_null(strstr(e.text, a->address));
    assert_int_not_equal(van_connect(b->v, "carrier-pigeon://nest", 20 * MS), 0);
    assert_int_not_equal(van_connect(b->v, longest, 20 * MS), 0);
    PUMP(w, b->closed == 2);
    assert_true(b->why.code == TUG_EIO || b->why.code == TUG_EUSAGE);
    assert_true(b->why.text[0] != '\0');
}

static void ticks(struct vans *w)
{
    struct err e;
    struct node *a = vans_open(w, 0);
    PUMP(w, a->ticks >= 1);
    uint64_t due = van_now(a->v) + 20 * MS;
    a->tick_at = due;
    van_wake(a->v);
    PUMP(w, a->ticks >= 2);
    if (w->kind->simulated) {
        while (a->ticked_at < due)
            assert_true(sim_step(w->sim, VAN_NEVER));
        assert_int_equal(a->ticked_at, due);
        return;
    }
    while (a->ticked_at < due)
        // The poll ends at the time that the handler's tick has returned.
        assert_int_equal(van_poll(a->v, VAN_NEVER, &e), 0);
    assert_in_range(a->ticked_at, due, due + PATIENCE);
    uint64_t until = van_now(a->v) + 5 * MS;
    while (van_now(a->v) < until)
        assert_int_equal(van_poll(a->v, until, &e), 0);
}

static void *wake(void *arg)
{
    van_wake(arg);
    return NULL;
}

// If the wake-up were lost, the poll would not return.
static void woken_from_a_thread(struct vans *w)
{
    struct err e;
    struct node *a = vans_open(w, 0);
    PUMP(w, a->ticks >= 1);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, wake, a->v), 0);
        assert_int_equal(van_poll(a->v, VAN_NEVER, &e), 0);
        pthread_join(thread, NULL);
    }
}

static void many_small_messages(struct vans *w)
{
    enum { COUNT = SANITIZED ? 20000 : 100000 };
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    for (uint64_t i = 1; i <= COUNT; i++)
        send_status(a, a->link, i);
    PUMP(w, b->messages == COUNT);
    PUMP(w, van_queued(a->v, a->link) == 0);
    assert_true(b->in_order);
}

static void count_down(struct node *n, van_link link, struct van_message *m)
{
    if (m->request < 1000)
        send_status(n, link, m->request + 1);
}

static void begin_count(struct node *n, van_link link, bool accepted)
{
    if (!accepted)
        send_status(n, link, 1);
}

static void messages_from_handlers(struct vans *w)
{
    struct node *a = vans_open(w, 0), *b = vans_open(w, 1);
    vans_listen_anywhere(b);
    a->on_opened = b->on_opened = begin_count;
    a->on_message = b->on_message = count_down;
    van_connect(a->v, b->address, PATIENCE);
    PUMP(w, a->last == 1000 || b->last == 1000);
    assert_int_equal(a->messages + b->messages, 1000);
}

static void close_third(struct node *n, van_link link, struct van_message *m)
{
    if (n->messages != 3)
        return;
    const char *peer = van_peer(n->v, link);
    van_close_link(n->v, link);
    // The message and the peer's address stay valid until the handler has returned.
    assert_memory_equal(m->m->error.what.data, "bye", 3);
    assert_true(peer[0] != '\0');
}

static void closing_in_a_handler(struct vans *w)
{
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    const struct msg_error bye = {.what = wire_text("bye")};
    b->on_message = close_third;
    for (uint64_t i = 1; i <= 100; i++)
        assert_int_equal(van_send(a->v, a->link, MSG_ERROR, i, &bye, NULL), 0);
    PUMP(w, a->closed == 1);
    vans_settle(w);
    assert_int_equal(b->messages, 3);
    assert_int_equal(b->closed, 0);
    assert_int_equal(a->closed, 1);
}

// A thread that polls its van until all messages of both directions have arrived.
struct talker {
    struct node *n;
    uint64_t to_send, sent, bytes;
    atomic_bool *failed;
};

static void *talk(void *arg)
{
    struct talker *t = arg;
    struct node *n = t->n;
    struct bulk bulk;
    struct err e;
    uint64_t give_up = clock_ns() + PATIENCE;
    bulk_open(&bulk, 8, t->bytes, 1);
    struct msg_push m = bulk_push(&bulk);
    while ((t->sent < t->to_send || n->messages < t->to_send) && !*t->failed) {
        if (n->link != 0 && t->sent < t->to_send && van_queued(n->v, n->link) < 1 << 20) {
            if (van_send(n->v, n->link, MSG_PUSH, ++t->sent, &m, NULL) != 0)
                *t->failed = true;
            if (t->sent % 4 != 0)
                continue;
        }
        if (van_poll(n->v, van_now(n->v) + MS, &e) != 0 || clock_ns() > give_up)
            *t->failed = true;
    }
    van_close_link(n->v, n->link); // the last messages are still sent after this
    while (!*t->failed && van_queued(n->v, n->link) > 0)
        van_poll(n->v, van_now(n->v) + MS, &e);
    mem_free(bulk.bytes);
    return NULL;
}

static void both_ways_at_once(struct vans *w)
{
    enum { COUNT = SANITIZED ? 500 : 2000 };
    vans_open_pair(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    atomic_bool failed = false;
    struct talker ta = {a, COUNT, 0, 20000, &failed}, tb = {b, COUNT, 0, 3001, &failed};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, talk, &ta), 0);
    talk(&tb);
    pthread_join(thread, NULL);
    assert_false(failed);
    assert_int_equal(a->messages, COUNT);
    assert_int_equal(b->messages, COUNT);
    assert_true(a->in_order && b->in_order);
}

static int no_callbacks_open(struct vans *w, struct node *n, struct van **ret)
{
    const struct van_handler h = {n, NULL, node_message, NULL, NULL, node_tick, NULL};
    *n = (struct node){.w = w, .in_order = true};
    return w->kind->open_van(w, "c", &h, ret, NULL);
}

static void handlers_may_be_missing(struct vans *w)
{
    vans_open_pair(w);
    struct node *b = &w->nodes[1], *c = &w->nodes[2];
    struct bulk bulk;
    assert_int_equal(no_callbacks_open(w, c, &c->v), 0);
    bulk_open(&bulk, 8, 1000, 1);
    struct msg_push m = bulk_push(&bulk);
    van_link link = van_connect(c->v, b->address, PATIENCE);
    PUMP(w, b->opened == 2);
    PUMP(w, van_send(c->v, link, MSG_PUSH, 1, &m, NULL) == 0);
    assert_int_equal(van_send(b->v, b->link, MSG_PUSH, 1, &m, NULL), 0);
    PUMP(w, c->messages == 1 && b->messages == 1);
    van_close_link(b->v, b->link);
    vans_settle(w);
    assert_int_equal(van_send(c->v, link, MSG_PUSH, 1, &m, NULL), TUG_EIO);
    mem_free(bulk.bytes);
}

// A short exchange of messages in which any allocation may fail; it must end, with or
// without an error.
static void converse(struct vans *w)
{
    struct err e;
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    char address[VAN_ADDRESS_MAX];
    vans_new_address(w, address);
    if (vans_try_open(w, 0, &e) != 0 || vans_try_open(w, 1, &e) != 0 ||
        van_listen(b->v, address, b->address, &e) != 0 ||
        van_connect(a->v, b->address, PATIENCE) == 0)
        return;
    uint64_t give_up = clock_ns() + PATIENCE;
    while ((a->opened == 0 || b->opened == 0) && a->closed == 0 && clock_ns() < give_up)
        vans_step(w);
    if (a->closed > 0 || b->closed > 0)
        return;
    unsigned released = 0, sent = 0;
    const struct van_release release = {count_release, &released};
    uint64_t values[512] = {0};
    struct msg_pulled m = {.values = {values, sizeof(values)}};
    for (uint64_t i = 1; i <= 3; i++)
        sent += van_send(a->v, a->link, MSG_PULLED, i, &m, &release) == 0;
    van_close_link(a->v, a->link);
    while (b->closed == 0 && clock_ns() < give_up)
        vans_step(w);
    assert_int_equal(b->closed, 1);
    assert_true(b->messages == sent || mem_faulted());
    assert_int_equal(released, 3);
}

static void failed_allocations(struct vans *w)
{
    size_t live = mem_live();
    bool faulted = true;
    for (long n = 0; faulted; n++) {
        assert_in_range(n, 0, 1000);
        mem_fault_after(n);
        converse(w);
        faulted = mem_faulted();
        mem_fault_after(-1);
        vans_close(&w->nodes[0]);
        vans_close(&w->nodes[1]);
        // The memory of the simulated network's queue is not freed here.
        if (!w->kind->simulated)
            assert_int_equal(mem_live(), live);
    }
}

struct check {
    const char *name;
    void (*run)(struct vans *w);
    enum { ANYWHERE, THREADS } where; // a simulation has no threads
};

static const struct check checks[] = {
    {"open and accept", open_and_accept, ANYWHERE},
    {"time goes on", time_goes_on, ANYWHERE},
    {"order and echo", order_and_echo, ANYWHERE},
    {"texts", texts, ANYWHERE},
    {"small bodies", small_bodies, ANYWHERE},
    {"big bodies", big_bodies, ANYWHERE},
    {"placed bodies", placed_bodies, ANYWHERE},
    {"kept bodies", kept_bodies, ANYWHERE},
    {"released once", released_once, ANYWHERE},
    {"released by free", released_by_free, ANYWHERE},
    {"many links", many_links, ANYWHERE},
    {"three vans", three_vans, ANYWHERE},
    {"own address", own_address, ANYWHERE},
    {"closed links", closed_links, ANYWHERE},
    {"closing flushes", closing_flushes, ANYWHERE},
    {"freeing closes", freeing_closes, ANYWHERE},
    {"connect to nobody", connect_to_nobody, ANYWHERE},
    {"given up connects", given_up_connects, ANYWHERE},
    {"connect before listen", connect_before_listen, ANYWHERE},
    {"bad addresses", bad_addresses, ANYWHERE},
    {"ticks", ticks, ANYWHERE},
    {"woken from a thread", woken_from_a_thread, THREADS},
    {"many small messages", many_small_messages, ANYWHERE},
    {"messages from handlers", messages_from_handlers, ANYWHERE},
    {"closing in a handler", closing_in_a_handler, ANYWHERE},
    {"both ways at once", both_ways_at_once, THREADS},
    {"handlers may be missing", handlers_may_be_missing, ANYWHERE},
    {"failed allocations", failed_allocations, ANYWHERE},
};

// A check of one kind of van, in the form that cmocka needs.
struct subject {
    const struct vans_kind *kind;
    const struct check *check;
    char name[64];
};

static void run_check(void **state)
{
    const struct subject *s = *state;
    static struct vans w;
    const struct sim_options quiet = {.seed = 1, .delay_min = MS / 10, .delay_max = MS};
    size_t live = mem_live();
    w = (struct vans){.kind = s->kind};
    if (s->kind->simulated)
        assert_int_equal(sim_open(&w.sim, &quiet, NULL), 0);
    if (s->kind->tls)
        vans_open_keys(&w);
    s->check->run(&w);
    for (int i = 0; i < NODES; i++)
        vans_close(&w.nodes[i]);
    sim_close(w.sim);
    vans_close_keys(&w);
    assert_int_equal(mem_live(), live);
}

// An argument such as "tcp*" selects checks by name.
int main(int argc, char **argv)
{
    enum {
        N_KINDS = sizeof(vans_kinds) / sizeof(*vans_kinds),
        N_CHECKS = sizeof(checks) / sizeof(*checks)
    };
    static struct subject subjects[N_KINDS * N_CHECKS];
    static struct CMUnitTest tests[N_KINDS * N_CHECKS];
    size_t n = 0;
    for (size_t i = 0; i < N_KINDS * N_CHECKS; i++) {
        struct subject *s = &subjects[i];
        s->kind = &vans_kinds[i / N_CHECKS];
        s->check = &checks[i % N_CHECKS];
        if (s->kind->simulated && s->check->where == THREADS)
            continue;
        snprintf(s->name, sizeof(s->name), "%s: %s", s->kind->name, s->check->name);
        tests[n++] = (struct CMUnitTest){s->name, run_check, NULL, NULL, s};
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("van", tests, n, NULL, NULL);
}
