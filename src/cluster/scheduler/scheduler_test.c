// Separate cases of the scheduler: ids and ranks, missing and dead nodes, the cluster's
// end, and messages to all nodes.
//
// SPDX-License-Identifier: Apache-2.0
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "kit/guest.h"
#include "kit/test.h"

// Checks the cluster's result, and that all living nodes got the same code, reason and
// text. Returns the reason.
static enum reason check_end(int code, const char *text)
{
    struct err e = world_finish(&w, 200 * SECONDS), why;
    assert_string_equal(e.text, text);
    assert_int_equal(e.code, code);
    for (uint32_t i = 0; i < w.n; i++) {
        struct actor *a = &w.actors[i];
        if (a->crashed || a->over || a->leaves_with != 0)
            continue;
        assert_true(member_ended(a->m, &why));
        assert_string_equal(why.text, text);
        assert_int_equal(why.code, code);
        assert_int_equal(why.reason, REASON_RUN_ENDED);
        assert_int_equal(why.about, e.reason);
    }
    world_close(&w);
    return e.reason;
}

// The link of a tool that has been silent for a long time is closed; nodes keep their
// links.
static void test_idle_tool(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    guest_open();
    guest_say_hello(CLUSTER);
    for (int i = 0; i < 4; i++) { // the tool asks now and then
        world_run(&w, 200 * SECONDS);
        assert_false(guest.closed);
        guest_say(MSG_STATUS, &(struct msg_status){});
        assert_int_equal(guest.type, MSG_STATUS_IS);
    }
    world_run(&w, 400 * SECONDS);
    assert_true(guest.closed);
    for (uint32_t i = 0; i < w.n; i++)
        assert_true(member_ready(w.actors[i].m) && !member_ended(w.actors[i].m, NULL));
    guest_close();
}

// A node gets the rank that it asks for, and the id of that rank, if the rank is free and
// below the number for which the cluster was made.
static void test_wanted_ranks(void **state)
{
    (void)state;
    static const uint32_t wishes[] = {3, 1, 1, 9}, ranks[] = {2, 0, 1, 3};
    guest_open_world(1, 4);
    guest_add(WIRE_SERVER);
    for (uint32_t i = 0; i < 4; i++) {
        struct member_options o = world_member(&w, WIRE_WORKER, w.n);
        o.wish = wishes[i];
        world_add_with(&w, &o);
        world_run(&w, SECONDS / 2);
    }
    world_run(&w, SECONDS);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(member_rank(w.actors[1 + i].m), ranks[i]);
    for (uint32_t i = 0; i < 4; i++) // computes ids from ranks as programs for ps-lite do
        assert_int_equal(member_id(w.actors[1 + i].m), 9 + 2 * ranks[i]);
    world_close(&w);
}

static void test_ids_and_ranks(void **state)
{
    (void)state;
    guest_open_world(2, 2);
    guest_add_all(2, 2, true);
    static const uint32_t ids[] = {8, 10, 9, 11, 1000000}, ranks[] = {0, 1, 0, 1, 0};
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(member_id(w.actors[i].m), ids[i]);
        assert_int_equal(member_rank(w.actors[i].m), ranks[i]);
        assert_int_equal(member_session(w.actors[i].m), 1001 + i);
    }
    const struct roster *r = member_roster(w.actors[4].m);
    assert_int_equal(r->epoch, 1);
    assert_int_equal(r->n_nodes, 6);
    assert_string_equal(roster_find(r, 1)->address, "sim://scheduler");
    world_close(&w);
}

static void test_missing_worker(void **state)
{
    (void)state;
    guest_open_world(1, 2);
    guest_add(WIRE_SERVER);
    guest_add(WIRE_WORKER);
    check_end(TUG_EIO, "waited 60 s for 1 of 2 workers: missing worker 1");
}

static void test_missing_loops(void **state)
{
    (void)state;
    guest_open_world(2, 1);
    struct member_options o = world_member(&w, WIRE_SERVER, 0);
    o.loops = 3;
    world_add_with(&w, &o);
    check_end(TUG_EIO, "waited 60 s for 2 of 2 servers and 1 of 1 worker: missing server "
                       "0 (1 of its 3 loops have joined), server 1, worker 0");
}

static json_t *status_of(void)
{
    struct buf json = BUF_INIT(WIRE_SPAN_MAX);
    assert_int_equal(scheduler_json(w.s, &json), 0);
    json_t *status = json_loadb(json.data, json.len, 0, NULL);
    assert_non_null(status);
    buf_free(&json);
    return status;
}

