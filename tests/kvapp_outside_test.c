// A server of programs on tug/kvapp.h gets requests that no client of tug sends. The
// network is simulated; the test plays its scheduler and its workers.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "doors/kvstore/server.h"
#include "kit/lone_pump.inc.h"
#include "kit/test.h"
#include "os/thread.h"

enum { STORE = 1, WHO = 2, LONG = 4096 };

static struct lone_node lone;
static struct tug_kv_default *store;
static struct tug_kvstore_server *kvs; // the kvstore's server; NULL if the test has none
static uint32_t asked, asked_by;
static uint64_t number;
static size_t live;

// Records the sender of a request.
static void note(void *ctx, struct tug_app *a, const struct tug_simple *q)
{
    (void)ctx;
    asked++;
    asked_by = q->sender;
    assert_int_equal(0, tug_app_answer(a, q->ticket, NULL, 0));
}

static void open_customer(uint32_t app, const struct tug_app_handlers *h)
{
    struct tug_app *a;
    assert_int_equal(0, tug_app_open(&a, &lone.n, app, app, h));
}

static int setup(void **state)
{
    (void)state;
    alarm(60); // ends the process if something hangs
    live = mem_live();
    lone.newcomer = false;
    asked = asked_by = 0;
    number = 0;
    peers_open(&lone.w, NULL, 0);
    lone_node_open(&lone);
    assert_int_equal(0, tug_kv_default_open(&store));
    open_customer(STORE,
                  &(struct tug_app_handlers){.kv = tug_kv_default_handle, .ctx = store});
    open_customer(WHO, &(struct tug_app_handlers){.request = note});
    lone_node_join(&lone);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lone_node_close(&lone);
    tug_kv_default_close(store);
    peers_close(&lone.w);
    return mem_live() == live ? 0 : -1;
}

static void run_for(uint64_t ns)
{
    peers_run(&lone.w, ns);
    lone_node_work();
    while (kvs != NULL && kvs_serve_next(kvs, 0))
        ;
    peers_run(&lone.w, MILLIS);
}

// Sends the message as a worker. Returns whether it is answered, and not refused.
static bool ask(struct msg_app *m)
{
    uint64_t answers = lone.w.heard[MSG_APP], refusals = lone.w.heard[MSG_ERROR];
    m->flags |= WIRE_APP_REQUEST;
    m->number = ++number;
    m->acked = number;
    peer_send(&lone.w.peers[LONE_FIRST], MSG_APP, number, m);
    run_for(5 * MILLIS);
    answers = lone.w.heard[MSG_APP] - answers;
    refusals = lone.w.heard[MSG_ERROR] - refusals;
    assert_int_equal(1, answers + refusals);
    return answers == 1;
}

static bool ask_store(uint8_t flags, const uint64_t *keys, size_t n, const float *values,
                      size_t n_values, const int32_t *lengths)
{
    struct msg_app m = {.app = STORE, .flags = flags};
    m.keys = (struct wire_span){keys, n * sizeof(*keys)};
    m.values = (struct wire_span){values, n_values * sizeof(*values)};
    if (lengths != NULL)
        m.lengths = (struct wire_span){lengths, n * sizeof(*lengths)};
    return ask(&m);
}

// Key 7 occurs twice, and is longer the second time: its values must not be added past
// the end of its array.
static void keys_that_repeat(void **state)
{
    const uint64_t twice[] = {7, 7}, down[] = {8, 7}, up[] = {7, 8};
    const int32_t lengths[] = {1, LONG - 1};
    float *values = mem_zalloc(LONG * sizeof(*values));
    (void)state;
    assert_false(ask_store(WIRE_APP_PUSH, twice, 2, values, LONG, lengths));
    assert_false(ask_store(WIRE_APP_PUSH, down, 2, values, LONG, lengths));
    assert_false(ask_store(WIRE_APP_PUSH, twice, 2, values, 2, NULL));
    assert_false(ask_store(WIRE_APP_PULL, twice, 2, NULL, 0, NULL));
    assert_int_equal(0, tug_kv_default_keys(store));
    assert_true(ask_store(WIRE_APP_PUSH, up, 2, values, LONG, lengths));
    assert_true(ask_store(WIRE_APP_PULL, up, 2, NULL, 0, NULL));
    assert_int_equal(2, tug_kv_default_keys(store));
    mem_free(values);
}

