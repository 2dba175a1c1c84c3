// Links of programs on tug/kvapp.h break, fall silent, or lead to a node that is away for
// a while: a request stays under way until the roster says that its node is dead. The
// network is simulated; the test plays the scheduler and the worker that gets the
// requests.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "doors/kvapp/above.h"
#include "kit/lone_pump.inc.h"
#include "kit/test.h"

enum { APP = 1, OTHER = 2 };

static struct lone_node lone;
static struct tug_app *app;
static uint32_t ts;
static size_t live;

static struct peer *worker(void)
{
    return &lone.w.peers[LONE_DEAD]; // the van of this peer has no other use in the test
}

static void run_for(uint64_t ns)
{
    peers_run(&lone.w, ns);
    lone_node_work();
    peers_run(&lone.w, MILLIS);
}

static int setup(void **state)
{
    (void)state;
    live = mem_live();
    lone.newcomer = false;
    peers_open(&lone.w, NULL, 0);
    lone_node_open(&lone);
    assert_int_equal(0, tug_app_open(&app, &lone.n, APP, APP, NULL));
    lone_node_join(&lone);
    assert_int_equal(0, tug_app_request(app, 7, "x", 1, LONE_WORKER, &ts));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lone_node_close(&lone);
    peers_close(&lone.w);
    return mem_live() == live ? 0 : -1;
}

static void listens(void)
{
    char address[VAN_ADDRESS_MAX];
    assert_int_equal(0, van_listen(worker()->van, "sim://x", address, NULL));
}

// The worker greets on its newest link: the node then sends its unanswered requests, each
// once.
static void greets_for(uint64_t requests)
{
    struct msg_welcome w = {.role = WIRE_WORKER, .node = LONE_WORKER};
    uint64_t asked = lone.w.heard[MSG_APP];
    peer_send(worker(), MSG_WELCOME, 0, &w);
    run_for(10 * MILLIS);
    assert_int_equal(asked + requests, lone.w.heard[MSG_APP]);
    assert_int_equal(MSG_APP, worker()->asked_type);
}

static void greets(void)
{
    greets_for(1);
}

static void answers(void)
{
    struct msg_app m = {
        .app = app->app, .customer = app->app, .head = 7, .flags = WIRE_APP_SIMPLE};
    peer_send(worker(), MSG_APP, worker()->asked, &m);
    run_for(10 * MILLIS);
    assert_false(kv_is_under_way(app, ts));
    assert_int_equal(0, tug_app_wait(app, ts));
}

// The worker is away for a long time, and then its link breaks repeatedly.
static void dialled_again(void **state)
{
    (void)state;
    run_for(200 * SECOND_NS);
    assert_true(kv_is_under_way(app, ts));
    listens();
    for (int i = 0; i < 20; i++) {
        run_for(11 * SECOND_NS); // an attempt to connect is under way
        greets();
        van_close_link(worker()->van, worker()->link);
    }
    run_for(11 * SECOND_NS);
    greets();
    answers();
}

// A link that has fallen silent is replaced, and the request is sent again; a link whose
// other end answers PING is kept.
static void silent(void **state)
{
    (void)state;
    listens();
    run_for(11 * SECOND_NS);
    greets();
    van_link first = worker()->link;
    for (int i = 0; i < 10; i++) { // the worker is slow to answer, but answers PING
        run_for(6 * SECOND_NS);
        assert_int_equal(MSG_PING, worker()->asked_type);
        peer_send(worker(), MSG_OK, worker()->asked, &(struct msg_ok){0});
    }
    run_for(100 * MILLIS);
    assert_int_equal(first, worker()->link);
    sim_silence(lone.w.sim, worker()->van, first);
    run_for(15 * SECOND_NS);
    assert_int_not_equal(first, worker()->link);
    greets();
    answers();
}

// A worker that accepts links but never greets is dialled repeatedly.
static void never_greets(void **state)
{
    (void)state;
    listens();
    for (int i = 0; i < 5; i++) {
        van_link link = worker()->link;
        run_for(13 * SECOND_NS);
        assert_int_not_equal(link, worker()->link);
    }
    greets();
    answers();
}

static void refuses(int code)
{
    struct msg_error m = {.code = code, .what = wire_text("this node is not ready")};
    peer_send(worker(), MSG_ERROR, 0, &m);
    run_for(3 * SECOND_NS);
}

// A node that has not yet heard that it has joined refuses links for a moment.
static void refused_for_a_moment(void **state)
{
    (void)state;
    listens();
    run_for(11 * SECOND_NS);
    for (int i = 0; i < 20; i++) {
        van_link link = worker()->link;
        refuses(TUG_EIO);
        assert_true(kv_is_under_way(app, ts));
        assert_int_not_equal(link, worker()->link);
    }
    greets();
    answers();
}