// A process with two loops is one server, and the ranges of its loops are adjacent.
static void test_loops(void **state)
{
    (void)state;
    guest_open_world(2, 1);
    for (uint32_t i = 0; i < 4; i++) {
        struct member_options o = world_member(&w, WIRE_SERVER, i);
        o.process = 600 + i % 2;
        o.loop = (uint16_t)(i / 2);
        o.loops = 2;
        o.tables = i / 2 == 0 ? WIRE_TABLES_SPARSE : WIRE_TABLES_DENSE;
        world_add_with(&w, &o);
        world_run(&w, SECONDS / 2);
    }
    guest_add(WIRE_WORKER);
    world_run(&w, SECONDS);
    const struct roster *r = member_roster(w.actors[4].m);
    assert_int_equal(r->epoch, 1);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(member_rank(w.actors[i].m), i % 2);
    for (uint32_t p = 0; p < 64; p++) {
        assert_in_range(r->owners[WIRE_SPACE_SPARSE][p], 8, 10);
        assert_in_range(r->owners[WIRE_SPACE_DENSE][p], 12, 14);
        assert_int_equal(r->owners[WIRE_SPACE_RANGE][p], p < 32 ? 8 : 10);
    }
    json_t *told = status_of();
    size_t i, joins = 0;
    const json_t *o;
    json_array_foreach(json_object_get(told, "operations"), i, o)
        joins += strcmp(json_string_value(json_object_get(o, "what")), "join") == 0;
    assert_int_equal(joins, 3); // each process counts once, not each of its loops
    json_decref(told);
    world_crash(&w.actors[2]);
    world_crash(&w.actors[0]);
    struct err e = world_finish(&w, 60 * SECONDS);
    assert_int_equal(e.code, TUG_EIO);
    assert_non_null(strstr(e.text, "server 0 (host:10) was lost with partitions "));
    assert_non_null(strstr(e.text, " of 64, which have no replica; --resume "
                                   "continues from the last save, if there is one"));
    world_close(&w);
}

static void test_server_dies(void **state)
{
    (void)state;
    guest_open_world(1, 2);
    guest_add_all(1, 2, false);
    w.actors[1].late = true; // this worker does nothing
    world_crash(&w.actors[0]);
    check_end(
        TUG_EIO,
        "server 0 (host:10) was lost with partitions 0-63 of 64, "
        "which have no replica; --resume continues from the last save, if there is one");
}

// After a server's death, a member that asks for the roster gets none, because some
// partitions have no owner.
static void test_roster_without_server(void **state)
{
    (void)state;
    guest_open_world(2, 1);
    guest_add_all(2, 1, false);
    w.actors[1].act_at = UINT64_MAX; // the worker stays in the cluster
    world_crash(&w.actors[0]);
    world_run(&w, 7 * SECONDS);
    guest_open();
    guest_say_hello(CLUSTER);
    guest_say(MSG_ROSTER_WANTED, &(struct msg_roster_wanted){0});
    assert_int_equal(guest.type, MSG_OK);
    guest_close();
}

static void test_worker_dies(void **state)
{
    (void)state;
    guest_open_world(1, 2);
    w.with_work = true;
    w.pieces = 30;
    w.passes = 3;
    w.go_on = true;
    guest_add_all(1, 2, true);
    world_crash(&w.actors[1]);
    check_end(0, "");
}

static void test_last_worker_dies(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    w.with_work = true;
    w.pieces = 60; // enough pieces that some are left when the server dies
    w.passes = 3;
    guest_add_all(1, 1, true);
    world_crash(&w.actors[1]);
    check_end(TUG_EIO, "worker 0 (host:11) has disconnected without giving a reason");
}

// In programs without a driver the run is over when all workers have left.
static void test_without_driver(void **state)
{
    (void)state;
    guest_open_world(2, 2);
    guest_add_all(2, 2, false);
    member_leave(w.actors[2].m, NULL);
    w.actors[2].over = true;
    world_run(&w, 20 * SECONDS);
    assert_false(scheduler_finished(w.s, NULL));
    member_leave(w.actors[3].m, NULL);
    w.actors[3].over = true;
    check_end(0, "");
}

