// Servers that join late, are drained and die, and the moves of partitions between them.
// The servers are actors that follow the protocol of a move without having any rows.
//
// SPDX-License-Identifier: Apache-2.0
#include <jansson.h>
#include <string.h>

#include "kit/guest.h"
#include "kit/test.h"

static const struct roster *roster(void)
{
    return scheduler_roster(w.s);
}

static uint32_t load_of(int space, uint32_t id)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < 64; p++)
        n += roster()->owners[space][p] == id;
    return n;
}

static struct actor *add_late(bool fixed)
{
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    o.late = true;
    o.fixed = fixed;
    struct actor *a = world_add_with(&w, &o);
    world_run(&w, SECONDS);
    return a;
}

// Adds a late server that sends nothing more once its moves are in this state.
static struct actor *add_mute(enum wire_move_state state)
{
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    o.late = true;
    struct actor *a = world_add_with(&w, &o);
    a->mute = state;
    return a;
}

// Opens a world with n servers and a worker that never leaves.
static void open_servers(uint32_t n)
{
    guest_open_world(n, 1);
    guest_add_all(n, 1, false);
}

static void operate(uint16_t type, const void *msg, const char *expect)
{
    guest_open();
    guest_say_hello(CLUSTER);
    guest_say(type, msg);
    if (expect == NULL)
        assert_int_equal(guest.type, MSG_OK);
    else
        assert_string_equal(guest.text, expect);
    van_free(guest.v);
}

static void drain(uint32_t id, bool back, const char *expect)
{
    struct msg_drain m = {.node = id, .back = back};
    operate(MSG_DRAIN, &m, expect);
}

// Checks that all members have the scheduler's placement and that no move is under way.
static void check_settled(void)
{
    assert_int_equal(roster()->n_moves, 0);
    for (uint32_t i = 0; i < w.n; i++) {
        struct actor *a = &w.actors[i];
        if (a->crashed || member_ended(a->m, NULL))
            continue;
        const struct roster *r = member_roster(a->m);
        assert_int_equal(r->epoch, roster()->epoch);
        for (int space = 0; space < WIRE_SPACES; space++)
            assert_memory_equal(r->owners[space], roster()->owners[space],
                                64 * sizeof(uint32_t));
    }
}

static void check_log(const char *words, bool there)
{
    if ((strstr(w.log, words) != NULL) != there)
        fail_msg("%s in the log:\n%s", words, w.log);
}

static void test_late_server(void **state)
{
    (void)state;
    open_servers(2);
    struct roster before = *roster();
    uint32_t owners[64];
    memcpy(owners, before.owners[WIRE_SPACE_SPARSE], sizeof(owners));
    struct actor *late = add_late(false);
    assert_true(member_ready(late->m));
    assert_int_equal(member_rank(late->m), 2);
    check_log("placement: 63 partitions have to move, because server 2 has joined", true);
    world_run(&w, 100 * SECONDS);
    check_settled();
    check_log(" of 63 partitions have moved", true);
    check_log("placement: 63 partitions have moved in ", true);
    check_log(" MB, each stopped ", true);
    assert_int_equal(roster()->epoch, 1 + 63);
    for (int space = 0; space < WIRE_SPACES; space++)
        assert_int_equal(load_of(space, member_id(late->m)), 21);
    for (uint32_t p = 0; p < 64; p++) {
        uint32_t now = roster()->owners[WIRE_SPACE_SPARSE][p];
        assert_true(now == owners[p] || now == member_id(late->m));
    }
    world_close(&w);
}

