// Odd messages to the scheduler, from members and strangers: too many nodes, numbers at
// the end of their range, texts that cannot be printed, requests of a second driver.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "kit/guest.h"
#include "kit/test.h"

// All loops of a process count as nodes, because members cannot read a roster beyond the
// limit of nodes.
static void test_no_more_loops(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_open();
    guest_say_hello(CLUSTER);
    struct msg_join join = {
        .role = WIRE_DRIVER, .ticket = 1, .process = 1, .loops = 1024};
    guest_say(MSG_JOIN, &join);
    assert_int_equal(guest.type, MSG_JOINED);
    uint32_t used = w.s->used_nodes;
    w.s->made_up = true;
    w.s->used_nodes = ROSTER_MAX_NODES - 1; // pretends that this many nodes have joined
    join.ticket = 2;
    join.loop = 1;
    guest_say(MSG_JOIN, &join);
    assert_int_equal(guest.type, MSG_ERROR);
    assert_non_null(strstr(guest.text, "as many nodes as it can have"));
    w.s->used_nodes = used;
    w.s->made_up = false;
    guest_say(MSG_JOIN, &join);
    assert_int_equal(guest.type, MSG_JOINED);
    guest_close();
}

// Any tool may join as a guest, but workers still find room.
static void test_many_guests(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    guest_open();
    guest_say_hello(CLUSTER);
    struct msg_join join = {.role = WIRE_DRIVER, .loops = 1};
    for (uint64_t i = 1; i <= ROSTER_MAX_NODES / 8 + 1; i++) {
        join.ticket = join.process = (1 << 16) + i;
        assert_int_equal(van_send(guest.v, guest.link, MSG_JOIN, 5, &join, NULL), 0);
    }
    world_run(&w, SECONDS / 10);
    assert_int_equal(w.s->used_nodes, 2 + ROSTER_MAX_NODES / 8);
    join = (struct msg_join){
        .role = WIRE_WORKER, .ticket = 1 << 20, .process = 1 << 20, .loops = 1};
    guest_say(MSG_JOIN, &join);
    assert_int_equal(w.s->used_nodes, 3 + ROSTER_MAX_NODES / 8);
    guest_close();
}

// A node that claims a barrier far ahead is refused: the scheduler counts barriers one
// by one, so it would never reach that barrier.
static void test_barrier_far_ahead(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add(WIRE_SERVER);
    guest_open();
    guest_join_as(WIRE_WORKER);
    world_run(&w, SECONDS);
    guest_say(MSG_ROSTER_WANTED,
              // a version of the roster that will never exist
              &(struct msg_roster_wanted){.version = 1000, .generation = 1});
    struct msg_barrier m = {.group = WIRE_GROUP_WORKERS, .number = UINT64_MAX};
    guest_say(MSG_BARRIER, &m);
    assert_int_equal(guest.type, MSG_ERROR);
    m.number = 2;
    guest_say(MSG_BARRIER, &m);
    assert_int_equal(guest.type, MSG_ERROR);
    for (m.number = 1; m.number < 4; m.number++) {
        guest_say(MSG_BARRIER, &m);
        assert_int_equal(guest.type, MSG_BARRIER_STATE);
    }
    world_crash(&w.actors[0]); // makes the scheduler check all barriers again
    world_run(&w, 10 * SECONDS);
    guest_close();
}

// Texts from peers are written to logs and terminals, so only printable texts are
// accepted; codes must be valid.
static void test_words_and_codes(void **state)
{
    (void)state;
    struct err e = {0};
    guest_open_world(1, 0);
    guest_add(WIRE_SERVER);
    guest_open();
    guest_say_hello(CLUSTER);
    guest_say(MSG_STOP,
              &(struct msg_stop){.code = 12345, .why = wire_text("a\x1b[31m\nb")});
    e = world_finish(&w, 60 * SECONDS);
    assert_int_equal(e.code, TUG_EDATA);
    assert_string_equal(e.text, "a?[31m?b");
    assert_null(strchr(w.log, '\x1b'));
    guest_close();
}

static void test_names_that_cannot_be_printed(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_open();
    struct msg_join join = {.role = WIRE_WORKER,
                            .ticket = 1,
                            .process = 1,
                            .loops = 1,
                            .host = wire_text("\xc2\x9b"),
                            .address = wire_text("")};
    guest_say_hello(CLUSTER);
    guest_say(MSG_JOIN, &join);
    assert_int_equal(guest.type, MSG_ERROR);
    assert_non_null(strstr(guest.text, "cannot be printed"));
    guest_close();
}