// A worker's death is not a failure once another worker with the same rank has done the
// work.
static void worker_is_replaced(bool well)
{
    guest_open_world(1, 2);
    guest_add_all(1, 2, false);
    world_crash(&w.actors[1]);
    world_run(&w, 6 * SECONDS);
    struct actor *instead = guest_add(WIRE_WORKER);
    assert_int_equal(member_rank(instead->m), 0);
    member_leave(w.actors[2].m, NULL);
    w.actors[2].over = true;
    world_run(&w, SECONDS);
    if (well) {
        member_leave(instead->m, NULL);
        instead->over = true;
        check_end(0, "");
    } else {
        world_crash(instead);
        check_end(TUG_EIO, "worker 0 (host:11) has disconnected without giving a reason");
    }
}

static void test_worker_replaced(void **state)
{
    (void)state;
    worker_is_replaced(true);
    worker_is_replaced(false);
}

static void test_fatal_leave(void **state)
{
    (void)state;
    guest_open_world(1, 2);
    guest_add_all(1, 2, true);
    w.actors[2].leaves_with = TUG_EDATA;
    assert_int_equal(
        check_end(TUG_EDATA, "worker 1 (host:12) ended with code 3: its own reason"),
        REASON_DIVERGED);
}

// In the log an operation's name follows from the message's `kind`, not from its text.
static void test_kinds_of_admin_operations(void **state)
{
    (void)state;
    static const char *const kinds[] = {"admin", "save", "profile", "stop", "drain"};
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    for (unsigned kind = 0; kind <= WIRE_OPERATIONS; kind++) {
        struct msg_operation m = {.kind = (uint8_t)kind, .what = wire_text("stop")};
        member_tell(w.actors[0].m, MSG_OPERATION, &m);
        world_run(&w, SECONDS);
        struct buf json = BUF_INIT(WIRE_SPAN_MAX);
        assert_int_equal(scheduler_json(w.s, &json), 0);
        json_t *status = json_loadb(json.data, json.len, 0, NULL);
        const json_t *all = json_object_get(status, "operations");
        const json_t *last = json_array_get(all, json_array_size(all) - 1);
        assert_string_equal(json_string_value(json_object_get(last, "text")), "stop");
        assert_string_equal(json_string_value(json_object_get(last, "what")),
                            kinds[kind < WIRE_OPERATIONS ? kind : WIRE_OPERATION_OTHER]);
        json_decref(status);
        buf_free(&json);
    }
    world_close(&w);
}

// If a worker fails in a way that does not affect other nodes, the run continues, and the
// failure becomes the result of the run.
static void test_failing_leave(void **state)
{
    (void)state;
    guest_open_world(1, 2);
    guest_add_all(1, 2, false);
    w.actors[1].leaves_with = TUG_EIO;
    world_run(&w, 10 * SECONDS);
    assert_false(member_ended(w.actors[2].m, NULL));
    member_leave(w.actors[2].m, NULL);
    w.actors[2].over = true;
    assert_int_equal(
        check_end(TUG_EIO, "worker 0 (host:11) ended with code 4: its own reason"),
        REASON_DIVERGED);
}

static void test_driver_dies(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    w.with_work = true;
    w.passes = 1;
    w.pieces = 3;
    guest_add_all(1, 1, true);
    world_crash(&w.actors[2]);
    check_end(TUG_EIO, "driver 0 (host:12) has disconnected without giving a reason");
}

// Guests have the role of a driver but open no pass, and the run does not need them.
static void test_guests_come_and_go(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    w.actors[1].act_at = UINT64_MAX; // the worker stays in the cluster
    guest_add_all(1, 1, true);
    world_crash(&w.actors[2]);
    guest_add(WIRE_DRIVER);
    world_run(&w, 10 * SECONDS);
    assert_true(member_ready(w.actors[3].m));
    member_leave(w.actors[3].m, NULL);
    w.actors[3].over = true;
    world_run(&w, 10 * SECONDS);
    assert_false(member_ended(w.actors[1].m, NULL));
    member_leave(w.actors[1].m, NULL);
    w.actors[1].over = true;
    check_end(0, "");
}

static void test_stopped_from_inside(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, true);
    scheduler_stop(w.s, &(struct err){.code = TUG_EINTERRUPTED, .text = "interrupted"});
    check_end(TUG_EINTERRUPTED, "interrupted");
}

// The scheduler waits for nodes to leave only for a limited time.
static void test_node_does_not_leave(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    w.actors[0].act_at = UINT64_MAX; // the server never notices the end
    scheduler_stop(w.s, NULL);
    world_run(&w, 31 * SECONDS);
    struct err e;
    assert_true(scheduler_finished(w.s, &e));
    assert_string_equal(e.text, "server 0 (host:10) has not left within 30 s");
    world_close(&w);
}

