// Tests the client in a simulated network with fake servers (the test's own code).
//
// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/fake_servers.h"
#include "kit/test.h"

// A push or pull and its arrays.
struct work {
    uint64_t keys[KEYS];
    uint32_t order[KEYS];
    float values[KEYS * WIDTH];
    size_t n;
    client_ts ts;
};

static void arrange(struct cluster *c, struct work *w)
{
    uint64_t keys[KEYS];
    memcpy(keys, w->keys, w->n * sizeof(*keys));
    assert_int_equal(client_arrange(c->client, TABLE, keys, w->n, w->order), 0);
    for (size_t i = 0; i < w->n; i++)
        w->keys[i] = keys[w->order[i]];
}

static void fill(struct work *w, uint64_t seed, uint64_t draw)
{
    for (size_t i = 0; i < w->n * WIDTH; i++)
        w->values[i] = (float)random_below(seed, 5000 + draw, i, 100);
}

static void add(const struct cluster *c, const struct work *w, float sums[KEYS][WIDTH])
{
    for (size_t i = 0; i < w->n; i++)
        for (int j = 0; j < WIDTH; j++)
            sums[fake_key(c, w->keys[i])][j] += w->values[i * WIDTH + j];
}

static client_ts push(struct cluster *c, struct work *w, bool arranged)
{
    struct client_push p = {.table = TABLE,
                            .keys = w->keys,
                            .n = w->n,
                            .values = w->values,
                            .op = WIRE_GRADIENT,
                            .rate = 1,
                            .pass = 1,
                            .examples = w->n,
                            .arranged = arranged};
    struct err e = {0};
    w->ts = client_push(c->client, &p, &e);
    if (w->ts == 0)
        fail_msg("%s", e.text);
    return w->ts;
}

static client_ts pull(struct cluster *c, struct work *w, bool arranged)
{
    struct client_pull p = {.table = TABLE,
                            .keys = w->keys,
                            .n = w->n,
                            .values = w->values,
                            .arranged = arranged};
    struct err e = {0};
    memset(w->values, 0xff, sizeof(w->values));
    w->ts = client_pull(c->client, &p, &e);
    assert_int_not_equal(w->ts, 0);
    return w->ts;
}

static void check_values(const struct cluster *c, const struct work *w,
                         float sums[KEYS][WIDTH])
{
    for (size_t i = 0; i < w->n; i++)
        assert_memory_equal(w->values + i * WIDTH, sums[fake_key(c, w->keys[i])],
                            WIDTH * sizeof(float));
}

static void pull_all_and_check(struct cluster *c, float sums[KEYS][WIDTH])
{
    struct work w = {.n = KEYS};
    struct err e = {0};
    memcpy(w.keys, c->keys, sizeof(w.keys));
    assert_int_equal(fake_wait(c, pull(c, &w, false), &e), 0);
    check_values(c, &w, sums);
}

enum { MANY = 60 };

// Sums must be exact while messages are lost or delayed, links break and partitions move.
static void run_seed(uint64_t seed)
{
    static float sums[KEYS][WIDTH];
    static struct work work[MANY];
    uint32_t servers = 1 + (uint32_t)(seed % 3);
    struct client_options o = fake_usual();
    struct err e = {0};
    o.cache_keys = seed % 2 == 0;
    o.bf16 = seed % 5 == 4;
    o.pack_keys = seed % 7 < 3;
    struct cluster *c = fake_open(servers, seed, &o);
    memset(sums, 0, sizeof(sums));
    sim_set_faults(c->sim, 0.05, 0.05, 0.1, 0.01);
    for (uint64_t i = 0; i < MANY; i++) {
        struct work *w = &work[i];
        w->n = fake_draw_keys(c, seed, i % 4, w->keys);
        bool arranged = random_below(seed, 1, i, 2);
        if (arranged)
            arrange(c, w);
        if (random_below(seed, 2, i, 3) == 0) {
            pull(c, w, arranged);
        } else {
            fill(w, seed, i);
            push(c, w, arranged);
            add(c, w, sums);
        }
        for (uint64_t k = random_below(seed, 3, i, 30); k > 0; k--)
            fake_step(c, 5 * MS);
        if (random_below(seed, 4, i, 6) == 0)
            fake_move(c, (uint32_t)random_below(seed, 5, i, PARTITIONS),
                      (uint32_t)random_below(seed, 6, i, servers),
                      random_below(seed, 7, i, 2));
    }
    assert_true(fake_run_until(c, fake_is_idle, 60000 * MS));
    int rc = 0;
    for (int i = 0; i < MANY; i++) {
        assert_true(client_done(c->client, work[i].ts, &rc, &e));
        assert_int_equal(rc, 0);
    }
    sim_set_faults(c->sim, 0, 0, 0, 0);
    pull_all_and_check(c, sums);
    assert_int_equal(c->out_of_window, 0);
    assert_int_equal(c->client->main.pushes.low, c->client->main.pushes.next);
    fake_close(c);
}