// Moves that a target reports together end in one epoch. While they are handed over, their
// owners hand over nothing to another target.
static void test_together(void **state)
{
    (void)state;
    open_servers(2);
    struct actor *late = add_mute(WIRE_MOVE_ARRIVED);
    late->together = true;
    world_run(&w, 3 * SECONDS);
    const struct moving *m = &w.s->moving;
    assert_int_equal(m->n, 2);
    assert_true(m->list[0].handing && m->list[1].handing);
    uint32_t owner = m->list[0].from;
    struct actor *other = add_late(false);
    world_run(&w, 3 * SECONDS);
    for (uint32_t i = 0; i < m->n; i++)
        assert_true(!m->list[i].handing || m->list[i].from != owner ||
                    m->list[i].to == member_id(late->m));
    late->mute = 0;
    world_run(&w, 200 * SECONDS);
    check_settled();
    assert_in_range(load_of(WIRE_SPACE_SPARSE, member_id(late->m)), 16, 21);
    assert_in_range(load_of(WIRE_SPACE_SPARSE, member_id(other->m)), 16, 21);
    assert_true(roster()->epoch < 1 + m->done - 30);
    world_close(&w);
}

// A late server that joins while the cluster gathers waits until the cluster is complete.
static void test_late_server_waits(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    struct actor *late = add_late(false);
    assert_int_equal(member_id(late->m), 0);
    guest_add_all(1, 1, false);
    world_run(&w, 60 * SECONDS);
    assert_int_equal(member_rank(late->m), 1);
    assert_int_equal(load_of(WIRE_SPACE_SPARSE, member_id(late->m)), 32);
    world_close(&w);
}

// A late process takes part when all its loops have joined, each for its kind of tables.
static void test_late_loops(void **state)
{
    (void)state;
    open_servers(1);
    for (uint16_t i = 0; i < 2; i++) {
        struct member_options o = world_member(&w, WIRE_SERVER, w.n);
        o.late = true;
        o.process = 900;
        o.loop = i;
        o.loops = 2;
        o.tables = i == 0 ? WIRE_TABLES_SPARSE : WIRE_TABLES_DENSE;
        world_add_with(&w, &o);
        world_run(&w, 5 * SECONDS);
        if (i == 0)
            assert_int_equal(roster()->epoch, 1);
    }
    world_run(&w, 60 * SECONDS);
    check_settled();
    uint32_t sparse = member_id(w.actors[2].m), dense = member_id(w.actors[3].m);
    assert_int_equal(load_of(WIRE_SPACE_SPARSE, sparse), 32);
    assert_int_equal(load_of(WIRE_SPACE_SPARSE, dense), 0);
    assert_int_equal(load_of(WIRE_SPACE_DENSE, dense), 32);
    assert_int_equal(load_of(WIRE_SPACE_DENSE, sparse), 0);
    world_close(&w);
}

static void test_drain(void **state)
{
    (void)state;
    struct err why;
    open_servers(2);
    drain(8, false, NULL);
    drain(8, false, NULL); // the same request again
    drain(
        10, false,
        "server 1 (host:11) cannot be drained: no other server can take its partitions; "
        "start one with --join first");
    drain(9, false, "node 9 is not a living server; 'tug status' lists the nodes");
    world_run(&w, 120 * SECONDS);
    check_settled();
    for (int space = 0; space < WIRE_SPACES; space++)
        assert_int_equal(load_of(space, 10), 64);
    assert_true(member_ended(w.actors[0].m, &why));
    assert_int_equal(why.code, 0);
    assert_string_equal(why.text, "server 0 was drained");
    assert_true(member_left(w.actors[0].m));
    assert_false(member_ended(w.actors[1].m, NULL));
    check_log("operation: drain server 0, by a tool", true);
    check_log("server 0 (host:10) has left", true);
    // The worker ends the run, as in a cluster that was made for one server.
    w.actors[2].leaves_with = 0;
    member_leave(w.actors[2].m, NULL);
    struct err e = world_finish(&w, 60 * SECONDS);
    assert_int_equal(e.code, 0);
    world_close(&w);
}

static void test_drain_back(void **state)
{
    (void)state;
    open_servers(3);
    drain(8, false, NULL);
    world_run(&w, SECONDS);
    drain(8, true, NULL);
    world_run(&w, 120 * SECONDS);
    check_settled();
    assert_in_range(load_of(WIRE_SPACE_SPARSE, 8), 10, 24);
    assert_false(member_ended(w.actors[0].m, NULL));
    world_close(&w);
}