static void test_late_joins(void **state)
{
    (void)state;
    guest_open_world(1, 2);
    guest_add_all(1, 2, false);
    struct actor *surplus = guest_add(WIRE_SERVER);
    struct err why;
    assert_true(member_ended(surplus->m, &why));
    assert_int_equal(why.code, TUG_EIO);
    assert_string_equal(why.text,
                        "this cluster was started for 1 server, and it has joined; a "
                        "server that is added later is started with --join");
    assert_int_equal(member_rank(guest_add(WIRE_WORKER)->m), 2);
    world_crash(&w.actors[1]);
    world_run(&w, 6 * SECONDS);
    struct actor *instead = guest_add(WIRE_WORKER);
    assert_int_equal(member_rank(instead->m), 0);
    assert_true(member_ready(instead->m));
    assert_false(roster_find(member_roster(instead->m), 9)->alive);
    world_close(&w);
}

// A broken link changes nothing if the node connects again in time.
static void test_link_breaks(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    uint64_t version = scheduler_roster(w.s)->version;
    uint64_t session = member_session(w.actors[1].m);
    for (int i = 0; i < 5; i++) {
        sim_set_faults(w.sim, 0, 0, 0, 1);
        // Makes the member send a message to the scheduler.
        member_want_roster(w.actors[1].m, 2 + (uint64_t)i);
        world_run(&w, 20 * MILLIS);
        sim_set_faults(w.sim, 0, 0, 0, 0);
        world_run(&w, 10 * SECONDS);
    }
    assert_int_equal(member_session(w.actors[1].m), session);
    assert_int_equal(scheduler_roster(w.s)->version, version);
    assert_false(member_ended(w.actors[1].m, NULL));
    world_close(&w);
}

// A node that was unreachable for too long is told, when it comes back, that it counts as
// dead.
static void test_given_up(void **state)
{
    (void)state;
    guest_open_cut_off();
    world_run(&w, 7 * SECONDS);
    assert_false(roster_find(member_roster(w.actors[2].m), 9)->alive);
    sim_partition(w.sim, w.v, w.actors[1].v, false);
    world_run(&w, 10 * SECONDS);
    struct err why;
    assert_true(member_ended(w.actors[1].m, &why));
    assert_string_equal(why.text,
                        "worker 0 (host:11) counts as dead: it gave no sign of life "
                        "for 5 s");
    world_close(&w);
}

// A node that the end of the cluster did not reach, and that was given up afterwards, is
// told why the cluster has ended, and can leave.
static void test_given_up_at_the_end(void **state)
{
    (void)state;
    guest_open_cut_off();
    scheduler_stop(w.s, &(struct err){.code = TUG_EIO, .text = "server 0 is gone"});
    world_run(&w, 7 * SECONDS);
    assert_false(roster_find(scheduler_roster(w.s), 9)->alive);
    assert_false(member_ended(w.actors[1].m, NULL));
    sim_partition(w.sim, w.v, w.actors[1].v, false);
    world_run(&w, 10 * SECONDS);
    struct err why;
    assert_true(member_ended(w.actors[1].m, &why));
    assert_int_equal(why.code, TUG_EIO);
    assert_string_equal(why.text, "server 0 is gone");
    assert_true(member_left(w.actors[1].m));
    world_close(&w);
}

static void test_scheduler_gone(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    sim_crash(w.sim, w.v);
    world_run(&w, 130 * SECONDS);
    for (int i = 0; i < 2; i++) {
        struct err why;
        assert_true(member_ended(w.actors[i].m, &why));
        assert_int_equal(why.code, TUG_EIO);
        assert_non_null(strstr(
            why.text, "the scheduler at sim://scheduler could not be reached for 60 s"));
        assert_true(member_left(w.actors[i].m));
    }
    world_close(&w);
}

// No message gets through, but no link closes: the member notices the silence.
static void test_scheduler_silent(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    sim_partition(w.sim, w.v, w.actors[1].v, true);
    world_run(&w, 130 * SECONDS);
    struct err why;
    assert_true(member_ended(w.actors[1].m, &why));
    assert_non_null(strstr(why.text, "could not be reached for 60 s"));
    world_close(&w);
}

static bool done(uint32_t actor, const char **missing)
{
    return member_barrier_done(w.actors[actor].m, WIRE_GROUP_WORKERS, missing);
}

static void reach(uint32_t actor)
{
    member_barrier(w.actors[actor].m, WIRE_GROUP_WORKERS);
    world_run(&w, 20 * MILLIS);
}