static void test_sums_are_exact(void **state)
{
    (void)state;
    size_t live = mem_live();
    for (uint64_t seed = 1; seed <= 150; seed++)
        run_seed(seed);
    assert_int_equal(mem_live(), live);
}

// On links that keep the order of messages, a pull sees the pushes before it.
static void test_order(void **state)
{
    (void)state;
    static float sums[KEYS][WIDTH];
    struct client_options o = fake_usual();
    o.resend_ns = 0;
    struct cluster *c = fake_open(3, 11, &o);
    struct err e = {0};
    memset(sums, 0, sizeof(sums));
    for (uint64_t i = 0; i < 100; i++) {
        struct work w, r = {.n = KEYS};
        w.n = fake_draw_keys(c, 11, i, w.keys);
        fill(&w, 11, i);
        add(c, &w, sums);
        push(c, &w, false);
        memcpy(r.keys, c->keys, sizeof(r.keys));
        pull(c, &r, false);
        assert_int_equal(fake_wait(c, r.ts, &e), 0);
        check_values(c, &r, sums);
        assert_int_equal(fake_wait(c, w.ts, &e), 0);
    }
    fake_close(c);
}

static void test_push_pull(void **state)
{
    (void)state;
    static float sums[KEYS][WIDTH];
    struct cluster *c = fake_open(2, 12, NULL);
    struct err e = {0};
    memset(sums, 0, sizeof(sums));
    for (uint64_t i = 0; i < 20; i++) {
        struct work w;
        float pulled[KEYS * WIDTH];
        w.n = fake_draw_keys(c, 12, i, w.keys);
        if (i % 2)
            arrange(c, &w);
        fill(&w, 12, i);
        add(c, &w, sums);
        struct client_push p = {.table = TABLE,
                                .keys = w.keys,
                                .n = w.n,
                                .values = w.values,
                                .pulled = pulled,
                                .arranged = i % 2};
        client_ts ts = client_push(c->client, &p, &e);
        assert_int_equal(fake_wait(c, ts, &e), 0);
        memcpy(w.values, pulled, sizeof(pulled));
        check_values(c, &w, sums);
    }
    fake_close(c);
}

// client_arrange must give a permutation in which the keys of a loop are neighbours, the
// loop of the worker's rank is first, partitions ascend within a loop, and the order
// within a partition is stable.
static void test_arrange(void **state)
{
    (void)state;
    struct cluster *c = fake_open(3, 13, NULL);
    for (uint64_t i = 0; i < 30; i++) {
        uint64_t keys[KEYS];
        uint32_t order[KEYS];
        bool seen[KEYS] = {false}, left[MAX_SERVERS] = {false};
        size_t n = fake_draw_keys(c, 13, i, keys);
        assert_int_equal(client_arrange(c->client, TABLE, keys, n, order), 0);
        for (size_t k = 0; k < n; k++) {
            assert_in_range(order[k], 0, n - 1);
            assert_false(seen[order[k]]);
            seen[order[k]] = true;
            uint32_t p = fake_partition(keys[order[k]]);
            uint32_t s = (c->owners[p] - FIRST_NODE) / 2;
            assert_false(left[s]);
            if (k == 0)
                continue;
            uint32_t before = fake_partition(keys[order[k - 1]]);
            uint32_t server = (c->owners[before] - FIRST_NODE) / 2;
            if (server != s)
                left[server] = true;
            else
                assert_true(before < p || (before == p && order[k - 1] < order[k]));
        }
    }
    assert_int_equal(client_arrange(c->client, TABLE + 1, c->keys, 1, &(uint32_t){0}),
                     TUG_EUSAGE);
    fake_close(c);
}