static void on_held(void *ctx, const struct van_message *m)
{
    assert_non_null(m);
    assert_int_equal(m->type, MSG_OK);
    *(int *)ctx = (int)m->m->ok.value;
}

static void hold(struct actor *a, bool on)
{
    struct msg_hold m = {.on = on};
    int held = -1;
    for (int i = 0; i < 500 && held < 1; i++) {
        held = -1;
        assert_int_equal(member_ask(a->m, MSG_HOLD, &m, on_held, &held), 0);
        while (held < 0)
            world_run(&w, SECONDS / 100);
    }
    assert_int_equal(held, roster()->epoch);
}

// While a node holds the placement, no owner changes. The moves continue when the hold
// ends, or when that node has died.
static void test_hold(void **state)
{
    (void)state;
    for (int dies = 0; dies < 2; dies++) {
        open_servers(2);
        add_late(false);
        world_run(&w, 2 * SECONDS);
        hold(&w.actors[2], true);
        uint64_t epoch = roster()->epoch;
        assert_in_range(epoch, 2, 40);
        world_run(&w, 20 * SECONDS);
        assert_int_equal(roster()->epoch, epoch);
        guest_add(WIRE_WORKER); // so that the run continues
        if (dies)
            world_crash(&w.actors[2]);
        else
            hold(&w.actors[2], false);
        world_run(&w, 120 * SECONDS);
        check_settled();
        assert_int_equal(roster()->epoch, 1 + 63);
        world_close(&w);
    }
}

static int held_now(struct actor *a, bool on)
{
    struct msg_hold m = {.on = on};
    int held = -1;
    assert_int_equal(member_ask(a->m, MSG_HOLD, &m, on_held, &held), 0);
    while (held < 0)
        world_run(&w, SECONDS / 100);
    return held;
}

// A hold waits at most 10 s for copies under way, because the operation that asked for it would
// interrupt them. No copy begins until the hold has ended; then copies begin at once.
static void test_hold_waits(void **state)
{
    (void)state;
    open_servers(2);
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    o.late = true;
    struct actor *late = world_add_with(&w, &o), *worker = &w.actors[2];
    late->mute = WIRE_MOVE_COPIED;
    world_run(&w, 3 * SECONDS);
    assert_int_not_equal(roster()->n_moves, 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(held_now(worker, true), 0);
        world_run(&w, 2 * SECONDS);
    }
    world_run(&w, 3 * SECONDS);
    assert_int_equal(held_now(worker, true), roster()->epoch);
    late->mute = 0;
    // The copy ends as if an admin operation had interrupted it.
    late->fails_with = TUG_EINTERRUPTED;
    world_run(&w, 20 * SECONDS);
    assert_int_equal(roster()->n_moves, 0);
    assert_int_equal(w.s->moving.retries[0][0].broken, 1);
    late->fails_with = 0;
    for (int i = 0; i < 300; i++) { // like operations that follow each other without a
                                    // pause
        assert_int_equal(held_now(worker, false), roster()->epoch);
        hold(worker, true);
    }
    hold(worker, false);
    world_run(&w, SECONDS);
    check_settled();
    assert_int_equal(roster()->epoch, 1 + 63);
    world_close(&w);
}

// Pretends that operations have interrupted the copies of a partition so often.
static void pretend_broken(uint32_t partition, uint32_t times)
{
    w.s->moving.retries[WIRE_SPACE_SPARSE][partition].broken = times;
}