static void test_barrier(void **state)
{
    (void)state;
    const char *missing;
    guest_open_world(1, 3);
    guest_add_all(1, 3, false);
    reach(1);
    reach(2);
    world_run(&w, 20 * SECONDS); // the member asks again, and is told which nodes are
                                 // missing
    assert_false(done(1, &missing));
    assert_string_equal(missing, "worker 2 (host:13)");
    reach(3);
    for (uint32_t i = 1; i <= 3; i++)
        assert_true(done(i, NULL));

    // After a late node has reached its first barrier, all barriers wait for the node.
    struct actor *late = guest_add(WIRE_WORKER);
    for (uint32_t i = 1; i <= 3; i++)
        reach(i);
    assert_true(done(1, NULL));
    reach(4);
    assert_false(done(4, NULL));
    for (uint32_t i = 1; i <= 3; i++)
        reach(i);
    assert_true(done(4, NULL));
    assert_true(done(1, NULL));
    reach(1);
    reach(2);
    reach(3);
    assert_false(done(1, NULL)); // the barrier also waits for the late node
    world_crash(late);
    world_run(&w, 6 * SECONDS);
    assert_true(done(1, NULL)); // the barrier does not wait for the dead node
    world_close(&w);
}

// In a program whose scheduler takes part, the scheduler's member has id 1. Barriers wait
// for this member even if it joins after the first barrier of the other members.
static void test_scheduler_as_member(void **state)
{
    (void)state;
    const uint8_t all = WIRE_GROUP_SCHEDULER | WIRE_GROUP_SERVERS | WIRE_GROUP_WORKERS;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    for (uint32_t i = 0; i < 2; i++)
        member_barrier(w.actors[i].m, all);
    world_run(&w, SECONDS);
    struct actor *a = guest_add(WIRE_SCHEDULER);
    assert_int_equal(member_id(a->m), 1);
    assert_string_equal(roster_find(member_roster(w.actors[1].m), 1)->address,
                        "sim://somewhere");
    for (int number = 1; number <= 2; number++) {
        member_barrier(a->m, all);
        world_run(&w, SECONDS);
        assert_int_equal(member_barrier_done(a->m, all, NULL), number == 1);
    }
    for (uint32_t i = 0; i < 2; i++)
        member_barrier(w.actors[i].m, all);
    world_run(&w, SECONDS);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(member_barrier_done(w.actors[i].m, all, NULL));
    world_close(&w);
}

// Values that a roster cannot encode are refused at the join: a roster with such a value
// would end all members.
static void test_bad_joins(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    guest_add(WIRE_SCHEDULER);
    struct msg_join m = {.role = WIRE_SCHEDULER, .ticket = 77, .process = 77, .loops = 1};
    guest_open();
    guest_say_hello(CLUSTER);
    guest_say(MSG_JOIN, &m);
    assert_int_equal(guest.type, MSG_ERROR);
    assert_string_equal(guest.text, "the cluster has its scheduler already");
    m.loops = 2;
    guest_say(MSG_JOIN, &m);
    assert_int_equal(guest.type, MSG_ERROR);
    m = (struct msg_join){.role = WIRE_WORKER, .ticket = 78, .process = 78, .loops = 1};
    m.host = wire_text("\x1b[2Jhost");
    guest_say(MSG_JOIN, &m);
    assert_int_equal(guest.type, MSG_ERROR);
    assert_string_equal(guest.text, "its address or host name cannot be printed");
    for (uint32_t i = 0; i < w.n; i++)
        assert_false(member_ended(w.actors[i].m, NULL));
    guest_close();
}

// A restarted scheduler knows none of the earlier nodes. These nodes all end, with a
// reason, even if the clock was set back and the scheduler gives the same session numbers
// again.
static void test_started_again(void **state)
{
    (void)state;
    for (int same_clock = 0; same_clock < 2; same_clock++) {
        struct scheduler_options o = world_options(2, 1);
        guest_open_world(2, 1);
        guest_add_all(2, 1, false);
        o.session_base += same_clock ? 0 : 1000000;
        world_restart_scheduler(&w, &o);
        guest_add(WIRE_WORKER); // a new worker, which may join
        world_run(&w, 5 * SECONDS);
        for (uint32_t i = 0; i < 3; i++) {
            struct err why = {0};
            assert_true(member_ended(w.actors[i].m, &why));
            assert_int_equal(why.code, TUG_EIO);
            assert_non_null(strstr(why.text, same_clock ? "know" : "started again"));
        }
        assert_false(member_ended(w.actors[3].m, NULL));
        assert_int_equal(scheduler_roster(w.s)->epoch, 0);
        world_close(&w);
    }
}