// Sends more pushes than the window holds to a server that is silent for a while.
static void test_window(void **state)
{
    (void)state;
    static float sums[KEYS][WIDTH];
    static struct work work[3 * SHARD_WINDOW];
    struct cluster *c = fake_open(2, 14, NULL);
    struct err e = {0};
    memset(sums, 0, sizeof(sums));
    c->servers[1].mute = true;
    for (uint64_t i = 0; i < 3 * SHARD_WINDOW; i++) {
        work[i].n = fake_draw_keys(c, 14, i, work[i].keys);
        fill(&work[i], 14, i);
        add(c, &work[i], sums);
        push(c, &work[i], false);
    }
    for (int i = 0; i < 500; i++)
        fake_step(c, 5 * MS);
    assert_int_equal(c->client->main.pushes.next, 1 + SHARD_WINDOW);
    assert_int_equal(client_in_flight(c->client), 3 * SHARD_WINDOW);
    c->servers[1].mute = false;
    for (int i = 0; i < 3 * SHARD_WINDOW; i++)
        assert_int_equal(fake_wait(c, work[i].ts, &e), 0);
    pull_all_and_check(c, sums);
    assert_int_equal(c->out_of_window, 0);
    fake_close(c);
}

enum { AHEAD = TABLE + 1, OTHER_TABLE, HELD = 2 * SHARD_WINDOW };

static bool holds_batches; // the fake servers do not answer pushes to the table AHEAD

static bool hold_batches(struct server *s, van_link link, const struct van_message *m)
{
    const struct msg_push *p = &m->m->push;
    if (m->type != MSG_PUSH || p->table == TABLE)
        return false;
    assert_true(p->number >= p->low && p->number - p->low < SHARD_WINDOW);
    if (p->table != AHEAD || !holds_batches)
        van_send(s->van, link, MSG_OK, m->request, &(struct msg_ok){0}, NULL);
    return true;
}

static client_ts push_batch(struct cluster *c, uint32_t table, uint64_t clock)
{
    static const float zeros[WIDTH];
    struct client_push p = {.table = table,
                            .keys = c->keys,
                            .n = 1,
                            .values = zeros,
                            .clock = clock,
                            .micros = 16};
    struct err e = {0};
    client_ts ts = client_push(c->client, &p, &e);
    assert_int_not_equal(ts, 0);
    return ts;
}

static struct cluster *open_batches(void)
{
    struct cluster *c = fake_open(2, 21, NULL);
    struct err e = {0};
    for (uint32_t t = AHEAD; t <= OTHER_TABLE; t++) {
        struct table_config config = fake_sums();
        snprintf(config.name, sizeof(config.name), "sync%u", t);
        config.mode = CONFIG_SYNC;
        assert_int_equal(fake_wait(c, client_table(c->client, t, &config, &e), &e), 0);
    }
    for (uint32_t i = 0; i < c->n_servers; i++)
        c->servers[i].answers = hold_batches;
    holds_batches = true;
    return c;
}

// Pushes that run ahead of a sync table's batches wait for other workers, which may wait
// for this client's pushes to another sync table. So pushes to one table must not wait
// for pushes to another one.
static void test_tables_do_not_wait_for_each_other(void **state)
{
    (void)state;
    struct cluster *c = open_batches();
    struct err e = {0};
    struct work w = {.n = KEYS};
    memcpy(w.keys, c->keys, sizeof(w.keys));
    client_ts held[HELD];
    for (uint64_t i = 0; i < HELD; i++)
        held[i] = push_batch(c, AHEAD, i);
    for (uint64_t i = 0; i < HELD; i++)
        assert_int_equal(fake_wait(c, push_batch(c, OTHER_TABLE, i), &e), 0);
    assert_int_equal(fake_wait(c, push(c, &w, false), &e), 0);
    assert_int_equal(fake_wait(c, pull(c, &w, false), &e), 0);
    assert_int_equal(client_in_flight(c->client), HELD);
    holds_batches = false;
    for (uint64_t i = 0; i < HELD; i++)
        assert_int_equal(fake_wait(c, held[i], &e), 0);
    fake_close(c);
}

