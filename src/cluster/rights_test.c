// Rights at the scheduler: every message type is sent over links of every role, and over
// a link without HELLO.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "kit/actors.h"
#include "kit/frames.h"
#include "kit/test.h"

static struct world w;

struct peer {
    struct van *v;
    van_link link;
    uint16_t type;
    char text[ERR_TEXT_MAX];
    uint64_t process; // process number of the last worker in the roster
    bool closed;
    uint32_t lines; // number of lines in the scheduler's log
    char log[2048];
    uint32_t stops; // number of log lines about requests to stop
};

static struct peer peer;

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    (void)ctx, (void)link, (void)now;
    peer.type = m->type;
    if (m->type == MSG_ERROR)
        wire_words(m->m->error.what, peer.text, sizeof(peer.text));
    struct wire_text nodes = {NULL, 0};
    struct wire_node n;
    if (m->type == MSG_ROSTER)
        nodes = (struct wire_text){m->m->roster.nodes.data,
                                   (uint32_t)m->m->roster.nodes.n};
    while (wire_next_node(&nodes, &n) == 1)
        if (n.role == WIRE_WORKER)
            peer.process = n.process;
}

static void on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    (void)ctx, (void)link, (void)why, (void)now;
    peer.closed = true;
}

static uint64_t no_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static void on_log(void *ctx, const char *line)
{
    (void)ctx;
    peer.lines++;
    peer.stops += strncmp(line, "operation: stop", 15) == 0;
    snprintf(peer.log, sizeof(peer.log), "%s", line);
}

static void open_world(void)
{
    struct scheduler_options o = world_options(1, 1);
    memset(&peer, 0, sizeof(peer));
    o.log = on_log;
    world_open(&w, 1, &o);
    world_add_all(&w, 1, 1, false);
    world_run(&w, 3 * SECONDS);
}

static void knock(enum wire_role role)
{
    struct van_handler h = {.message = on_message, .closed = on_closed, .tick = no_tick};
    peer.type = 0;
    peer.closed = false;
    assert_int_equal(sim_van_open(&peer.v, w.sim, "peer", &h, NULL), 0);
    sim_van_role(peer.v, role);
    peer.link = van_connect(peer.v, "sim://scheduler", SECONDS);
    world_run(&w, SECONDS / 10);
}

static void say(uint16_t type, uint64_t request, const void *msg)
{
    peer.type = 0;
    assert_int_equal(van_send(peer.v, peer.link, type, request, msg, NULL), 0);
    world_run(&w, SECONDS / 10);
}

static void greet(enum wire_role role)
{
    struct msg_hello hello = {.cluster = CLUSTER, .role = WIRE_TOOL};
    knock(role);
    say(MSG_HELLO, 1, &hello);
    assert_int_equal(peer.type, MSG_WELCOME);
}

static void leave(void)
{
    van_free(peer.v);
    world_run(&w, SECONDS / 10);
}

static void fill(uint16_t type, union wire_any *m)
{
    static const char bytes[64];
    struct fill f = {.seed = type, .longest = 8, .bytes = bytes};
    memset(m, 0, sizeof(*m));
    fill_any(&f, type, m);
}

static void test_before_hello(void **state)
{
    (void)state;
    open_world();
    for (size_t i = 0; i < N_WIRE_TYPES; i++) {
        union wire_any m;
        if (wire_types[i] == MSG_HELLO)
            continue;
        fill(wire_types[i], &m);
        knock(WIRE_OPERATOR);
        say(wire_types[i], 5, &m);
        if (peer.type != MSG_ERROR || !peer.closed)
            fail_msg("%s before hello: %s", wire_name(wire_types[i]),
                     peer.type != 0 ? wire_name(peer.type) : "silence");
        leave();
    }
    assert_false(scheduler_finished(w.s, NULL));
    world_close(&w);
}

