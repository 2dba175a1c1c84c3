// What members and strangers should not say to the scheduler: too many of them, numbers
// at the end of their range, words that cannot be printed, another driver's orders.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/scheduler_testing.h"

// Further loops of who is there count, too: nobody reads a roster of more
// nodes than there may be.
static void test_no_more_loops(void **state)
{
    (void)state;
    open_world(1, 1);
    open_peer();
    say_hello(CLUSTER);
    struct msg_join join = {
        .role = WIRE_DRIVER, .ticket = 1, .process = 1, .loops = 1024};
    say(MSG_JOIN, &join);
    assert_int_equal(peer.type, MSG_JOINED);
    uint32_t used = w.s->used_nodes;
    w.s->made_up = true;
    w.s->used_nodes = ROSTER_MAX_NODES - 1; // as if
    join.ticket = 2;
    join.loop = 1;
    say(MSG_JOIN, &join);
    assert_int_equal(peer.type, MSG_ERROR);
    assert_non_null(strstr(peer.text, "as many nodes as it can have"));
    w.s->used_nodes = used;
    w.s->made_up = false;
    say(MSG_JOIN, &join);
    assert_int_equal(peer.type, MSG_JOINED);
    close_peer();
}

// Anybody who may look may join as a guest, but workers still find a place.
static void test_many_guests(void **state)
{
    (void)state;
    open_world(1, 1);
    add_all(1, 1, false);
    open_peer();
    say_hello(CLUSTER);
    struct msg_join join = {.role = WIRE_DRIVER, .loops = 1};
    for (uint64_t i = 1; i <= ROSTER_MAX_NODES / 8 + 1; i++) {
        join.ticket = join.process = (1 << 16) + i;
        assert_int_equal(van_send(peer.v, peer.link, MSG_JOIN, 5, &join, NULL), 0);
    }
    world_run(&w, SECONDS / 10);
    assert_int_equal(w.s->used_nodes, 2 + ROSTER_MAX_NODES / 8);
    join = (struct msg_join){
        .role = WIRE_WORKER, .ticket = 1 << 20, .process = 1 << 20, .loops = 1};
    say(MSG_JOIN, &join);
    assert_int_equal(w.s->used_nodes, 3 + ROSTER_MAX_NODES / 8);
    close_peer();
}

// Generations are counted one by one: a node that is far ahead would make the scheduler
// count for ever.
static void test_barrier_far_ahead(void **state)
{
    (void)state;
    open_world(1, 1);
    add(WIRE_SERVER);
    open_peer();
    join_as(WIRE_WORKER);
    world_run(&w, SECONDS);
    say(MSG_ROSTER_WANTED,
        &(struct msg_roster_wanted){.version = 1000}); // no more of them
    struct msg_barrier m = {.group = WIRE_GROUP_WORKERS, .generation = UINT64_MAX};
    say(MSG_BARRIER, &m);
    assert_int_equal(peer.type, MSG_ERROR);
    m.generation = 2;
    say(MSG_BARRIER, &m);
    assert_int_equal(peer.type, MSG_ERROR);
    for (m.generation = 1; m.generation < 4; m.generation++) {
        say(MSG_BARRIER, &m);
        assert_int_equal(peer.type, MSG_BARRIER_STATE);
    }
    world_crash(&w.actors[0]); // all barriers are looked at again
    world_run(&w, 10 * SECONDS);
    close_peer();
}

// What others say goes to logs and terminals, and their codes are those that there are.
static void test_words_and_codes(void **state)
{
    (void)state;
    struct err e = {0};
    open_world(1, 0);
    add(WIRE_SERVER);
    open_peer();
    say_hello(CLUSTER);
    say(MSG_STOP, &(struct msg_stop){.code = 12345, .why = wire_text("a\x1b[31m\nb")});
    e = world_finish(&w, 60 * SECONDS);
    assert_int_equal(e.code, TUG_EDATA);
    assert_string_equal(e.text, "a?[31m?b");
    assert_null(strchr(w.log, '\x1b'));
    close_peer();
}

static void test_names_that_cannot_be_printed(void **state)
{
    (void)state;
    open_world(1, 1);
    open_peer();
    struct msg_join join = {.role = WIRE_WORKER,
                            .ticket = 1,
                            .process = 1,
                            .loops = 1,
                            .host = wire_text("\xc2\x9b"),
                            .address = wire_text("")};
    say_hello(CLUSTER);
    say(MSG_JOIN, &join);
    assert_int_equal(peer.type, MSG_ERROR);
    assert_non_null(strstr(peer.text, "cannot be printed"));
    close_peer();
}

// Another one with the rights of a driver neither opens passes nor begins the driver's
// save anew.
static void test_one_driver(void **state)
{
    const struct msg_pass pass = {.pass = 1};
    const struct msg_cut mine = {.save = 5}, other = {.save = 6};
    (void)state;
    open_world(1, 1);
    add_all(1, 1, false);
    open_peer();
    join_as(WIRE_DRIVER);
    say(MSG_CUT, &mine);
    assert_int_equal(peer.type, MSG_ERROR);
    assert_non_null(strstr(peer.text, "which has opened no pass"));
    say(MSG_PASS, &pass);
    assert_int_equal(peer.type, MSG_PASS_STATE);
    say(MSG_CUT, &mine);
    assert_int_equal(peer.type, MSG_CUT_STATE);
    struct peer driver = peer;
    open_peer_as("guest");
    join_with(WIRE_DRIVER, 4712);
    assert_int_not_equal(peer.value, 0);
    say(MSG_CUT, &other);
    assert_int_equal(peer.type, MSG_ERROR);
    assert_non_null(strstr(peer.text, "cut of driver 1"));
    assert_non_null(strstr(peer.text, "drives this run"));
    assert_int_equal(w.s->cut.save, 5);
    say(MSG_PASS, &pass);
    assert_int_equal(peer.type, MSG_ERROR);
    assert_non_null(strstr(peer.text, "pass of driver 1"));
    van_free(peer.v);
    peer = driver;
    say(MSG_CUT, &mine);
    assert_int_equal(peer.type, MSG_CUT_STATE);
    close_peer();
}

