// Tests the watch for silent links: links that are open but dead, links to loops that are
// only busy, and links of clients that wait for nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/fake_servers.h"
#include "kit/test.h"

static float values[KEYS * WIDTH];
static unsigned pings;

static bool count_pings(struct server *s, van_link link, const struct van_message *m)
{
    (void)s, (void)link;
    pings += m->type == MSG_PING;
    return false;
}

// The link dies after a push has arrived, so that the push is applied and its answer is
// lost.
static bool die_once(struct server *s, van_link link, const struct van_message *m)
{
    if (m->type == MSG_PUSH) {
        sim_silence(s->cluster->sim, s->van, link);
        s->answers = NULL;
    }
    return false;
}

// Answers every request except pulls.
static bool hold_pulls(struct server *s, van_link link, const struct van_message *m)
{
    (void)s, (void)link;
    return m->type == MSG_PULL;
}

// Opens a cluster without resending, as with tcp: a message is sent once on a link.
static struct cluster *open_cluster(uint32_t servers)
{
    struct client_options o = fake_usual();
    o.resend_ns = 0;
    struct cluster *c = fake_open(servers, 21, &o);
    for (uint32_t i = 0; i < servers; i++)
        c->servers[i].answers = count_pings;
    pings = 0;
    return c;
}

static client_ts push_ones(struct cluster *c)
{
    struct err e = {0};
    for (size_t i = 0; i < KEYS * WIDTH; i++)
        values[i] = 1;
    struct client_push p = {.table = TABLE,
                            .keys = c->keys,
                            .n = KEYS,
                            .values = values,
                            .op = WIRE_GRADIENT,
                            .rate = 1,
                            .pass = 1,
                            .examples = 1};
    client_ts ts = client_push(c->client, &p, &e);
    assert_int_not_equal(ts, 0);
    return ts;
}

static client_ts pull_all(struct cluster *c)
{
    struct err e = {0};
    struct client_pull p = {.table = TABLE, .keys = c->keys, .n = KEYS, .values = values};
    client_ts ts = client_pull(c->client, &p, &e);
    assert_int_not_equal(ts, 0);
    return ts;
}

static void run(struct cluster *c, uint64_t ns)
{
    uint64_t until = sim_now(c->sim) + ns;
    while (sim_step(c->sim, until)) {
    }
}

static void step_soon(struct cluster *c)
{
    fake_step(c, MS);
    assert_true(sim_now(c->sim) < 60000 * MS);
}

static void assert_rows(const struct cluster *c, float x)
{
    for (size_t i = 0; i < KEYS; i++)
        for (size_t k = 0; k < WIDTH; k++)
            assert_true(c->rows[i][k] == x);
}

static void silence(struct cluster *c, size_t peer)
{
    sim_silence(c->sim, c->van, c->client->peers[peer]->s.link);
}

// One of three links dies, before a push or after the push was applied. The link is
// replaced within 12 s, and each push is applied once.
static void test_replaced(void **state)
{
    (void)state;
    for (int when = 0; when < 2; when++) {
        struct cluster *c = open_cluster(3);
        struct err e = {0};
        assert_int_equal(fake_wait(c, push_ones(c), &e), 0); // opens all links
        if (when == 0)
            silence(c, 1);
        else
            c->servers[1].answers = die_once;
        client_ts ts = push_ones(c);
        uint64_t began = sim_now(c->sim);
        int rc = fake_wait(c, ts, &e);
        if (rc != 0)
            fail_msg("%s", e.text);
        assert_in_range(sim_now(c->sim) - began, 9000 * MS, 12000 * MS);
        assert_int_equal(client_stats(c->client).silent, 1);
        assert_rows(c, 2);
        assert_int_equal(fake_wait(c, pull_all(c), &e), 0);
        assert_true(values[0] == 2);
        fake_close(c);
    }
}

// The second link is also silent; the client tries more links until one works.
static void test_replaced_again(void **state)
{
    (void)state;
    struct cluster *c = open_cluster(1);
    struct err e = {0};
    assert_int_equal(fake_wait(c, push_ones(c), &e), 0);
    struct peer *p = c->client->peers[0];
    silence(c, 0);
    client_ts ts = push_ones(c);
    while (p->silence.another.link == 0)
        step_soon(c);
    sim_silence(c->sim, c->van, p->silence.another.link);
    assert_int_equal(fake_wait(c, ts, &e), 0);
    assert_int_equal(client_stats(c->client).silent, 1);
    assert_rows(c, 2);
    fake_close(c);
}

// Another process listens at the server's port. The peer sends a greeting that is not a
// server's, and answers to requests that it never received. The client opens a second
// link because the first is silent, and gets the same there.
static unsigned frauds;

static bool be_another(struct server *s, van_link link, const struct van_message *m)
{
    struct cluster *c = s->cluster;
    struct msg_welcome w = {.role = WIRE_WORKER, .node = 11};
    if (m->type != MSG_HELLO)
        return true;
    frauds++;
    for (size_t i = 0; i < c->client->n_slices; i++)
        if (c->client->slices[i]->id != 0)
            van_send(s->van, link, MSG_OK, c->client->slices[i]->id, &(struct msg_ok){0},
                     NULL);
    van_send(s->van, link, MSG_WELCOME, 0, &w, NULL);
    return true;
}