static void test_roles(void **state)
{
    static const enum wire_role roles[] = {WIRE_TOOL, WIRE_WORKER, WIRE_SERVER};
    (void)state;
    open_world();
    for (int r = 0; r < 3; r++) {
        greet(roles[r]);
        for (size_t i = 0; i < N_WIRE_TYPES; i++) {
            uint16_t type = wire_types[i];
            union wire_any m;
            if (wire_may(type, roles[r]) || type == MSG_OK || type == MSG_ERROR)
                continue;
            fill(type, &m);
            say(type, 5, &m);
            if (peer.type != MSG_ERROR || strstr(peer.text, "role") == NULL)
                fail_msg("%s of a %s", wire_name(type), wire_role_name(roles[r]));
        }
        assert_false(peer.closed);
        leave();
    }
    assert_false(scheduler_finished(w.s, NULL));
    world_close(&w);
}

// No peer may join with a role that has more rights than the role of its link.
static void test_join(void **state)
{
    static const struct {
        enum wire_role link, joins;
        bool may;
    } cases[] = {
        {WIRE_TOOL, WIRE_WORKER, false},   {WIRE_TOOL, WIRE_DRIVER, true},
        {WIRE_WORKER, WIRE_SERVER, false}, {WIRE_WORKER, WIRE_SCHEDULER, false},
        {WIRE_WORKER, WIRE_WORKER, true},  {WIRE_SERVER, WIRE_WORKER, true},
    };
    (void)state;
    open_world();
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct msg_join join = {.role = (uint8_t)cases[i].joins,
                                .ticket = 1000 + i,
                                .process = 2000 + i,
                                .loops = 1,
                                .host = wire_text("h"),
                                .address = wire_text("sim://x")};
        greet(cases[i].link);
        peer.text[0] = 0;
        say(MSG_JOIN, 7, &join);
        bool refused = strstr(peer.text,
                              "its certificate or token is for another role") != NULL;
        if (refused == cases[i].may)
            fail_msg("%zu: %s", i, peer.text);
        leave();
    }
    world_close(&w);
}

// A process has one role: a node that joins with the process number of a server, but as a
// worker, is refused.
static void test_join_under_anothers_number(void **state)
{
    struct msg_join join = {
        .role = WIRE_WORKER, .ticket = 1000, .process = 500, .loops = 1};
    (void)state;
    open_world();
    greet(WIRE_SERVER);
    say(MSG_JOIN, 7, &join);
    assert_int_equal(peer.type, MSG_ERROR);
    assert_non_null(strstr(peer.text, "its process has already joined as a server"));
    join.role = WIRE_DRIVER;
    say(MSG_JOIN, 7, &join);
    assert_int_equal(peer.type, MSG_ERROR);
    join.process = 501;
    say(MSG_JOIN, 7, &join);
    assert_non_null(strstr(peer.text, "its process has already joined as a worker"));
    join.process = 502;
    say(MSG_JOIN, 7, &join);
    assert_int_not_equal(peer.type, MSG_ERROR);
    leave();
    world_close(&w);
}

// Lets the worker hang, and sends heartbeats with this role and process number: the
// worker must still be declared dead.
static void check_not_kept_alive(enum wire_role role, uint64_t process)
{
    struct msg_heartbeat beat = {.process = process};
    sim_partition(w.sim, w.v, w.actors[1].v, true);
    greet(role);
    for (int i = 0; i < 10; i++) {
        say(MSG_HEARTBEAT, 7, &beat);
        assert_int_equal(peer.type, MSG_HEARTBEAT_OK);
        world_run(&w, SECONDS);
    }
    assert_false(roster_find(scheduler_roster(w.s), 9)->alive);
    leave();
    world_close(&w);
}

// Even heartbeats with the right process number count only over a link with the process's
// role.
static void test_heartbeats_of_others(void **state)
{
    (void)state;
    open_world();
    greet(WIRE_WORKER);
    say(MSG_HEARTBEAT, 7, &(struct msg_heartbeat){.process = 501});
    assert_int_equal(peer.type, MSG_HEARTBEAT_OK);
    leave();
    check_not_kept_alive(WIRE_TOOL, 501);
}

