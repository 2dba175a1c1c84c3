// Tests which nodes the scheduler counts as dead after it was itself stopped.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/guest.h"
#include "kit/test.h"

// If the scheduler itself was stopped when the time ended in which a node may come back,
// it does not count the node as dead, neither after a long nor after a short stop.
static void test_own_stop_is_forgiven(void **state)
{
    (void)state;
    static const uint64_t stops[] = {9 * SECONDS / 2, 6 * SECONDS / 5};
    for (int i = 0; i < 2; i++) {
        guest_open_cut_off();
        world_run(&w, 11 * SECONDS / 2 - stops[i]);
        sim_stop(w.sim, w.v, sim_now(w.sim) + stops[i], 0);
        world_run(&w, stops[i]);
        sim_partition(w.sim, w.v, w.actors[1].v, false);
        world_run(&w, 10 * SECONDS);
        assert_true(roster_find(scheduler_roster(w.s), 9)->alive);
        assert_false(member_ended(w.actors[1].m, NULL));
        world_close(&w);
    }
}

// On a busy machine each tick of the scheduler is late. A dead node is found all the same.
static void test_stopped_again_and_again(void **state)
{
    (void)state;
    static const uint64_t stops[] = {200, 400, 640, 1000, 1200};
    for (int i = 0; i < 5; i++) {
        guest_open_cut_off();
        uint64_t begin = sim_now(w.sim);
        while (roster_find(scheduler_roster(w.s), 9)->alive) {
            assert_true(sim_now(w.sim) < begin + 20 * SECONDS);
            sim_stop(w.sim, w.v, sim_now(w.sim) + stops[i] * MILLIS, 0);
            world_run(&w, (stops[i] + 10) * MILLIS);
        }
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_stop_is_forgiven),
        cmocka_unit_test(test_stopped_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