// A guest that has left is forgotten after a while: its session stays over, and its
// numbers are never used again.
static void test_guests_are_forgotten(void **state)
{
    (void)state;
    enum { GUESTS = 5000, AT_ONCE = 500 };
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    guest_open();
    guest_say_hello(CLUSTER);
    uint64_t first = 0;
    for (uint64_t i = 0; i < GUESTS; i++) {
        struct msg_join m = {
            .role = WIRE_DRIVER, .ticket = 1000 + i, .process = 1000 + i, .loops = 1};
        uint64_t before = guest.value;
        guest_say(MSG_JOIN, &m);
        assert_true(guest.value > before);
        first = i == 0 ? guest.value : first;
        guest_say(MSG_LEAVE, &(struct msg_leave){0});
        assert_int_equal(guest.type, MSG_OK);
        assert_in_range(scheduler_roster(w.s)->n_nodes, 3, AT_ONCE);
    }
    const struct roster *r = member_roster(w.actors[0].m);
    assert_true(roster_session_over(r, first));
    assert_false(roster_session_over(r, member_session(w.actors[1].m)));
    assert_false(roster_session_over(r, guest.value + 1000));
    world_run(&w, 15 * SECONDS);
    // the scheduler's own line, and two nodes
    assert_int_equal(scheduler_roster(w.s)->n_nodes, 3);
    assert_int_equal(member_roster(w.actors[0].m)->n_nodes, 3);
    guest_say(MSG_STATUS, &(struct msg_status){});
    assert_null(strstr(guest.text, "driver"));
    guest_say(MSG_LEAVE, &(struct msg_leave){0}); // repeats LEAVE long afterwards
    assert_false(guest.closed);
    for (uint32_t i = 0; i < w.n; i++)
        assert_false(member_ended(w.actors[i].m, NULL));
    guest_close();
}

static void test_other_cluster(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_open();
    guest_say_hello(CLUSTER + 1);
    assert_int_equal(guest.type, MSG_ERROR);
    assert_non_null(strstr(guest.text,
                           "this is the scheduler of cluster 000000000000004d "
                           "at sim://scheduler, not of your cluster"));
    assert_true(guest.closed);
    guest_close();
}

static void test_no_hello(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_open();
    guest_say(MSG_STATUS, &(struct msg_status){});
    assert_int_equal(guest.type, MSG_ERROR);
    assert_true(guest.closed);
    guest_close();
}

static void test_tool(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    guest_open();
    guest_say_hello(CLUSTER);
    assert_int_equal(guest.type, MSG_WELCOME);
    guest_say(MSG_ROSTER_WANTED, &(struct msg_roster_wanted){0});
    assert_int_equal(guest.type, MSG_ROSTER);
    // Refused, because the peer has not joined.
    guest_say(MSG_LEASE, &(struct msg_lease){0});
    assert_int_equal(guest.type, MSG_ERROR);
    guest_say(MSG_PUSH, &(struct msg_push){0});
    assert_int_equal(guest.type, MSG_ERROR);
    guest_say(MSG_STOP,
              &(struct msg_stop){.code = TUG_EINTERRUPTED, .why = wire_text("tool")});
    assert_int_equal(guest.type, MSG_OK);
    van_free(guest.v);
    check_end(TUG_EINTERRUPTED, "tool");
}

// The runs of owners of a space have no gaps, and add up to the number of partitions of
// each loop.
static void check_owners(const json_t *space)
{
    json_t *run;
    size_t i;
    json_int_t next = 0, of[16] = {0};
    json_array_foreach(json_object_get(space, "owners"), i, run) {
        json_int_t n = json_integer_value(json_array_get(run, 1)),
                   node = json_integer_value(json_array_get(run, 2));
        assert_int_equal(json_integer_value(json_array_get(run, 0)), next);
        assert_in_range(node, 1, 15);
        next += n;
        of[node] += n;
    }
    json_t *loops = json_object_get(space, "loops");
    assert_int_equal(next, json_integer_value(json_object_get(space, "partitions")));
    assert_int_equal(of[8], json_integer_value(json_object_get(loops, "8")));
    assert_int_equal(of[10], json_integer_value(json_object_get(loops, "10")));
}