// In the roster, each process has another number than in heartbeats, so a worker cannot
// learn from the roster the number that another process's heartbeats need.
static void test_heartbeats_of_who_reads_the_roster(void **state)
{
    (void)state;
    open_world();
    greet(WIRE_WORKER);
    // one heartbeat of the worker itself
    say(MSG_HEARTBEAT, 7, &(struct msg_heartbeat){.process = 501});
    say(MSG_ROSTER_WANTED, 8, &(struct msg_roster_wanted){0});
    assert_int_equal(peer.type, MSG_ROSTER);
    uint64_t told = peer.process;
    assert_int_not_equal(told, 0);
    leave();
    check_not_kept_alive(WIRE_WORKER, told);
}

// The number of links that stay open when other links are closed to make room for new links.
static uint32_t n_kept;

// A peer whose versions of the protocol are all too old or too new is refused with a
// message that names both versions of tug; other peers are not refused.
static void test_versions(void **state)
{
    static const struct {
        uint8_t oldest, newest;
        bool fits;
    } cases[] = {{WIRE_OLDEST, WIRE_VERSION, true},
                 {WIRE_VERSION, WIRE_VERSION + 1, true},
                 {WIRE_VERSION + 1, WIRE_VERSION + 1, false},
                 {1, WIRE_OLDEST - 1, false}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct msg_hello hello = {.cluster = CLUSTER,
                                  .role = WIRE_TOOL,
                                  .version = wire_text("9.9"),
                                  .oldest = cases[i].oldest,
                                  .newest = cases[i].newest};
        open_world();
        knock(WIRE_TOOL);
        say(MSG_HELLO, 1, &hello);
        assert_int_equal(peer.type, cases[i].fits ? MSG_WELCOME : MSG_ERROR);
        assert_int_equal(peer.closed, !cases[i].fits);
        if (!cases[i].fits) {
            assert_non_null(strstr(peer.text, "tug 9.9"));
            assert_non_null(strstr(peer.text, tug_version()));
            assert_non_null(strstr(peer.text, "or a newer one in place of"));
        }
        leave();
        world_close(&w);
    }
}

static void count_kept(struct van *v, van_link link)
{
    (void)v, (void)link;
    n_kept++;
}

static void another_greeted(void)
{
    peer.link = van_connect(peer.v, "sim://scheduler", SECONDS);
    world_run(&w, SECONDS / 10);
    say(MSG_HELLO, 1, &(struct msg_hello){.cluster = CLUSTER, .role = WIRE_TOOL});
}

static void another_link(uint64_t process)
{
    another_greeted();
    say(MSG_HEARTBEAT, 7, &(struct msg_heartbeat){.process = process});
    assert_int_equal(peer.type, MSG_HEARTBEAT_OK);
}

// When links are closed to make room for new ones, one link of each node stays, and one
// link for the heartbeats of each process. Links of guests and of tools may be closed.
static void test_links_that_are_kept(void **state)
{
    struct msg_join join = {.role = WIRE_DRIVER,
                            .ticket = 1000,
                            .process = 2000,
                            .loops = 1,
                            .host = wire_text("h")};
    (void)state;
    open_world();
    const struct van_ops *was = w.v->ops;
    struct van_ops ops = *was;
    ops.joined = count_kept;
    w.v->ops = &ops;
    n_kept = 0;
    greet(WIRE_TOOL);
    say(MSG_JOIN, 7, &join);
    another_link(join.process);
    say(MSG_LEAVE, 8, &(struct msg_leave){0});
    leave();
    world_run(&w, 20 * SECONDS); // after this time the guest is forgotten
    greet(WIRE_TOOL);
    another_link(0);
    assert_int_equal(n_kept, 0);
    leave();
    greet(WIRE_WORKER);
    join.role = WIRE_WORKER;
    join.ticket = join.process = 3000;
    say(MSG_JOIN, 7, &join);
    assert_int_equal(n_kept, 1);
    another_link(join.process);
    assert_int_equal(n_kept, 2);
    assert_false(peer.closed);
    another_greeted();
    van_link late = peer.link;
    another_link(join.process);
    assert_true(peer.closed); // the older of the two links for heartbeats was closed
    van_link newest = peer.link;
    peer.closed = false;
    peer.link = late;
    say(MSG_HEARTBEAT, 7, &(struct msg_heartbeat){.process = join.process});
    assert_true(peer.closed);
    peer.closed = false;
    peer.link = newest;
    say(MSG_HEARTBEAT, 7, &(struct msg_heartbeat){.process = join.process});
    assert_int_equal(peer.type, MSG_HEARTBEAT_OK);
    assert_false(peer.closed);
    leave();
    w.v->ops = was;
    world_close(&w);
}

