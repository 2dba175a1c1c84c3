// Tests the client's functions that wait, with a scheduler and two shards, each on a
// thread of its own, and the client on the test's thread.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "client/client.h"
#include "cluster/scheduler/scheduler.h"
#include "kit/inproc.h"
#include "kit/shard_thread.h"
#include "kit/test.h"
#include "os/clock.h"
#include "rule/rule.h"

enum { SERVERS = 2, KEYS = 20000, WIDTH = 2, TABLE = 1 };

#define MS ((uint64_t)1000000)
#define SECOND (1000 * MS)
#define PATIENCE (60 * SECOND) // a test fails if a step takes longer

static struct {
    char name[64];
    struct scheduler *scheduler;
    struct van *van;
    pthread_t thread;
    atomic_bool stop;
    uint32_t servers;
    struct shard_thread *loops[SERVERS];
    struct client *client;
    struct van *client_van;
} c;

static void *run_scheduler(void *arg)
{
    struct err e;
    (void)arg;
    while (!atomic_load(&c.stop) && !scheduler_finished(c.scheduler, &e))
        if (van_poll(c.van, van_now(c.van) + 50 * MS, &e) != 0)
            break;
    return NULL;
}

static struct member_options member(enum wire_role role, uint64_t number,
                                    const char *address)
{
    return (struct member_options){
        .cluster = 1,
        .scheduler = c.name,
        .role = role,
        .ticket = number + 1,
        .process = number + 1,
        .loops = 1,
        .host = "here",
        .address = address,
        .scheduler_timeout_ns = PATIENCE,
        .resend_ns = 100 * MS, // short: only the answer to a repeated request names the
                               // missing nodes
    };
}

static void open_scheduler(uint32_t workers)
{
    static int count;
    char address[VAN_ADDRESS_MAX];
    struct err e = {0};
    struct scheduler_options o = {
        .cluster = 1,
        .servers = SERVERS,
        .workers = workers,
        .partition_bits = 6,
        .gather_timeout_ns = PATIENCE,
        .dead_timeout_ns = 100 * SECOND, // long: threads under valgrind share one CPU
        .leave_timeout_ns = PATIENCE,
        .session_base = 1,
        .host = "here",
    };
    snprintf(c.name, sizeof(c.name), "inproc://wait-test-%d", count++);
    atomic_store(&c.stop, false);
    assert_int_equal(scheduler_open(&c.scheduler, &o, &e), 0);
    struct van_handler h = scheduler_handler(c.scheduler);
    assert_int_equal(inproc_van_open(&c.van, &h, &e), 0);
    assert_int_equal(van_listen(c.van, c.name, address, &e), 0);
    scheduler_serve(c.scheduler, c.van, address);
    assert_int_equal(pthread_create(&c.thread, NULL, run_scheduler, NULL), 0);
}

static void open_loops(uint32_t n)
{
    c.servers = n;
    for (uint32_t i = 0; i < n; i++) {
        char address[VAN_ADDRESS_MAX];
        snprintf(address, sizeof(address), "%s-%u", c.name, i);
        struct member_options m = member(WIRE_SERVER, i, address);
        c.loops[i] = shard_thread_open(&m);
    }
}

static void open_client_as(enum wire_role role, uint64_t request_timeout)
{
    struct err e = {0};
    struct client_options o = {.member = member(role, 10, ""),
                               .cache_keys = true,
                               .request_timeout_ns = request_timeout};
    assert_int_equal(client_open(&c.client, &o, &e), 0);
    struct van_handler h = client_handler(c.client);
    assert_int_equal(inproc_van_open(&c.client_van, &h, &e), 0);
    client_serve(c.client, c.client_van, van_now(c.client_van));
}

static void open_client(void)
{
    open_client_as(WIRE_WORKER, 0);
}

static void close_all(void)
{
    van_free(c.client_van);
    client_close(c.client);
    c.client = NULL;
    atomic_store(&c.stop, true);
    for (uint32_t i = 0; i < c.servers; i++)
        shard_thread_close(c.loops[i]);
    van_wake(c.van);
    pthread_join(c.thread, NULL);
    van_free(c.van);
    scheduler_close(c.scheduler);
    c.servers = 0;
}

#define good(call)                                                                       \
    do {                                                                                 \
        struct err e_ = {0};                                                             \
        struct err *e = &e_;                                                             \
        if ((call) != 0)                                                                 \
            fail_msg("%s", e_.text);                                                     \
    } while (0)

static void make_table(void)
{
    struct table_config t = table_config_defaults();
    struct err err = {0};
    snprintf(t.name, sizeof(t.name), "sums");
    t.accessor.rule = rule_defaults(RULE_SUM);
    t.accessor.dim = WIDTH;
    client_ts ts = client_table(c.client, TABLE, &t, &err);
    if (ts == 0)
        fail_msg("%s", err.text);
    good(client_wait(c.client, ts, e));
    assert_non_null(client_spec(c.client, TABLE));
    assert_null(client_spec(c.client, TABLE + 1));
}