// A second node with a driver's rights can neither open passes nor restart the driver's
// save.
static void test_one_driver(void **state)
{
    const struct msg_pass pass = {.pass = 1};
    const struct msg_cut mine = {.save = 5}, other = {.save = 6};
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    guest_open();
    guest_join_as(WIRE_DRIVER);
    guest_say(MSG_CUT, &mine);
    assert_int_equal(guest.type, MSG_ERROR);
    assert_non_null(strstr(guest.text, "which has opened no pass"));
    guest_say(MSG_PASS, &pass);
    assert_int_equal(guest.type, MSG_PASS_STATE);
    guest_say(MSG_CUT, &mine);
    assert_int_equal(guest.type, MSG_CUT_STATE);
    struct guest driver = guest;
    guest_open_as("guest");
    guest_join_with(WIRE_DRIVER, 4712);
    assert_int_not_equal(guest.value, 0);
    guest_say(MSG_CUT, &other);
    assert_int_equal(guest.type, MSG_ERROR);
    assert_non_null(strstr(guest.text, "cut was sent by driver 1"));
    assert_non_null(strstr(guest.text, "drives this run"));
    assert_int_equal(w.s->cut.save, 5);
    guest_say(MSG_PASS, &pass);
    assert_int_equal(guest.type, MSG_ERROR);
    assert_non_null(strstr(guest.text, "pass was sent by driver 1"));
    van_free(guest.v);
    guest = driver;
    guest_say(MSG_CUT, &mine);
    assert_int_equal(guest.type, MSG_CUT_STATE);
    guest_close();
}

// Only workers may describe data and ask for leases; only the driver may open passes and
// save.
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
        guest_open_world(1, 1);
        guest_open();
        guest_say_hello(CLUSTER);
        guest_say(MSG_JOIN, &join);
        assert_int_not_equal(guest.value, 0);
        guest_say(MSG_ROSTER_WANTED,
                  &(struct msg_roster_wanted){.version = 1000, .generation = 1});
        for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
            guest_say(asked[i].type, &(union wire_any){0});
            bool may = roles[r] == WIRE_WORKER   ? asked[i].worker
                       : roles[r] == WIRE_DRIVER ? asked[i].driver
                                                 : false;
            bool refused = guest.type == MSG_ERROR &&
                           strstr(guest.text, "may send it") != NULL &&
                           strstr(guest.text, wire_name(asked[i].type)) == guest.text;
            assert_int_equal(refused, !may);
        }
        guest_close();
    }
}

// Only the codes of tug/tug.h have a meaning for the other nodes; a node that leaves with
// another code is refused.
static void test_odd_codes_of_leaving(void **state)
{
    const int32_t odd[] = {1, 77, -7, -100, INT32_MAX, INT32_MIN};
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    guest_open();
    guest_join_as(WIRE_WORKER);
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        struct msg_leave m = {.code = odd[i], .why = wire_text("because")};
        guest_say(MSG_LEAVE, &m);
        assert_int_equal(guest.type, MSG_ERROR);
        assert_non_null(strstr(guest.text, "not one of tug/tug.h"));
    }
    world_run(&w, SECONDS);
    assert_int_equal(scheduler_alive(w.s, WIRE_WORKER), 2);
    assert_false(member_ended(w.actors[0].m, NULL));
    guest_say(MSG_LEAVE,
              &(struct msg_leave){.code = TUG_EIO, .why = wire_text("because")});
    assert_int_equal(guest.type, MSG_OK);
    world_run(&w, SECONDS);
    assert_int_equal(scheduler_alive(w.s, WIRE_WORKER), 1);
    assert_false(member_ended(w.actors[0].m, NULL));
    guest_close();
}

// The largest numbers, in reports and passes, are counted or refused.
static void test_numbers_of_passes(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add(WIRE_SERVER);
    guest_add(WIRE_WORKER);
    guest_open();
    guest_join_as(WIRE_DRIVER);
    world_run(&w, SECONDS);
    const struct msg_pass bad[] = {
        {.pass = UINT64_MAX},
        {.pass = 1, .first = UINT64_MAX},
        {.pass = 1, .examples = UINT64_MAX},
        {.pass = 1, .kind = 9},
        {.pass = 1, .done = wire_text("what is this?")},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        guest_say(MSG_PASS, &bad[i]);
        assert_int_equal(guest.type, MSG_ERROR);
    }
    guest_close();
}