// A tool may join as a guest. If it leaves with an error, the run does not end.
static void test_guest_leaves_failing(void **state)
{
    struct msg_join join = {.role = WIRE_DRIVER,
                            .ticket = 1000,
                            .process = 2000,
                            .loops = 1,
                            .host = wire_text("h")};
    struct msg_leave failed = {.code = TUG_EIO, .why = wire_text("no more")};
    struct err why = {0};
    (void)state;
    open_world();
    greet(WIRE_TOOL);
    say(MSG_JOIN, 7, &join);
    say(MSG_LEAVE, 8, &failed);
    assert_int_equal(peer.type, MSG_OK);
    leave();
    world_run(&w, 10 * SECONDS);
    assert_false(scheduler_finished(w.s, NULL));
    greet(WIRE_OPERATOR);
    join.ticket = join.process = 3000;
    say(MSG_JOIN, 7, &join);
    say(MSG_LEAVE, 8, &failed);
    leave();
    world_run(&w, 30 * SECONDS);
    assert_true(scheduler_finished(w.s, &why));
    assert_non_null(strstr(why.text, "no more"));
    world_close(&w);
}

static void test_admin_operations_are_logged(void **state)
{
    (void)state;
    open_world();
    greet(WIRE_SERVER);
    struct msg_operation told = {.node = 99,
                                 .role = WIRE_OPERATOR,
                                 .from = wire_text("tcp://127.0.0.1:1"),
                                 .what = wire_text("save to 'x'")};
    say(MSG_OPERATION, 0,
        &told); // the peer has not joined, so its operation is not logged
    assert_null(strstr(peer.log, "save to 'x'"));
    leave();
    world_run(&w, 2 * SECONDS);
    greet(WIRE_TOOL);
    say(MSG_STOP, 5, &(struct msg_stop){.why = wire_text("enough")});
    assert_int_equal(peer.stops, 0);
    assert_non_null(strstr(peer.log, "stop needs the role 'operator'"));
    leave();
    greet(WIRE_OPERATOR);
    say(MSG_STOP, 5, &(struct msg_stop){.why = wire_text("enough")});
    assert_int_equal(peer.stops, 1);
    say(MSG_STOP, 5, &(struct msg_stop){.why = wire_text("again")});
    assert_int_equal(peer.stops, 1); // the cluster was ending already
    leave();
    world_close(&w);
}

static void test_refusals_are_few(void **state)
{
    (void)state;
    open_world();
    uint32_t lines = peer.lines;
    for (int i = 0; i < 50; i++) {
        knock(WIRE_OPERATOR);
        van_send(peer.v, peer.link, MSG_STATUS, 1, &(struct msg_status){}, NULL);
        world_run(&w, SECONDS / 50);
        van_free(peer.v);
    }
    // 50 refusals in 6 s give at most 12 lines.
    assert_in_range(peer.lines - lines, 1, 12);
    assert_non_null(strstr(peer.log, "refused: "));
    assert_non_null(strstr(peer.log, "more since the last line"));
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_hello),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_join_under_anothers_number),
        cmocka_unit_test(test_heartbeats_of_others),
        cmocka_unit_test(test_heartbeats_of_who_reads_the_roster),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_links_that_are_kept),
        cmocka_unit_test(test_guest_leaves_failing),
        cmocka_unit_test(test_admin_operations_are_logged),
        cmocka_unit_test(test_refusals_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