static uint64_t keys[KEYS];
static float values[KEYS * WIDTH], pulled[KEYS * WIDTH];

// Sends bodies of 160 KB twice in each direction. The bodies are sent without a copy, and
// received directly into their arrays.
static void test_a_run(void **state)
{
    (void)state;
    struct err err = {0};
    size_t live = mem_live();
    open_scheduler(1);
    open_loops(SERVERS);
    open_client();
    good(client_wait_ready(c.client, PATIENCE, e));
    make_table();
    static uint32_t order[KEYS];
    static uint64_t given[KEYS];
    for (uint64_t i = 0; i < KEYS; i++)
        given[i] = random_u64(1, 2, i);
    assert_int_equal(client_arrange(c.client, TABLE, given, KEYS, order), 0);
    for (size_t i = 0; i < KEYS; i++)
        keys[i] = given[order[i]];
    for (size_t i = 0; i < KEYS * WIDTH; i++)
        values[i] = (float)(i % 1000);
    struct client_push p = {.table = TABLE,
                            .keys = keys,
                            .n = KEYS,
                            .values = values,
                            .rate = 1,
                            .pass = 1,
                            .examples = 100,
                            .arranged = true};
    struct client_pull q = {
        .table = TABLE, .keys = keys, .n = KEYS, .values = pulled, .arranged = true};
    for (int i = 1; i <= 3; i++) {
        client_ts push = client_push(c.client, &p, &err);
        client_ts pull = client_pull(c.client, &q, &err);
        good(client_wait(c.client, pull, e));
        good(client_wait(c.client, push, e));
        for (size_t k = 0; k < KEYS * WIDTH; k++)
            assert_true(pulled[k] == (float)i * values[k]);
    }
    struct msg_table_is figures;
    good(client_wait(c.client, client_stat(c.client, TABLE, &figures, &err), e));
    assert_int_equal(figures.rows, KEYS);
    assert_int_equal(figures.examples, 300);
    good(client_barrier(c.client, WIRE_GROUP_WORKERS, PATIENCE, e));
    good(client_poll(c.client, e));
    good(client_leave(c.client, NULL, e));
    close_all();
    assert_int_equal(mem_live(), live);
}

// After a client has left because of an error, its requests and waits fail at once with
// the reason of that error, and do not wait for servers that no longer know the client.
static void test_after_an_error(void **state)
{
    (void)state;
    struct err err = {0}, why = {0};
    struct msg_table_is figures;
    open_scheduler(1);
    open_loops(SERVERS);
    open_client();
    good(client_wait_ready(c.client, PATIENCE, e));
    make_table();
    good(client_over(c.client, e));
    good(client_leave(c.client, &(struct err){.code = TUG_EDATA, .text = "a bad line"},
                      e));
    err_set(&why, TUG_EDATA, "it left: a bad line");
    client_abandon(c.client, &why);
    err_set(&err, TUG_EIO, "another");
    client_abandon(c.client, &err);
    assert_int_equal(client_over(c.client, &err), TUG_EDATA);
    assert_string_equal(err.text, why.text);
    assert_int_equal(client_stat(c.client, TABLE, &figures, &err), 0);
    assert_string_equal(err.text, why.text);
    assert_int_equal(client_barrier(c.client, WIRE_GROUP_WORKERS, PATIENCE, &err),
                     TUG_EDATA);
    assert_string_equal(err.text, why.text);
    close_all();
}

// The arrays of a cancelled request may be freed at once.
static void test_cancel(void **state)
{
    (void)state;
    struct err err = {0};
    open_scheduler(1);
    open_loops(SERVERS);
    open_client();
    good(client_wait_ready(c.client, PATIENCE, e));
    make_table();
    for (int i = 0; i < 40; i++) {
        uint64_t *k = mem_array(KEYS, sizeof(*k));
        float *v = mem_array(KEYS * WIDTH, sizeof(*v));
        assert_non_null(k);
        assert_non_null(v);
        for (uint64_t j = 0; j < KEYS; j++)
            k[j] = keys[j];
        for (size_t j = 0; j < KEYS * WIDTH; j++)
            v[j] = 1;
        struct client_push p = {
            .table = TABLE, .keys = k, .n = KEYS, .values = v, .arranged = true};
        struct client_pull q = {
            .table = TABLE, .keys = k, .n = KEYS, .values = v, .arranged = true};
        client_ts ts = i % 2 ? client_push(c.client, &p, &err)
                             : client_pull(c.client, &q, &err);
        assert_int_not_equal(ts, 0);
        for (int j = 0; j < i / 4; j++)
            good(client_poll(c.client, e));
        client_cancel(c.client, ts);
        mem_free(k);
        mem_free(v);
    }
    assert_int_equal(client_in_flight(c.client), 0);
    struct client_pull q = {
        .table = TABLE, .keys = keys, .n = KEYS, .values = pulled, .arranged = true};
    good(client_wait(c.client, client_pull(c.client, &q, &err), e));
    // client_wait returns the error of a request that could not begin.
    q.table = TABLE + 1;
    assert_int_equal(client_wait(c.client, client_pull(c.client, &q, &err), &err),
                     TUG_EUSAGE);
    assert_null(strstr(err.text, "no such request"));
    assert_non_null(strstr(err.text, "table"));
    close_all();
}