// A mark waits for all earlier pushes to any table, and later pushes wait for the mark.
static void test_mark_waits_for_batches(void **state)
{
    (void)state;
    struct cluster *c = open_batches();
    struct err e = {0};
    int rc;
    client_ts held[HELD], late[2];
    for (uint64_t i = 0; i < HELD; i++)
        held[i] = push_batch(c, AHEAD, i);
    client_ts mark = client_mark(c->client, 1, 0, &e);
    late[0] = push_batch(c, OTHER_TABLE, 0);
    late[1] = push_batch(c, AHEAD, HELD);
    for (int i = 0; i < 500; i++)
        fake_step(c, 5 * MS);
    assert_int_equal(client_in_flight(c->client), HELD + 3);
    holds_batches = false;
    for (uint64_t i = 0; i < HELD; i++)
        assert_int_equal(fake_wait(c, held[i], &e), 0);
    holds_batches = true;
    assert_false(client_done(c->client, late[0], &rc, &e));
    assert_int_equal(fake_wait(c, mark, &e), 0);
    assert_int_equal(fake_wait(c, late[0], &e), 0);
    client_cancel(c->client, late[1]);
    fake_close(c);
}

// A request to a loop that has no room is sent again, and each push is still applied
// once; lists of keys that the loop has dropped are sent again. At the deadline the error
// says that the loop had no room.
static void test_no_room(void **state)
{
    (void)state;
    static float sums[KEYS][WIDTH];
    struct client_options o = fake_usual();
    struct err e = {0};
    o.resend_ns = 0;
    o.cache_keys = true;
    struct cluster *c = fake_open(2, 19, &o);
    memset(sums, 0, sizeof(sums));
    for (uint64_t i = 0; i < 20; i++) {
        struct work w;
        w.n = KEYS;
        memcpy(w.keys, c->keys, sizeof(w.keys));
        fill(&w, 19, i);
        add(c, &w, sums);
        c->servers[i % 2].full = 3;
        assert_int_equal(fake_wait(c, push(c, &w, false), &e), 0);
    }
    pull_all_and_check(c, sums);
    assert_int_equal(client_stats(c->client).no_room, 20 * 3);
    fake_close(c);
    o.request_timeout_ns = 500 * MS;
    c = fake_open(2, 20, &o);
    struct work w = {.n = KEYS};
    memcpy(w.keys, c->keys, sizeof(w.keys));
    fill(&w, 20, 0);
    c->servers[1].full = UINT32_MAX;
    assert_int_equal(fake_wait(c, push(c, &w, false), &e), TUG_EIO);
    assert_non_null(strstr(e.text, "no room"));
    assert_non_null(strstr(e.text, "--memory"));
    fake_close(c);
}

static bool says_no_room(struct server *s, van_link link, const struct van_message *m)
{
    if (m->type == MSG_PUSH)
        fake_refuse(s, link, m->request, TUG_EIO, "no room now, and no reason");
    return m->type == MSG_PUSH;
}

// The client ignores the text of an error: an error without a reason code ends the
// request.
static void test_words_decide_nothing(void **state)
{
    (void)state;
    struct client_options o = fake_usual();
    struct err e = {0};
    struct cluster *c = fake_open(2, 21, &o);
    struct work w = {.n = KEYS};
    memcpy(w.keys, c->keys, sizeof(w.keys));
    fill(&w, 21, 0);
    c->servers[0].answers = says_no_room;
    assert_int_equal(fake_wait(c, push(c, &w, false), &e), TUG_EIO);
    assert_non_null(strstr(e.text, "no room now, and no reason"));
    assert_int_equal(client_stats(c->client).no_room, 0);
    fake_close(c);
}