// Data and leases are the workers' business, passes and saves the driver's.
static void test_parts(void **state)
{
    static const struct {
        uint16_t type;
        bool worker, driver;
    } asked[] = {{MSG_DATA, true, false},        {MSG_LEASE, true, false},
                 {MSG_PIECE_DONE, true, false},  {MSG_SCHEMA, false, true},
                 {MSG_PASS, false, true},        {MSG_CUT, false, true},
                 {MSG_PASS_WANTED, false, true}, {MSG_DATA_WANTED, true, true}};
    static const enum wire_role roles[] = {WIRE_SERVER, WIRE_WORKER, WIRE_DRIVER};
    (void)state;
    for (int r = 0; r < 3; r++) {
        struct msg_join join = {.role = (uint8_t)roles[r],
                                .ticket = 1,
                                .process = 1,
                                .loops = 1,
                                .address = wire_text("sim://peer")};
        open_world(1, 1);
        open_peer();
        say_hello(CLUSTER);
        say(MSG_JOIN, &join);
        assert_int_not_equal(peer.value, 0);
        say(MSG_ROSTER_WANTED, &(struct msg_roster_wanted){.version = 1000});
        for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
            say(asked[i].type, &(union wire_any){0});
            bool may = roles[r] == WIRE_WORKER   ? asked[i].worker
                       : roles[r] == WIRE_DRIVER ? asked[i].driver
                                                 : false;
            bool refused = peer.type == MSG_ERROR &&
                           strstr(peer.text, "may ask for that") != NULL &&
                           strstr(peer.text, wire_name(asked[i].type)) == peer.text;
            assert_int_equal(refused, !may);
        }
        close_peer();
    }
}

// What a code means for the others is decided for those of tug/tug.h; nobody leaves with
// another one.
static void test_odd_codes_of_leaving(void **state)
{
    const int32_t odd[] = {1, 77, -7, -100, INT32_MAX, INT32_MIN};
    (void)state;
    open_world(1, 1);
    add_all(1, 1, false);
    open_peer();
    join_as(WIRE_WORKER);
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        struct msg_leave m = {.code = odd[i], .why = wire_text("because")};
        say(MSG_LEAVE, &m);
        assert_int_equal(peer.type, MSG_ERROR);
        assert_non_null(strstr(peer.text, "not one of tug/tug.h"));
    }
    world_run(&w, SECONDS);
    assert_int_equal(scheduler_alive(w.s, WIRE_WORKER), 2);
    assert_false(member_ended(w.actors[0].m, NULL));
    say(MSG_LEAVE, &(struct msg_leave){.code = TUG_EIO, .why = wire_text("because")});
    assert_int_equal(peer.type, MSG_OK);
    world_run(&w, SECONDS);
    assert_int_equal(scheduler_alive(w.s, WIRE_WORKER), 1);
    assert_false(member_ended(w.actors[0].m, NULL));
    close_peer();
}

// The end of all numbers, as reports and passes: counted, or refused.
static void test_numbers_of_passes(void **state)
{
    (void)state;
    open_world(1, 1);
    add(WIRE_SERVER);
    add(WIRE_WORKER);
    open_peer();
    join_as(WIRE_DRIVER);
    world_run(&w, SECONDS);
    const struct msg_pass bad[] = {
        {.pass = UINT64_MAX},
        {.pass = 1, .first = UINT64_MAX},
        {.pass = 1, .examples = UINT64_MAX},
        {.pass = 1, .kind = 9},
        {.pass = 1, .done = wire_text("what is this?")},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        say(MSG_PASS, &bad[i]);
        assert_int_equal(peer.type, MSG_ERROR);
    }
    close_peer();
}

// Heartbeats may come before their process joins. When there is no memory for it then, the
// link is nobody's again: else the next process in that place would seem to fall silent
// when it closes.
static void test_heartbeats_of_nobody(void **state)
{
    (void)state;
    bool struck = true;
    for (long k = 0; struck; k++) {
        open_world(1, 1);
        open_peer();
        say_hello(CLUSTER);
        say(MSG_HEARTBEAT, &(struct msg_heartbeat){.process = 4711});
        struct msg_join join = {
            .role = WIRE_WORKER, .ticket = 4711, .process = 4711, .loops = 1};
        peer.type = 0;
        assert_int_equal(van_send(peer.v, peer.link, MSG_JOIN, 5, &join, NULL), 0);
        mem_fault_after(k);
        world_run(&w, SECONDS / 10);
        struck = mem_faulted();
        mem_fault_after(-1);
        for (uint32_t i = 0; i < w.s->n_links; i++)
            assert_true(w.s->links[i].beats == SCHEDULER_NOBODY ||
                        w.s->processes[w.s->links[i].beats].used);
        say(MSG_JOIN, &join);
        assert_int_equal(peer.type, MSG_JOINED);
        close_peer();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_more_loops),
        cmocka_unit_test(test_many_guests),
        cmocka_unit_test(test_barrier_far_ahead),
        cmocka_unit_test(test_words_and_codes),
        cmocka_unit_test(test_names_that_cannot_be_printed),
        cmocka_unit_test(test_one_driver),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_odd_codes_of_leaving),
        cmocka_unit_test(test_numbers_of_passes),
        cmocka_unit_test(test_heartbeats_of_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