// A node that refuses every link, or refuses for good, is not asked again.
static void refused_again_and_again(void **state)
{
    (void)state;
    listens();
    run_for(11 * SECOND_NS);
    for (int i = 0; i < 110 && kv_is_under_way(app, ts); i++)
        refuses(TUG_EIO);
    assert_int_equal(TUG_EIO, tug_app_wait(app, ts));
    assert_non_null(strstr(tug_last_error(), "this node is not ready"));
}

static void refused_for_good(void **state)
{
    (void)state;
    listens();
    run_for(11 * SECOND_NS);
    refuses(TUG_EUSAGE);
    assert_int_equal(TUG_EIO, tug_app_wait(app, ts));
    assert_non_null(strstr(tug_last_error(), "this node is not ready"));
}

// The roster says that the worker has died: requests to it fail.
static void dead(void **state)
{
    (void)state;
    run_for(5 * SECOND_NS); // the link to the scheduler is open
    assert_true(kv_is_under_way(app, ts));
    lone_node_roster(&lone, false, true);
    run_for(10 * MILLIS);
    assert_int_equal(TUG_EIO, tug_app_wait(app, ts));
    assert_non_null(strstr(tug_last_error(), "worker 0"));
    assert_non_null(strstr(tug_last_error(), "cannot be reached any more"));
}

// A customer is closed before its request is answered: the node no longer sends messages
// of this customer, and the request of another customer to the same node stays under way.
static void closed(bool link_is_down)
{
    struct tug_app *other;
    uint32_t first, unsent;
    listens();
    run_for(11 * SECOND_NS);
    greets();
    assert_int_equal(0, tug_app_open(&other, &lone.n, OTHER, OTHER, NULL));
    assert_int_equal(0, tug_app_request(other, 7, "y", 1, LONE_WORKER, &first));
    assert_int_equal(0, tug_app_new_request(app, LONE_WORKER, &unsent));
    van_link link = worker()->link;
    if (link_is_down)
        van_close_link(worker()->van, link);
    while (link_is_down && lone.n.peers->s.state != SESSION_CLOSED)
        peers_run(&lone.w, MILLIS / 10);
    kv_requests_give_up(app);
    run_for(10 * MILLIS); // the van returns the buffers of the request
    for (const struct kv_request *r = lone.n.first; r != NULL; r = r->behind)
        assert_ptr_equal(r->app, other);
    assert_int_equal(0, tug_app_close(app));
    app = other;
    assert_int_equal(0, tug_app_request(app, 7, "z", 1, LONE_WORKER, &ts));
    run_for(3 * SECOND_NS);
    assert_int_not_equal(link, worker()->link);
    greets_for(2);
    answers(); // answers the later request
    ts = first;
    assert_true(kv_is_under_way(app, ts));
}

static void closed_while_open(void **state)
{
    (void)state;
    closed(false);
}

static void closed_while_down(void **state)
{
    (void)state;
    closed(true);
}

static void on_done(void *ctx, uint32_t timestamp, int rc)
{
    (void)timestamp;
    assert_int_equal(TUG_EIO, rc);
    ++*(int *)ctx;
}

// A customer is closed before a callback has run, for example because another thread of
// the program delays the callback. The customer exists until the callback has run.
static void closed_before_a_callback(void **state)
{
    const uint64_t key = 1;
    const float value = 1;
    int calls = 0;
    struct tug_kv_request q = {.push = true,
                               .data = {&key, 1, &value, 1, NULL, 0},
                               .done = on_done,
                               .ctx = &calls};
    (void)state;
    assert_int_equal(0, tug_kv_send(app, &q, &ts));
    assert_int_equal(TUG_EIO, tug_app_close(app));
    assert_non_null(strstr(tug_last_error(), "a callback of its requests"));
    run_for(10 * MILLIS);
    assert_int_equal(1, calls);
    assert_int_equal(0, tug_app_close(app));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(dialled_again, setup, teardown),
        cmocka_unit_test_setup_teardown(silent, setup, teardown),
        cmocka_unit_test_setup_teardown(never_greets, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_for_a_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_again_and_again, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_for_good, setup, teardown),
        cmocka_unit_test_setup_teardown(closed_while_down, setup, teardown),
        cmocka_unit_test_setup_teardown(closed_while_open, setup, teardown),
        cmocka_unit_test_setup_teardown(closed_before_a_callback, setup, teardown),
        cmocka_unit_test_setup_teardown(dead, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