static void test_examples_are_counted_once(void **state)
{
    (void)state;
    struct client_options o = fake_usual();
    o.resend_ns = 0;
    struct cluster *c = fake_open(3, 15, &o);
    struct err e = {0};
    uint64_t examples = 0;
    for (uint64_t i = 0; i < 20; i++) {
        struct work w;
        w.n = fake_draw_keys(c, 15, i, w.keys);
        fill(&w, 15, i);
        examples += w.n;
        assert_int_equal(fake_wait(c, push(c, &w, false), &e), 0);
    }
    uint64_t counted = 0;
    for (int i = 0; i < 3; i++)
        counted += c->servers[i].examples;
    assert_int_equal(counted, examples);
    fake_close(c);
}

static void test_deadline_names_who_is_silent(void **state)
{
    (void)state;
    struct client_options o = fake_usual();
    o.request_timeout_ns = 500 * MS;
    struct cluster *c = fake_open(2, 16, &o);
    struct err e = {0};
    struct work w = {.n = KEYS}, last;
    memcpy(w.keys, c->keys, sizeof(w.keys));
    fill(&w, 16, 0);
    c->servers[1].mute = true;
    assert_int_equal(fake_wait(c, push(c, &w, false), &e), TUG_EIO);
    assert_non_null(strstr(e.text, "server 1"));
    assert_null(strstr(e.text, "server 0"));
    assert_non_null(strstr(e.text, "push"));
    assert_non_null(strstr(e.text, "sums"));
    assert_int_equal(fake_wait(c, pull(c, &w, false), &e), TUG_EIO);
    assert_non_null(strstr(e.text, "server 1"));
    c->servers[1].mute = false; // the loop answers again
    last = w;
    assert_int_equal(fake_wait(c, pull(c, &last, false), &e), 0);
    assert_int_equal(c->client->main.pushes.low, c->client->main.pushes.next);
    fake_close(c);
}

// If one value for one server is not finite, no server gets any part of the push,
// and the next push works.
static void test_values_that_are_not_finite(void **state)
{
    (void)state;
    static float none[KEYS][WIDTH];
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct client_options o = fake_usual();
        o.bf16 = bf16;
        struct cluster *c = fake_open(3, 31, &o);
        struct work w = {.n = KEYS};
        memcpy(w.keys, c->keys, sizeof(w.keys));
        const float bad[] = {NAN, -INFINITY, FLT_MAX};
        for (size_t i = 0; i < 2 + (size_t)bf16; i++) {
            struct err e = {0};
            fill(&w, 31, i);
            w.values[KEYS / 2 * WIDTH + 1] = bad[i];
            struct client_push p = {.table = TABLE,
                                    .keys = w.keys,
                                    .n = w.n,
                                    .values = w.values,
                                    .op = WIRE_GRADIENT,
                                    .rate = 1,
                                    .pass = 1};
            assert_int_equal(client_push(c->client, &p, &e), 0);
            assert_int_equal(e.code, TUG_EUSAGE);
            char key[32];
            snprintf(key, sizeof(key), "%llu", (unsigned long long)w.keys[KEYS / 2]);
            assert_non_null(strstr(e.text, key));
            assert_non_null(strstr(e.text, "value 1 of"));
            assert_non_null(strstr(e.text, i < 2 ? "not finite" : "bf16"));
            assert_int_equal(client_in_flight(c->client), 0);
        }
        pull_all_and_check(c, none);
        fill(&w, 31, 9);
        struct err e = {0};
        assert_int_equal(fake_wait(c, push(c, &w, false), &e), 0);
        fake_close(c);
    }
}

static void test_errors_of_servers(void **state)
{
    (void)state;
    struct cluster *c = fake_open(2, 17, NULL);
    struct err e = {0};
    struct work w = {.n = KEYS};
    memcpy(w.keys, c->keys, sizeof(w.keys));
    fill(&w, 17, 0);
    c->servers[0].error = "a value is not a number";
    assert_int_equal(fake_wait(c, push(c, &w, false), &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "server 0"));
    assert_non_null(strstr(e.text, "a value is not a number"));
    c->servers[0].error = NULL;
    assert_int_equal(fake_wait(c, push(c, &w, false), &e), 0);
    assert_int_equal(fake_wait(c, 12345, &e), TUG_EUSAGE);
    struct client_pull p = {.table = 1234};
    assert_int_equal(client_pull(c->client, &p, &e), 0);
    assert_int_equal(e.code, TUG_EUSAGE);
    fake_close(c);
}