// A pull takes 8 bytes for each key, and its answer has 16,384 values for each. A pull whose
// answer would be too large is refused.
static void pull_without_a_bound(void **state)
{
    enum { MANY = 1000, FEW = 100 };
    uint64_t keys[MANY];
    const int32_t length = LONG;
    float *values = mem_zalloc(LONG * sizeof(*values));
    uint64_t most = kv_answer_most(&lone.n);
    (void)state;
    for (uint64_t i = 0; i < MANY; i++)
        keys[i] = i;
    assert_true(MANY * LONG * sizeof(float) > most && FEW * LONG * sizeof(float) < most);
    assert_true(ask_store(WIRE_APP_PUSH, keys, 1, values, LONG, NULL));
    // In these two pulls the rows are in a table.
    assert_false(ask_store(WIRE_APP_PULL, keys, MANY, NULL, 0, NULL));
    assert_true(ask_store(WIRE_APP_PULL, keys, FEW, NULL, 0, NULL));
    assert_true(ask_store(WIRE_APP_PUSH, keys + 1, 1, values, LONG, &length));
    assert_false(ask_store(WIRE_APP_PULL, keys, MANY, NULL, 0,
                           NULL)); // from here on the rows are arrays of several lengths
    assert_true(ask_store(WIRE_APP_PULL, keys, FEW, NULL, 0, NULL));
    assert_int_equal(2, tug_kv_default_keys(store));
    mem_free(values);
}

// A server whose queued answers fill its budget makes no more answers.
static void answers_nobody_reads(void **state)
{
    const uint64_t key = 7;
    struct budget *b = &lone.n.process.budget;
    uint64_t most = budget_most(b, BUDGET_QUEUED), before = lone.w.heard[MSG_APP];
    struct msg_app m = {.app = STORE,
                        .flags = WIRE_APP_REQUEST | WIRE_APP_PULL,
                        .number = ++number,
                        .acked = number,
                        .keys = {&key, sizeof(key)}};
    (void)state;
    assert_true(budget_take(b, BUDGET_QUEUED, most));
    peer_send(&lone.w.peers[LONE_FIRST], MSG_APP, 1, &m);
    run_for(100 * MILLIS);
    assert_int_equal(before, lone.w.heard[MSG_APP]);
    // The budget is short, so the server closes links of peers that do not read.
    assert_true(budget_short(b, clock_ns()));
    budget_give(b, BUDGET_QUEUED, most / 2);
    lone_node_greet(&lone, LONE_TOOL, 0, 0); // lets the server's van run
    run_for(5 * MILLIS);
    assert_int_equal(before + 1, lone.w.heard[MSG_APP]);
    budget_give(b, BUDGET_QUEUED, most - most / 2);
}

// A link with a worker's rights whose HELLO names no node may not ask in the name of
// another node.
static void asker_without_a_name(void **state)
{
    struct peer *p = &lone.w.peers[LONE_FIRST];
    struct msg_app m = {.app = WHO, .flags = WIRE_APP_SIMPLE, .sender = LONE_WORKER + 2};
    (void)state;
    assert_true(ask(&m)); // the request counts as that of its sender's own node, whatever
                          // `sender` says
    assert_int_equal(1, asked);
    assert_int_equal(LONE_WORKER, asked_by);
    p->node = 0;
    p->session = 0;
    peer_connect(p, "sim://shard");
    peer_hello(p, WIRE_WORKER);
    assert_false(ask(&m));
    assert_int_equal(1, asked);
}