static void check_operation(const json_t *status, size_t i, const char *what,
                            const char *who, const char *text)
{
    const json_t *o = json_array_get(json_object_get(status, "operations"), i);
    assert_string_equal(json_string_value(json_object_get(o, "what")), what);
    assert_non_null(strstr(json_string_value(json_object_get(o, "who")), who));
    assert_non_null(strstr(json_string_value(json_object_get(o, "text")), text));
    assert_true(json_number_value(json_object_get(o, "unix_seconds")) > 0);
}

// Only the last operations are stored, but all are counted.
static void test_operations(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    guest_open();
    guest_say_hello(CLUSTER);
    for (int i = 0; i < 100; i++) {
        char text[32];
        snprintf(text, sizeof(text), "number %d", i);
        scheduler_note(w.s, "admin", "a tool", text);
    }
    guest_say(MSG_STATUS, &(struct msg_status){});
    json_t *j = json_loads(guest.text, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(j, "operations")), 64);
    assert_int_equal(json_integer_value(json_object_get(j, "operations_seen")), 103);
    check_operation(j, 0, "admin", "a tool", "number 36");
    check_operation(j, 63, "admin", "a tool", "number 99");
    json_decref(j);
    world_crash(&w.actors[1]);
    world_run(&w, 600 * SECONDS);
    assert_int_equal(w.s->n_operations, 106); // without workers the cluster ends
    assert_string_equal(w.s->operations[103 % 64].what, "death");
    assert_string_equal(w.s->operations[104 % 64].what, "stop");
    assert_string_equal(w.s->operations[105 % 64].what, "leave");
    guest_close();
}

static void test_status(void **state)
{
    (void)state;
    struct member_options o;
    guest_open_world(2, 1);
    guest_add(WIRE_SERVER);
    guest_add(WIRE_SERVER);
    o = world_member(&w, WIRE_WORKER, 2);
    o.host = "a \"host\"\\\xff";
    world_add_with(&w, &o);
    world_run(&w, SECONDS);
    guest_open();
    guest_say_hello(CLUSTER);
    guest_say(MSG_STATUS, &(struct msg_status){});
    assert_int_equal(guest.type, MSG_STATUS_IS);
    json_t *j = json_loads(guest.text, 0, NULL);
    assert_non_null(j);
    assert_string_equal(json_string_value(json_object_get(j, "phase")), "running");
    assert_int_equal(json_array_size(json_object_get(j, "nodes")), 3);
    json_t *third = json_array_get(json_object_get(j, "nodes"), 2);
    assert_string_equal(json_string_value(json_object_get(third, "host")),
                        "a \"host\"\\?");
    json_t *sparse = json_object_get(json_object_get(j, "placement"), "sparse");
    json_t *loops = json_object_get(sparse, "loops");
    assert_int_equal(json_integer_value(json_object_get(loops, "8")) +
                         json_integer_value(json_object_get(loops, "10")),
                     64);
    check_owners(sparse);
    check_owners(json_object_get(json_object_get(j, "placement"), "dense"));
    check_operation(j, 0, "join", "server 0", "");
    check_operation(j, 3, "phase", "scheduler", "all have joined: 2 servers, 1 worker");
    assert_int_equal(json_integer_value(json_object_get(third, "pieces_held")), 0);
    assert_true(json_is_number(json_object_get(third, "seconds_since_progress")));
    assert_null(
        json_object_get(json_array_get(json_object_get(j, "nodes"), 0), "pieces_held"));
    json_decref(j);
    guest_close();
}

// Returns over how many seconds the status measures the worker's recent work.
static double recent_seconds(void)
{
    guest_say(MSG_STATUS, &(struct msg_status){});
    json_t *j = json_loads(guest.text, 0, NULL);
    const json_t *worker = json_array_get(json_object_get(j, "nodes"), 1),
                 *recent = json_object_get(worker, "recent");
    double ret = json_number_value(json_object_get(recent, "seconds"));
    assert_int_equal(json_integer_value(json_object_get(recent, "examples")), 0);
    assert_int_equal(json_integer_value(json_object_get(recent, "pieces")), 0);
    json_decref(j);
    return ret;
}

// The recent work of a worker is its work since it joined, and later its work of the last 30 to
// 60 seconds.
static void test_recent_work(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    guest_add_all(1, 1, false);
    guest_open();
    guest_say_hello(CLUSTER);
    double last = recent_seconds();
    assert_true(last < 5);
    for (int i = 0; i < 30; i++) {
        world_run(&w, 7 * SECONDS);
        double now = recent_seconds();
        assert_true(now > last ? now <= last + 8 : now >= 30 && i > 3);
        assert_true(now <= 61 && (i < 5 || now >= 30));
        last = now;
    }
    guest_close();
}

