// Pieces to be forgotten after a restart of the scheduler, while one worker never asks for
// work, or cannot reach the scheduler.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "cluster/scheduler/scheduler_keep.h"
#include "kit/actors.h"
#include "kit/journals.h"
#include "kit/test.h"

enum { PIECES = 60, IDLE = 1, BUSY = 2, DRIVER = 3 }; // numbers of actors

static struct memory_journal journal;
static struct world w;

static struct scheduler_options options(void)
{
    struct scheduler_options o = world_options(1, 2);
    o.dead_timeout_ns = 20 * SECONDS;
    o.journal = &journal.base;
    return o;
}

static bool is_done(void)
{
    struct msg_pass_state is;
    leases_state(w.s->leases, 1, &is, NULL);
    return is.done;
}

// Runs until all pieces are done, and returns the most pieces to be forgotten that there
// were at one time since the idle worker joined again.
static uint32_t run_pass(void)
{
    uint32_t most = 0;
    for (int i = 0; i < 100000 && !is_done(); i++) {
        world_run(&w, MILLIS);
        if (!leases_may_push(w.s->leases, 0, 0) && w.s->forgets.used > most)
            most = w.s->forgets.used;
    }
    assert_true(is_done());
    return most;
}

// Opens a cluster in which one of two workers does pieces, and the other one has joined but
// never asks for work. Runs until a few pieces are done, and then restarts the scheduler.
// `cut_off`: the idle worker cannot reach the new scheduler.
static void begin(bool cut_off)
{
    journals_open(&journal);
    struct scheduler_options o = options();
    world_open(&w, 1, &o);
    w.with_work = true;
    w.pieces = PIECES;
    w.passes = 1;
    world_add_all(&w, 1, 2, true);
    w.actors[IDLE].act_at = UINT64_MAX;
    for (int i = 0; i < 100000 && !w.actors[BUSY].has_piece; i++)
        world_run(&w, MILLIS);
    world_run(&w, 50 * MILLIS);
    assert_false(is_done());
    world_crash(&w.actors[DRIVER]); // it is in the scheduler's process
    world_restart_scheduler(&w, &o);
    if (cut_off)
        sim_partition(w.sim, w.actors[IDLE].v, w.v, true);
}

static void end(void)
{
    world_close(&w);
    journals_free(&journal);
}

// Counts the bytes of the journal's rows for pieces to be forgotten.
static size_t bytes_of_forgets(void)
{
    size_t sum = 0;
    for (size_t g = 0; g < journal.groups.len;) {
        uint64_t n;
        struct row_head h;
        memcpy(&n, journal.groups.data + g, sizeof(n));
        g += sizeof(n);
        for (size_t at = g; at < g + n; at += sizeof(h) + h.n) {
            memcpy(&h, journal.groups.data + at, sizeof(h));
            sum += h.kind == ROW_FORGETS ? sizeof(h) + h.n : 0;
        }
        g += n;
    }
    return sum;
}

// Servers forget pieces as soon as the idle worker has told that it has none.
static void test_idle_worker(void **state)
{
    (void)state;
    begin(false);
    assert_in_range(run_pass(), 0, 3);
    world_run(&w, SECONDS);
    assert_int_equal(w.s->forgets.used, 0);
    assert_int_equal(w.s->forgets.n, 0);
    end();
}

// While the idle worker cannot join, servers forget nothing. The journal gets one row for
// each piece when it is done, one when the worker is back, and one when servers have
// forgotten it; and not all pieces again in each commit.
static void test_cut_off_worker(void **state)
{
    const size_t row = sizeof(struct row_head) + 3 * sizeof(uint64_t);
    (void)state;
    begin(true);
    uint64_t before = bytes_of_forgets();
    (void)run_pass();
    uint32_t held = w.s->forgets.used;
    assert_in_range(held, PIECES / 2, PIECES);
    assert_in_range(bytes_of_forgets() - before, held * row, (held + 2) * row);
    assert_true(leases_may_push(w.s->leases, 0, 0));
    sim_partition(w.sim, w.actors[IDLE].v, w.v, false);
    for (int i = 0; i < 100000 && w.s->forgets.used > 0; i++)
        world_run(&w, MILLIS);
    assert_int_equal(w.s->forgets.used, 0);
    world_run(&w, SECONDS);
    assert_true(scheduler_node_of(w.s, member_id(w.actors[IDLE].m))->n.alive);
    assert_in_range(bytes_of_forgets() - before, 2 * held * row, 3 * (held + 2) * row);
    end();
}

// A worker that cannot join is declared dead. Then servers forget all pieces.
static void test_dead_worker(void **state)
{
    (void)state;
    begin(true);
    (void)run_pass();
    assert_in_range(w.s->forgets.used, PIECES / 2, PIECES);
    uint32_t id = member_id(w.actors[IDLE].m);
    for (int i = 0; i < 600 && w.s->forgets.used > 0; i++)
        world_run(&w, SECONDS / 10);
    assert_int_equal(w.s->forgets.used, 0);
    assert_false(scheduler_node_of(w.s, id)->n.alive);
    end();
}

// A worker that joins again tells which piece it has, until it has reported the piece.
static void test_worker_tells_its_piece(void **state)
{
    (void)state;
    begin(false);
    struct actor *busy = &w.actors[BUSY];
    for (int i = 0; i < 100000 && (!busy->has_piece || busy->asking); i++)
        world_run(&w, MILLIS);
    busy->act_at = UINT64_MAX;
    struct scheduler_options o = options();
    world_restart_scheduler(&w, &o);
    world_run(&w, SECONDS);
    for (uint64_t i = 0; i < PIECES; i++)
        assert_int_equal(leases_may_push(w.s->leases, 1, i), i == busy->piece.index);
    // It reports the piece, but does not ask for another one before the next restart.
    for (busy->act_at = 0; busy->has_piece;)
        world_run(&w, MILLIS);
    busy->act_at = UINT64_MAX;
    world_restart_scheduler(&w, &o);
    world_run(&w, SECONDS);
    for (uint64_t i = 0; i < PIECES; i++)
        assert_false(leases_may_push(w.s->leases, 1, i));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_worker),
        cmocka_unit_test(test_cut_off_worker),
        cmocka_unit_test(test_dead_worker),
        cmocka_unit_test(test_worker_tells_its_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