// A worker may connect before the roster that lists it arrives. Its requests then wait.
static void asker_before_its_roster(void **state)
{
    struct msg_app m = {
        .app = WHO, .flags = WIRE_APP_REQUEST | WIRE_APP_SIMPLE, .number = 1, .acked = 1};
    (void)state;
    lone_node_greet(&lone, LONE_FIRST, LONE_NEW, 105);
    peer_send(&lone.w.peers[LONE_FIRST], MSG_APP, 1, &m);
    run_for(MILLIS);
    assert_int_equal(0, asked);
    lone.newcomer = true;
    lone_node_roster(&lone, true, true);
    run_for(MILLIS);
    assert_int_equal(1, asked);
    assert_int_equal(LONE_NEW, asked_by);
    // The roster never lists this second node: its request is refused.
    lone_node_greet(&lone, LONE_FIRST, LONE_NEW + 2, 106);
    peer_send(&lone.w.peers[LONE_FIRST], MSG_APP, 1, &m);
    uint64_t refusals = lone.w.heard[MSG_ERROR];
    run_for(11 * SECOND_NS);
    assert_int_equal(refusals + 1, lone.w.heard[MSG_ERROR]);
    assert_int_equal(1, asked);
}

// All workers of a barrier die, one after the other, while one of them waits at it: the
// barrier is forgotten.
static void barrier_of_the_dead(void **state)
{
    // The barrier of all customers with number 3; a worker waits at it for up to a minute.
    const uint32_t reach[] = {3, 60000};
    uint64_t before = lone.w.heard[MSG_ERROR];
    struct msg_app m = {.app = KV_BARRIERS,
                        .flags = WIRE_APP_REQUEST | WIRE_APP_SIMPLE,
                        .head = TUG_GROUP_WORKERS,
                        .number = 1,
                        .acked = 1,
                        .body = {reach, sizeof(reach)}};
    (void)state;
    peer_send(&lone.w.peers[LONE_FIRST], MSG_APP, 1, &m);
    run_for(MILLIS);
    assert_non_null(lone.n.reached);
    lone_node_roster(&lone, false, true);
    run_for(MILLIS);
    assert_non_null(lone.n.reached); // the barrier waits for the other worker
    assert_int_equal(before, lone.w.heard[MSG_ERROR]);
    lone_node_roster(&lone, false, false);
    run_for(MILLIS);
    assert_null(lone.n.reached);
}

static void come(int peer, uint32_t customer)
{
    const uint32_t reach[] = {customer, 60000};
    struct msg_app m = {.app = KV_BARRIERS,
                        .flags = WIRE_APP_REQUEST | WIRE_APP_SIMPLE,
                        .head = TUG_GROUP_WORKERS,
                        .body = {reach, sizeof(reach)}};
    peer_send(&lone.w.peers[peer], MSG_APP, ++number, &m);
    run_for(MILLIS);
}

// A node that reaches a barrier again, because its wait was interrupted, counts once.
static void twice_at_a_barrier(void **state)
{
    (void)state;
    come(LONE_FIRST, 3);
    come(LONE_FIRST, 4);
    come(LONE_FIRST, 3);
    come(LONE_SECOND, 3);
    // Only the barrier of customers with number 4 is left.
    assert_non_null(lone.n.reached);
    assert_null(lone.n.reached->next);
}

// A worker of a kvstore was declared dead and does not know it yet: its requests are
// refused, because another worker may have its rank.
static void dead_worker_of_a_store(void **state)
{
    struct tug_kvstore_server server = {.node = &lone.n, .workers = LONE_WORKERS};
    struct kvs_hello hello = {.workers = LONE_WORKERS};
    struct msg_app m = {.app = KVS_APP,
                        .flags = WIRE_APP_SIMPLE,
                        .head = KVS_HELLO,
                        .body = {&hello, sizeof(hello)}};
    (void)state;
    pthread_mutex_init(&server.lock, NULL);
    thread_condition(&server.more);
    assert_int_equal(0, kvs_server_attach(&server));
    kvs = &server;
    assert_true(ask(&m));
    lone_node_roster(&lone, false, true);
    run_for(MILLIS);
    assert_false(ask(&m));
    kvs = NULL;
    kvs_server_detach(&server);
    kvs_server_free_memory(&server);
    pthread_cond_destroy(&server.more);
    pthread_mutex_destroy(&server.lock);
}

int main(void)
{
#define outside(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        outside(keys_that_repeat),     outside(pull_without_a_bound),
        outside(answers_nobody_reads), outside(asker_without_a_name),
        outside(barrier_of_the_dead),  outside(dead_worker_of_a_store),
        outside(twice_at_a_barrier),   outside(asker_before_its_roster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