// Reports a move together with n others of the same number.
static void say_moves(uint32_t n, uint32_t damage)
{
    struct buf others = BUF_INIT(WIRE_TEXT_MAX);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(wire_put_moving(&others, &(struct wire_moving){7, 1, 2}), 0);
    struct msg_move_says m = {.move = 7,
                              .state = WIRE_MOVE_COPIED,
                              .why = wire_text(""),
                              .others = {others.data, (uint32_t)others.len - damage}};
    guest_say(MSG_MOVE_SAYS, &m);
    buf_free(&others);
}

// The scheduler looks for each move of a report, so a report has few of them.
static void test_report_of_many_moves(void **state)
{
    const uint32_t record = 3 * sizeof(uint64_t), most = WIRE_TEXT_MAX / record;
    (void)state;
    guest_open_world(2, 1);
    guest_add(WIRE_SERVER);
    guest_add(WIRE_WORKER);
    guest_open();
    guest_say_hello(CLUSTER);
    guest_say(MSG_JOIN, &(struct msg_join){.role = WIRE_SERVER,
                                           .ticket = 1,
                                           .process = 1,
                                           .loops = 1,
                                           .address = wire_text("sim://peer")});
    say_moves(0, 0);
    assert_int_equal(guest.type, MSG_OK);
    say_moves(WIRE_MOVES_MOST - 1, 0);
    assert_int_equal(guest.type, MSG_OK);
    for (uint32_t n = WIRE_MOVES_MOST; n <= most; n += most - WIRE_MOVES_MOST) {
        say_moves(n, 0);
        assert_int_equal(guest.type, MSG_ERROR);
        assert_string_equal(
            guest.text,
            "a report has more than 62 moves; report the rest in another message");
    }
    say_moves(2, 1);
    assert_int_equal(guest.type, MSG_ERROR);
    assert_string_equal(guest.text, "a report has a damaged list of moves");
    guest_close();
}

// Heartbeats may arrive before their process joins. If memory runs out during the join,
// the link must be detached from the process again: otherwise the next process in that
// entry would seem silent when the link closes.
static void test_heartbeats_before_a_failed_join(void **state)
{
    (void)state;
    bool struck = true;
    for (long k = 0; struck; k++) {
        guest_open_world(1, 1);
        guest_open();
        guest_say_hello(CLUSTER);
        guest_say(MSG_HEARTBEAT, &(struct msg_heartbeat){.process = 4711});
        struct msg_join join = {
            .role = WIRE_WORKER, .ticket = 4711, .process = 4711, .loops = 1};
        guest.type = 0;
        assert_int_equal(van_send(guest.v, guest.link, MSG_JOIN, 5, &join, NULL), 0);
        mem_fault_after(k);
        world_run(&w, SECONDS / 10);
        struck = mem_faulted();
        mem_fault_after(-1);
        for (uint32_t i = 0; i < w.s->n_links; i++)
            assert_true(w.s->links[i].beats == SCHEDULER_NOBODY ||
                        w.s->processes[w.s->links[i].beats].used);
        guest_say(MSG_JOIN, &join);
        assert_int_equal(guest.type, MSG_JOINED);
        guest_close();
    }
}

// A link that gets heartbeats of one process and then of another belongs only to the
// latter process. scheduler_check asserts this after each message.
static void test_heartbeats_of_two_processes(void **state)
{
    static const uint64_t processes[] = {501, 4711, 501, 0, 501, 500, 4711, 500};
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    guest_open();
    guest_say_hello(CLUSTER);
    for (size_t i = 0; i < sizeof(processes) / sizeof(*processes); i++) {
        guest_say(MSG_HEARTBEAT, &(struct msg_heartbeat){.process = processes[i]});
        assert_int_equal(guest.type, MSG_HEARTBEAT_OK);
        for (uint32_t k = 0; k < w.s->n_links; k++)
            assert_true(w.s->links[k].beats == SCHEDULER_NOBODY ||
                        w.s->processes[w.s->links[k].beats].process == processes[i]);
    }
    world_run(&w, 20 * SECONDS); // the members answer when they are asked
    assert_true(roster_find(scheduler_roster(w.s), 9)->alive);
    guest_close();
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
        cmocka_unit_test(test_heartbeats_before_a_failed_join),
        cmocka_unit_test(test_heartbeats_of_two_processes),
        cmocka_unit_test(test_report_of_many_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