static void test_lists_of_keys(void **state)
{
    (void)state;
    struct client_options o = fake_usual();
    o.cache_keys = true;
    o.resend_ns = 0;
    struct cluster *c = fake_open(1, 18, &o);
    struct err e = {0};
    struct work w = {.n = KEYS};
    memcpy(w.keys, c->keys, sizeof(w.keys));
    for (int i = 0; i < 5; i++)
        assert_int_equal(fake_wait(c, pull(c, &w, false), &e), 0);
    assert_int_equal(c->servers[0].list_hits, 4);
    c->servers[0].forgetful = true;
    assert_int_equal(fake_wait(c, pull(c, &w, false), &e), 0);
    c->servers[0].forgetful = false;
    assert_int_equal(fake_wait(c, pull(c, &w, false), &e), 0);
    assert_int_equal(c->servers[0].list_hits, 5);
    fake_close(c);
}

// Keys that are small numbers are packed into fewer bytes.
static void test_packed_keys(void **state)
{
    (void)state;
    struct client_options o = fake_usual();
    o.pack_keys = true;
    o.resend_ns = 0;
    struct cluster *c = fake_open(1, 24, &o);
    struct err e = {0};
    struct work w = {.n = KEYS};
    static float sums[KEYS][WIDTH];
    memset(sums, 0, sizeof(sums));
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < KEYS; i++)
            w.keys[i] = c->keys[i] = round == 0 ? c->keys[i] : i;
        memset(c->rows, 0, sizeof(c->rows));
        fill(&w, 24, (uint64_t)round);
        memset(sums, 0, sizeof(sums));
        add(c, &w, sums);
        assert_int_equal(fake_wait(c, push(c, &w, false), &e), 0);
        uint64_t sent = client_stats(c->client).bytes_sent;
        assert_int_equal(fake_wait(c, pull(c, &w, false), &e), 0);
        sent = client_stats(c->client).bytes_sent - sent;
        check_values(c, &w, sums);
        assert_int_equal(c->servers[0].packed, round == 0 ? 0 : 2);
        assert_true(round == 0 ? sent == KEYS * 8 : sent < KEYS * 8 * 2 / 3);
    }
    fake_close(c);
}

struct heard {
    struct client *client;
    int calls, rc;
    struct err e;
};

static void on_done(void *ctx, client_ts ts, int rc)
{
    struct heard *h = ctx;
    int again;
    h->calls++;
    h->rc = rc;
    if (h->calls == 1) // client_done may be called in the callback
        assert_true(client_done(h->client, ts, &again, &h->e));
}

static void test_callbacks_and_cancel(void **state)
{
    (void)state;
    struct cluster *c = fake_open(2, 19, NULL);
    struct err e = {0};
    struct work w = {.n = KEYS};
    struct heard h = {.client = c->client};
    memcpy(w.keys, c->keys, sizeof(w.keys));
    struct client_pull p = {.table = TABLE,
                            .keys = w.keys,
                            .n = w.n,
                            .values = w.values,
                            .done = on_done,
                            .ctx = &h};
    c->servers[0].error = "no";
    assert_int_not_equal(client_pull(c->client, &p, &e), 0);
    assert_true(fake_run_until(c, fake_is_idle, 1000 * MS));
    assert_int_equal(h.calls, 1);
    assert_int_equal(h.rc, TUG_EDATA);
    assert_int_equal(h.e.code, TUG_EDATA);
    c->servers[0].error = NULL;
    assert_int_not_equal(client_pull(c->client, &p, &e), 0);
    assert_true(fake_run_until(c, fake_is_idle, 1000 * MS));
    assert_int_equal(h.calls, 2);
    assert_int_equal(h.rc, 0);
    // The arrays of a cancelled request are never written again.
    client_ts ts = client_pull(c->client, &p, &e);
    for (int i = 0; i < 3; i++)
        fake_step(c, MS);
    client_cancel(c->client, ts);
    memset(w.values, 0, sizeof(w.values));
    for (int i = 0; i < 100; i++)
        fake_step(c, MS);
    for (size_t i = 0; i < KEYS * WIDTH; i++)
        assert_true(w.values[i] == 0);
    assert_int_equal(h.calls, 2);
    assert_int_equal(client_in_flight(c->client), 0);
    client_cancel(c->client, ts); // cancelling twice is fine
    fake_close(c);
}