static void test_another_process_at_the_port(void **state)
{
    (void)state;
    for (int when = 0; when < 2; when++) {
        struct cluster *c = open_cluster(1);
        struct err e = {0};
        int rc;
        frauds = 0;
        assert_int_equal(fake_wait(c, push_ones(c), &e), 0);
        if (when == 0)
            peer_break(c->client->peers[0], &e, sim_now(c->sim));
        else
            silence(c, 0);
        c->servers[0].answers = be_another;
        client_ts ts = push_ones(c);
        while (frauds < 3)
            step_soon(c);
        assert_false(client_done(c->client, ts, &rc, &e));
        assert_int_equal(client_stats(c->client).silent, 0);
        c->servers[0].answers = NULL;
        assert_int_equal(fake_wait(c, ts, &e), 0);
        assert_rows(c, 2);
        fake_close(c);
    }
}

// If a loop is busy, or its process is stopped, all links to it are silent. Then nothing
// is sent again, and the requests continue when the loop answers.
static void test_busy(void **state)
{
    (void)state;
    struct cluster *c = open_cluster(1);
    struct err e = {0};
    assert_int_equal(fake_wait(c, push_ones(c), &e), 0);
    struct client_stats before = client_stats(c->client);
    sim_partition(c->sim, c->van, c->servers[0].van, true);
    client_ts ts = push_ones(c);
    run(c, 40000 * MS);
    assert_int_equal(client_stats(c->client).silent, 0);
    assert_int_equal(client_stats(c->client).resent, before.resent);
    sim_partition(c->sim, c->van, c->servers[0].van, false);
    assert_int_equal(fake_wait(c, ts, &e), 0);
    assert_rows(c, 2);
    assert_int_equal(fake_wait(c, pull_all(c), &e), 0);
    fake_close(c);
}

static bool mute_once(struct server *s, van_link link, const struct van_message *m)
{
    if (m->type == MSG_PUSH) {
        sim_mute(s->cluster->sim, s->van, link);
        s->answers = NULL;
    }
    return false;
}

// A link takes the client's messages but brings no answers. The client sends its requests
// again; requests that leave are not a sign of life of the server.
static void test_half_dead(void **state)
{
    (void)state;
    struct client_options o = fake_usual();
    struct err e = {0};
    o.resend_ns = 50 * MS;
    struct cluster *c = fake_open(1, 22, &o);
    c->servers[0].answers = mute_once;
    client_ts ts = push_ones(c);
    run(c, 25000 * MS);
    assert_int_equal(client_stats(c->client).silent, 1);
    assert_int_equal(fake_wait(c, ts, &e), 0);
    assert_rows(c, 1);
    fake_close(c);
}

static const struct van_ops *under;
static uint64_t full_until; // time until which the fake van sends bytes of its queue

static uint64_t slow_queued(const struct van *v, van_link link)
{
    uint64_t now = under->now(v), left = full_until > now ? full_until - now : 0;
    return under->queued(v, link) + left / MS;
}

// While a long message is being sent, the PING after it has to wait, and the client does
// not try a second link.
static void test_long_message(void **state)
{
    (void)state;
    struct cluster *c = open_cluster(1);
    struct err e = {0};
    assert_int_equal(fake_wait(c, push_ones(c), &e), 0);
    under = c->van->ops;
    struct van_ops ops = *under;
    ops.queued = slow_queued;
    c->van->ops = &ops;
    full_until = sim_now(c->sim) + 30000 * MS;
    sim_partition(c->sim, c->van, c->servers[0].van, true);
    client_ts ts = push_ones(c);
    run(c, 30000 * MS);
    assert_int_equal(c->client->peers[0]->silence.tried_at, 0);
    run(c, 20000 * MS);
    assert_int_not_equal(c->client->peers[0]->silence.tried_at, 0);
    sim_partition(c->sim, c->van, c->servers[0].van, false);
    assert_int_equal(fake_wait(c, ts, &e), 0);
    c->van->ops = under;
    fake_close(c);
}

// A pull may wait long for a clock; meanwhile its link answers PING.
static void test_held(void **state)
{
    (void)state;
    struct cluster *c = open_cluster(1);
    struct err e = {0};
    assert_int_equal(fake_wait(c, push_ones(c), &e), 0);
    c->servers[0].answers = hold_pulls;
    client_ts ts = pull_all(c);
    int rc;
    run(c, 50000 * MS);
    assert_false(client_done(c->client, ts, &rc, &e));
    assert_int_equal(client_stats(c->client).silent, 0);
    assert_int_equal(c->client->peers[0]->silence.another.link, 0);
    client_cancel(c->client, ts);
    fake_close(c);
}

// Without a request no message is sent, and a long idle time is not silence.
static void test_idle(void **state)
{
    (void)state;
    struct cluster *c = open_cluster(1);
    struct err e = {0};
    assert_int_equal(fake_wait(c, push_ones(c), &e), 0);
    run(c, 100000 * MS);
    assert_int_equal(fake_wait(c, push_ones(c), &e), 0);
    run(c, 100000 * MS);
    assert_int_equal(fake_wait(c, pull_all(c), &e), 0);
    assert_int_equal(pings, 0);
    assert_int_equal(client_stats(c->client).silent, 0);
    fake_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaced),
        cmocka_unit_test(test_replaced_again),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_half_dead),
        cmocka_unit_test(test_long_message),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_another_process_at_the_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