static void beat(uint64_t process)
{
    guest_say(MSG_HEARTBEAT, &(struct msg_heartbeat){.process = process});
    assert_int_equal(guest.type, MSG_HEARTBEAT_OK);
}

// A process that has sent heartbeats must keep sending them, or answer when it is asked.
// Otherwise it is told that it counts as dead.
static void test_heartbeats(void **state)
{
    (void)state;
    guest_open_world(1, 2);
    guest_add_all(1, 2, false);
    guest_open();
    guest_say_hello(CLUSTER);
    for (int i = 0; i < 10; i++) {
        beat(501);
        assert_int_equal(guest.value, 1);
        world_run(&w, SECONDS);
    }
    world_run(&w, 20 * SECONDS); // the process's member answers
    assert_true(roster_find(scheduler_roster(w.s), 9)->alive);
    sim_partition(w.sim, w.v, w.actors[1].v, true);
    world_run(&w, 6 * SECONDS);
    assert_false(roster_find(scheduler_roster(w.s), 9)->alive);
    // this process has never sent heartbeats
    assert_true(roster_find(scheduler_roster(w.s), 11)->alive);
    beat(501);
    assert_int_equal(guest.value, 0);
    struct err why;
    sim_partition(w.sim, w.v, w.actors[1].v, false);
    world_run(&w, SECONDS);
    assert_true(member_ended(w.actors[1].m, &why));
    assert_non_null(strstr(why.text, "counts as dead"));
    guest_close();
}

static void test_options(void **state)
{
    (void)state;
    struct scheduler *s;
    struct err e;
    struct scheduler_options o = world_options(0, 1);
    assert_int_equal(scheduler_open(&s, &o, &e), TUG_EUSAGE);
    o = world_options(1, 1);
    o.partition_bits = 17;
    assert_int_equal(scheduler_open(&s, &o, &e), TUG_EUSAGE);
    o = world_options(1, ROSTER_MAX_NODES + 1);
    assert_int_equal(scheduler_open(&s, &o, &e), TUG_EUSAGE);
}

// Each allocation fails once. Messages that are lost for that reason are requested or
// sent again.
static void test_no_memory(void **state)
{
    (void)state;
    bool struck = true;
    for (long k = 0; struck; k += 1 + k / 8) {
        size_t live = mem_live();
        guest_open_world(1, 1);
        world_add_all(&w, 1, 1, false);
        mem_fault_after(k);
        world_run(&w, 5 * SECONDS);
        member_barrier(w.actors[1].m, WIRE_GROUP_WORKERS);
        world_run(&w, 5 * SECONDS);
        assert_true(member_ready(w.actors[1].m));
        assert_true(member_barrier_done(w.actors[1].m, WIRE_GROUP_WORKERS, NULL));
        scheduler_stop(w.s, NULL);
        assert_int_equal(world_finish(&w, 60 * SECONDS).code, 0);
        struck = mem_faulted();
        mem_fault_after(-1);
        world_close(&w);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_tool),
        cmocka_unit_test(test_wanted_ranks),
        cmocka_unit_test(test_ids_and_ranks),
        cmocka_unit_test(test_missing_worker),
        cmocka_unit_test(test_missing_loops),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_server_dies),
        cmocka_unit_test(test_roster_without_server),
        cmocka_unit_test(test_worker_dies),
        cmocka_unit_test(test_last_worker_dies),
        cmocka_unit_test(test_without_driver),
        cmocka_unit_test(test_worker_replaced),
        cmocka_unit_test(test_fatal_leave),
        cmocka_unit_test(test_kinds_of_admin_operations),
        cmocka_unit_test(test_failing_leave),
        cmocka_unit_test(test_driver_dies),
        cmocka_unit_test(test_guests_come_and_go),
        cmocka_unit_test(test_stopped_from_inside),
        cmocka_unit_test(test_node_does_not_leave),
        cmocka_unit_test(test_late_joins),
        cmocka_unit_test(test_link_breaks),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_given_up_at_the_end),
        cmocka_unit_test(test_scheduler_gone),
        cmocka_unit_test(test_scheduler_silent),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_scheduler_as_member),
        cmocka_unit_test(test_bad_joins),
        cmocka_unit_test(test_started_again),
        cmocka_unit_test(test_guests_are_forgotten),
        cmocka_unit_test(test_other_cluster),
        cmocka_unit_test(test_no_hello),
        cmocka_unit_test(test_tool),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_recent_work),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_heartbeats),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