// A hold that has waited 10 s keeps a partition from being handed over, but not a partition
// that was interrupted before, even if their target reports both together. So the hold
// is granted as soon as the latter has moved, and not after 40 s.
static void test_hold_waits_for_one(void **state)
{
    (void)state;
    open_servers(2);
    struct actor *worker = &w.actors[2], *late = add_mute(WIRE_MOVE_COPIED);
    late->together = true;
    world_run(&w, 3 * SECONDS);
    const struct moving *m = &w.s->moving;
    assert_int_equal(m->n, 2);
    const struct move first = m->list[0], second = m->list[1];
    pretend_broken(second.partition, 5);
    uint64_t began = sim_now(w.sim);
    assert_int_equal(held_now(worker, true), 0);
    world_run(&w, 10 * SECONDS);
    assert_int_equal(held_now(worker, true), 0);
    late->mute = 0;
    hold(worker, true);
    assert_true(sim_now(w.sim) <= began + 15 * SECONDS);
    assert_int_equal(m->done, 1);
    assert_int_equal(roster()->epoch, 2);
    assert_int_equal(roster()->owners[WIRE_SPACE_SPARSE][first.partition], first.from);
    assert_int_equal(roster()->owners[WIRE_SPACE_SPARSE][second.partition],
                     member_id(late->m));
    hold(worker, false);
    world_run(&w, 200 * SECONDS);
    check_settled();
    assert_int_equal(load_of(WIRE_SPACE_SPARSE, member_id(late->m)), 21);
    world_close(&w);
}

// Counts the moves to `to` from `from`, and those of them that are being handed over.
static uint32_t count_moves(uint32_t from, const struct actor *to, uint32_t *ret_handing)
{
    const struct moving *m = &w.s->moving;
    uint32_t n = 0;
    *ret_handing = 0;
    for (uint32_t i = 0; i < m->n; i++)
        if (m->list[i].from == from && m->list[i].to == member_id(to->m)) {
            n++;
            *ret_handing += m->list[i].handing;
        }
    return n;
}

// While an owner hands a partition over to another target, only its own partitions wait.
// The partitions of another owner that are reported with them are handed over.
static void test_busy_owner(void **state)
{
    (void)state;
    uint32_t handing;
    open_servers(2);
    struct actor *first = add_mute(WIRE_MOVE_ARRIVED);
    world_run(&w, 3 * SECONDS);
    struct moving *m = &w.s->moving;
    struct actor *second = add_mute(WIRE_MOVE_COPIED);
    second->together = true;
    world_run(&w, 3 * SECONDS);
    // Small partitions move many at a time.
    m->since_plan = m->bytes_since_plan = 1;
    scheduler_moves_begin(w.s);
    world_run(&w, 3 * SECONDS);
    uint32_t busy = 8, idle = 10;
    if (count_moves(busy, first, &handing) == 0 || handing == 0)
        busy = 10, idle = 8;
    assert_true(count_moves(busy, first, &handing) > 0);
    assert_int_equal(handing, 1);
    second->mute = WIRE_MOVE_ARRIVED;
    world_run(&w, 3 * SECONDS);
    assert_true(count_moves(busy, second, &handing) > 0);
    assert_int_equal(handing, 0);
    assert_true(count_moves(idle, second, &handing) > 0);
    assert_int_equal(handing, count_moves(idle, second, &handing));
    first->mute = second->mute = 0;
    world_run(&w, 200 * SECONDS);
    check_settled();
    world_close(&w);
}

// If a target dies before it owns a partition, the run continues, and the
// moves to it disappear.
static void test_target_dies(void **state)
{
    (void)state;
    open_servers(2);
    struct actor *late = add_late(false);
    late->mute = WIRE_MOVE_COPIED;
    world_run(&w, SECONDS);
    uint64_t epoch = roster()->epoch;
    bool owns = load_of(0, member_id(late->m)) > 0;
    world_crash(late);
    world_run(&w, 20 * SECONDS);
    assert_int_equal(scheduler_finished(w.s, NULL) || w.s->phase == SCHEDULER_ENDING,
                     owns);
    assert_int_equal(roster()->epoch, epoch);
    world_close(&w);
}

static void test_target_dies_empty(void **state)
{
    (void)state;
    open_servers(2);
    struct actor *late = add_mute(WIRE_MOVE_COPIED);
    world_run(&w, 3 * SECONDS);
    assert_int_not_equal(roster()->n_moves, 0);
    world_crash(late);
    world_run(&w, 20 * SECONDS);
    assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
    check_settled();
    assert_int_equal(roster()->epoch, 1);
    check_log("the move of partition 0 (sparse) from server ", true);
    check_log(" was given up: server 2 (host:13) is gone", true);
    // A new server takes the rank of the dead one.
    assert_int_equal(member_rank(add_late(false)->m), 2);
    world_run(&w, 120 * SECONDS);
    assert_int_equal(roster()->epoch, 1 + 63);
    world_close(&w);
}