static void test_requests_to_all_loops(void **state)
{
    (void)state;
    struct cluster *c = fake_open(3, 20, NULL);
    struct err e = {0};
    struct msg_table_is figures;
    struct work w = {.n = KEYS};
    memcpy(w.keys, c->keys, sizeof(w.keys));
    fill(&w, 20, 0);
    sim_set_faults(c->sim, 0, 0, 0, 0);
    assert_int_equal(fake_wait(c, push(c, &w, false), &e), 0);
    client_ts ts = client_stat(c->client, TABLE, &figures, &e);
    assert_int_equal(fake_wait(c, ts, &e), 0);
    assert_int_equal(figures.rows, 30);
    assert_int_equal(figures.pushes, 3);
    assert_int_equal(figures.clock, FIRST_NODE);
    ts = client_tick(c->client, TABLE, 4, &e);
    assert_int_equal(fake_wait(c, ts, &e), 0);
    ts = client_admin(c->client, TABLE, WIRE_CLEAR, 0, &e);
    assert_int_equal(fake_wait(c, ts, &e), 0);
    // A request without keys sends nothing and is done at once.
    w.n = 0;
    assert_int_equal(fake_wait(c, pull(c, &w, true), &e), 0);
    // With all_loops, the pull waits for an answer of each loop.
    struct client_pull p = {.table = TABLE, .all_loops = true};
    assert_int_equal(fake_wait(c, client_pull(c->client, &p, &e), &e), 0);
    int rc;
    c->servers[2].mute = true;
    ts = client_pull(c->client, &p, &e);
    fake_step(c, 500 * MS);
    assert_false(client_done(c->client, ts, &rc, &e));
    c->servers[2].mute = false; // the request is sent again and answered
    assert_int_equal(fake_wait(c, ts, &e), 0);
    fake_close(c);
}

// An answer with flags that this client does not know is refused.
static void test_unknown_flags(void **state)
{
    (void)state;
    struct cluster *c = fake_open(2, 21, NULL);
    struct err e = {0};
    struct work w = {.n = KEYS};
    memcpy(w.keys, c->keys, sizeof(w.keys));
    for (uint32_t bit = 1; bit < 256; bit *= 2) {
        if (bit == WIRE_BF16 || bit == WIRE_ROWS_WHOLE || bit == WIRE_FOUND)
            continue;
        c->servers[1].flags = (uint8_t)bit;
        assert_int_equal(fake_wait(c, pull(c, &w, false), &e), TUG_EDATA);
        assert_non_null(strstr(e.text, "pulled: its flags"));
    }
    c->servers[1].flags = 0;
    assert_int_equal(fake_wait(c, pull(c, &w, false), &e), 0);
    fake_close(c);
}

static void test_end_of_the_cluster(void **state)
{
    (void)state;
    struct cluster *c = fake_open(2, 21, NULL);
    struct err e = {0};
    struct work w = {.n = KEYS};
    memcpy(w.keys, c->keys, sizeof(w.keys));
    c->servers[0].mute = true;
    pull(c, &w, false);
    fake_step(c, MS);
    struct msg_stop stop = {.code = TUG_EIO, .why = wire_text("server 0 is lost")};
    van_send(c->scheduler, c->member, MSG_STOP, 0, &stop, NULL);
    assert_int_equal(fake_wait(c, w.ts, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "server 0 is lost"));
    struct client_pull p = {.table = TABLE};
    assert_int_equal(client_pull(c->client, &p, &e), 0);
    assert_non_null(strstr(e.text, "server 0 is lost"));
    fake_close(c);
}