static void hear_state(void *ctx, const union wire_any *m)
{
    *(uint64_t *)ctx = m->pass_state.pass;
}

static void test_questions_to_the_scheduler(void **state)
{
    (void)state;
    uint64_t pass = 0;
    open_scheduler(1);
    open_loops(SERVERS);
    open_client();
    good(client_wait_ready(c.client, PATIENCE, e));
    struct msg_pass_wanted m = {.pass = 0};
    struct err err = {0};
    // The scheduler answers, or the request fails with a message.
    int rc = client_ask(c.client, MSG_PASS_WANTED, &m, hear_state, &pass, &err);
    assert_true(rc == 0 || err.text[0] != '\0');
    close_all();
}

// Repeats a short wait until it fails with the message `why`. On a busy machine the first
// waits may fail because the client has not joined yet.
static void expect_not_ready(const char *why)
{
    struct err err = {0};
    uint64_t until = clock_ns() + PATIENCE;
    do
        assert_int_equal(client_wait_ready(c.client, 100 * MS, &err), TUG_EIO);
    while (strstr(err.text, why) == NULL && clock_ns() < until);
    if (strstr(err.text, why) == NULL || strstr(err.text, c.name) == NULL)
        fail_msg("%s", err.text);
}

static void test_waits_end_and_say_why(void **state)
{
    (void)state;
    struct err err = {0};
    open_scheduler(1);
    open_loops(1); // one less than the cluster needs
    open_client();
    expect_not_ready("still waits");
    struct client_pull q = {.table = TABLE};
    assert_int_equal(client_pull(c.client, &q, &err), 0);
    assert_int_equal(err.code, TUG_EUSAGE);
    atomic_bool interrupt = true;
    client_set_interrupt(c.client, &interrupt);
    assert_int_equal(client_wait_ready(c.client, PATIENCE, &err), TUG_EINTERRUPTED);
    close_all();
}

// The servers never reach the barrier. Only the answer to a repeated request names them,
// so a wait that is too short ends without their names.
static void test_barrier_names_who_is_missing(void **state)
{
    (void)state;
    struct err err = {0};
    open_scheduler(1);
    open_loops(SERVERS);
    open_client();
    good(client_wait_ready(c.client, PATIENCE, e));
    for (uint64_t wait = 500 * MS; strstr(err.text, "server") == NULL; wait *= 4) {
        int rc = client_barrier(c.client, WIRE_GROUP_WORKERS | WIRE_GROUP_SERVERS, wait,
                                &err);
        assert_int_equal(rc, TUG_EIO);
        assert_true(wait < 2 * PATIENCE);
    }
    close_all();
}

static void test_no_scheduler(void **state)
{
    (void)state;
    snprintf(c.name, sizeof(c.name), "inproc://nobody");
    open_client();
    expect_not_ready("inproc://nobody");
    van_free(c.client_van);
    client_close(c.client);
}

// A scheduler that is alive may still not answer: it opens a pass only after all nodes
// have joined.
static void test_scheduler_that_does_not_answer(void **state)
{
    (void)state;
    struct err err = {0};
    struct msg_pass pass = {.pass = 1};
    uint64_t heard = 0;
    open_scheduler(1);
    open_loops(1); // one less than the cluster needs
    open_client_as(WIRE_DRIVER, 300 * MS);
    for (int i = 0; i < 2; i++) { // the request that timed out must not disturb the next
                                  // one
        assert_int_equal(client_ask(c.client, MSG_PASS, &pass, hear_state, &heard, &err),
                         TUG_EIO);
        assert_non_null(strstr(err.text, "has not answered (pass)"));
        assert_non_null(strstr(err.text, c.name));
    }
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run),
        cmocka_unit_test(test_after_an_error),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_questions_to_the_scheduler),
        cmocka_unit_test(test_waits_end_and_say_why),
        cmocka_unit_test(test_barrier_names_who_is_missing),
        cmocka_unit_test(test_no_scheduler),
        cmocka_unit_test(test_scheduler_that_does_not_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