static void test_owner_dies(void **state)
{
    (void)state;
    open_servers(2);
    add_late(false);
    world_crash(&w.actors[0]);
    struct err e = world_finish(&w, 60 * SECONDS);
    assert_int_equal(e.code, TUG_EIO);
    assert_non_null(strstr(e.text, "server 0 (host:10) was lost with partitions "));
    world_close(&w);
}

// If a target becomes silent, while it copies or during the hand-over, its move is given
// up; the partition keeps its owner, and the move is tried again.
static void test_silent_target(void **state)
{
    (void)state;
    static const enum wire_move_state states[] = {WIRE_MOVE_COPIED, WIRE_MOVE_ARRIVED};
    static const char *const words[] = {
        "its new owner sent nothing about it for 30 s; it is tried "
        "again in 5 s",
        "the hand-over made no progress for 15 s; it is "
        "tried again in 5 s"};
    for (int i = 0; i < 2; i++) {
        open_servers(1);
        struct member_options o = world_member(&w, WIRE_SERVER, w.n);
        o.late = true;
        struct actor *late = world_add_with(&w, &o);
        late->mute = states[i];
        world_run(&w, 10 * SECONDS);
        check_log(words[i], false);
        world_run(&w, 30 * SECONDS);
        check_log(words[i], true);
        assert_int_equal(roster()->epoch, 1);
        late->mute = 0;
        world_run(&w, 300 * SECONDS);
        check_settled();
        assert_int_equal(load_of(WIRE_SPACE_SPARSE, 8), 32);
        world_close(&w);
    }
}

static void test_failing_target(void **state)
{
    (void)state;
    open_servers(1);
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    o.late = true;
    struct actor *late = world_add_with(&w, &o);
    late->fails_with = TUG_EIO;
    world_run(&w, 4 * SECONDS);
    check_log("was given up: its own reason; it is tried again in 5 s", true);
    world_run(&w, 20 * SECONDS);
    check_log("was given up: its own reason; it is tried again in 10 s", true);
    late->fails_with = 0;
    world_run(&w, 300 * SECONDS);
    check_settled();
    assert_int_equal(load_of(WIRE_SPACE_SPARSE, 8), 32);
    world_close(&w);
}

// A target without room gets no more partitions until an operator asks for a rebalance.
static void test_full_target(void **state)
{
    (void)state;
    open_servers(2);
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    o.late = true;
    struct actor *late = world_add_with(&w, &o);
    late->fails_with = TUG_ENOMEM;
    world_run(&w, 100 * SECONDS);
    assert_int_equal(roster()->epoch, 1);
    check_settled();
    check_log("its own reason; it is tried again when servers come or go, or by a "
              "rebalance",
              true);
    uint64_t failed = w.s->moving.failed;
    assert_in_range(failed, 1, 4);
    late->fails_with = 0;
    world_run(&w, 100 * SECONDS);
    assert_int_equal(w.s->moving.failed, failed);
    operate(MSG_REBALANCE, &(struct msg_rebalance){}, NULL);
    world_run(&w, 100 * SECONDS);
    check_settled();
    assert_in_range(load_of(WIRE_SPACE_SPARSE, member_id(late->m)), 21, 22);
    world_close(&w);
}

// The partitions of a server whose own handlers have state do not move.
static void test_fixed(void **state)
{
    (void)state;
    guest_open_world(1, 1);
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    o.fixed = true;
    world_add_with(&w, &o);
    world_run(&w, SECONDS);
    guest_add_all(0, 1, false);
    struct err why;
    assert_true(member_ended(add_late(false)->m, &why));
    assert_string_equal(why.text,
                        "servers cannot be added later: handlers of the servers' "
                        "own program hold state that does not move");
    drain(
        8, false,
        "server 0 (host:10) cannot be drained: handlers of the servers' own program hold "
        "state that does not move");
    operate(
        MSG_REBALANCE, &(struct msg_rebalance){},
        "nothing can move: handlers of the servers' own program hold state that does not "
        "move");
    world_close(&w);
}