// Each allocation of a round fails once. A request then fails with a sentence or
// succeeds, no push is lost, and no memory leaks.
static void test_no_memory(void **state)
{
    (void)state;
    for (long n = 0; n < 200; n++) {
        struct client_options o = fake_usual();
        struct cluster *c = fake_open(2, 22, &o);
        struct err e = {0};
        struct work w = {.n = KEYS};
        memcpy(w.keys, c->keys, sizeof(w.keys));
        fill(&w, 22, 0);
        struct client_push p = {
            .table = TABLE, .keys = w.keys, .n = w.n, .values = w.values};
        mem_fault_after(n);
        client_ts ts = client_push(c->client, &p, &e);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        if (ts == 0)
            assert_int_equal(e.code, TUG_ENOMEM);
        int rc = ts != 0 ? fake_wait(c, ts, &e) : TUG_ENOMEM;
        assert_true(rc == 0 || rc == TUG_ENOMEM);
        assert_int_equal(fake_wait(c, push(c, &w, false), &e), 0);
        fake_close(c);
        if (!struck)
            return;
    }
    fail_msg("a push allocates without end");
}

// Each allocation fails once while a client is opened, makes a table, pulls for the first
// time, and gets a new placement.
static void test_no_memory_at_first(void **state)
{
    (void)state;
    size_t live = mem_live();
    struct client_options o = fake_usual();
    struct err e = {0};
    for (long n = 0; n < 200; n++) {
        struct client *client = NULL;
        mem_fault_after(n);
        int rc = client_open(&client, &o, &e);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        if (rc == 0)
            client_close(client);
        assert_int_equal(mem_live(), live);
        if (!struck)
            break;
    }
    for (long n = 0; n < 400; n++) {
        struct cluster *c = fake_open(2, 25, &o);
        struct table_config t = fake_sums();
        struct work w = {.n = KEYS};
        memcpy(w.keys, c->keys, sizeof(w.keys));
        struct client_pull p = {
            .table = TABLE, .keys = w.keys, .n = w.n, .values = w.values};
        mem_fault_after(n);
        client_ts table = client_table(c->client, TABLE + 1, &t, &e);
        client_ts ts = client_pull(c->client, &p, &e);
        int rc = placement_update(c->client);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        assert_true(rc == 0 || rc == TUG_ENOMEM);
        if (table != 0) {
            rc = fake_wait(c, table, &e);
            assert_true(rc == 0 || rc == TUG_ENOMEM);
        }
        if (ts != 0) {
            rc = fake_wait(c, ts, &e);
            assert_true(rc == 0 || rc == TUG_ENOMEM);
        }
        assert_int_equal(fake_wait(c, pull(c, &w, false), &e), 0);
        fake_close(c);
        assert_int_equal(mem_live(), live);
        if (!struck)
            return;
    }
    fail_msg("a pull allocates without end");
}

// Later requests of the same shape reuse the requests and slices of earlier ones, so the
// client does not allocate more of them.
static void test_steady_state(void **state)
{
    (void)state;
    struct cluster *c = fake_open(2, 23, NULL);
    struct err e = {0};
    size_t live = 0;
    for (int i = 0; i < 50; i++) {
        struct work w = {.n = KEYS};
        memcpy(w.keys, c->keys, sizeof(w.keys));
        fill(&w, 23, 0);
        assert_int_equal(fake_wait(c, push(c, &w, false), &e), 0);
        assert_int_equal(fake_wait(c, pull(c, &w, false), &e), 0);
        if (i == 20)
            live = c->client->n_requests + c->client->n_slices;
    }
    assert_int_equal(c->client->n_requests + c->client->n_slices, live);
    fake_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_exact),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_push_pull),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_words_decide_nothing),
        cmocka_unit_test(test_arrange),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_tables_do_not_wait_for_each_other),
        cmocka_unit_test(test_mark_waits_for_batches),
        cmocka_unit_test(test_examples_are_counted_once),
        cmocka_unit_test(test_deadline_names_who_is_silent),
        cmocka_unit_test(test_values_that_are_not_finite),
        cmocka_unit_test(test_errors_of_servers),
        cmocka_unit_test(test_lists_of_keys),
        cmocka_unit_test(test_packed_keys),
        cmocka_unit_test(test_callbacks_and_cancel),
        cmocka_unit_test(test_requests_to_all_loops),
        cmocka_unit_test(test_unknown_flags),
        cmocka_unit_test(test_end_of_the_cluster),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_at_first),
        cmocka_unit_test(test_steady_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