// A server without partitions may fail; the run does not need it.
static void test_empty_server_fails(void **state)
{
    (void)state;
    open_servers(1);
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    o.late = true;
    struct actor *late = world_add_with(&w, &o);
    late->leaves_with = TUG_EUSAGE;
    world_run(&w, 20 * SECONDS);
    assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
    check_log("server 1 (host:12) has left: its own reason", true);
    assert_int_equal(roster()->epoch, 1);
    world_close(&w);
}

static uint32_t count_log(const char *words)
{
    uint32_t n = 0;
    for (const char *at = w.log; (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

// When a drained process with two loops has left, the log says so once, and one plan is
// made. A server without room makes each plan visible, because each plan tries it again.
static void test_drained_loops_leave(void **state)
{
    (void)state;
    struct actor *loops[2];
    open_servers(2);
    for (uint16_t i = 0; i < 2; i++) {
        struct member_options o = world_member(&w, WIRE_SERVER, w.n);
        o.late = true;
        o.process = 900;
        o.loop = i;
        o.loops = 2;
        loops[i] = world_add_with(&w, &o);
    }
    world_run(&w, 120 * SECONDS);
    check_settled();
    assert_in_range(load_of(WIRE_SPACE_SPARSE, member_id(loops[1]->m)), 10, 20);
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    o.late = true;
    struct actor *full = world_add_with(&w, &o);
    full->fails_with = TUG_ENOMEM;
    world_run(&w, 20 * SECONDS);
    drain(member_id(loops[0]->m), false, NULL);
    world_run(&w, 240 * SECONDS);
    check_settled();
    assert_true(member_left(loops[0]->m) && member_left(loops[1]->m));
    assert_int_equal(count_log("have to move, because server 2 (host:"), 1);
    assert_int_equal(count_log(") has left"), 2); // in that line, and in one of its own
    world_close(&w);
}

static void test_status(void **state)
{
    (void)state;
    open_servers(2);
    struct actor *late = add_mute(WIRE_MOVE_ARRIVED);
    world_run(&w, 3 * SECONDS);
    drain(8, false, NULL);
    guest_open();
    guest_say_hello(CLUSTER);
    guest_say(MSG_STATUS, &(struct msg_status){});
    json_t *j = json_loads(guest.text, 0, NULL), *x;
    assert_non_null(j);
    x = json_array_get(json_object_get(j, "moves"), 0);
    assert_string_equal(json_string_value(json_object_get(x, "space")), "sparse");
    assert_string_equal(json_string_value(json_object_get(x, "state")), "handing over");
    assert_int_equal(json_integer_value(json_object_get(x, "to")), member_id(late->m));
    assert_int_equal(json_integer_value(json_object_get(x, "bytes_total")), 300);
    x = json_object_get(j, "moving");
    assert_int_equal(json_integer_value(json_object_get(x, "moves_done")), 0);
    assert_true(json_integer_value(json_object_get(x, "moves_left")) > 63);
    assert_true(json_real_value(json_object_get(x, "longest_stop_seconds")) == 0);
    assert_int_equal(json_array_size(json_object_get(x, "held_by")), 0);
    x = json_array_get(json_object_get(j, "nodes"), 0);
    assert_true(json_is_true(json_object_get(x, "draining")));
    json_decref(j);
    guest_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_server),
        cmocka_unit_test(test_late_server_waits),
        cmocka_unit_test(test_late_loops),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_drain_back),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_target_dies),
        cmocka_unit_test(test_target_dies_empty),
        cmocka_unit_test(test_owner_dies),
        cmocka_unit_test(test_silent_target),
        cmocka_unit_test(test_failing_target),
        cmocka_unit_test(test_full_target),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_empty_server_fails),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_hold_waits),
        cmocka_unit_test(test_hold_waits_for_one),
        cmocka_unit_test(test_busy_owner),
        cmocka_unit_test(test_drained_loops_leave),
        cmocka_unit_test(test_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
